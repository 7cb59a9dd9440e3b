import json
import math
import subprocess
import sys

import numpy as np
import pytest

from speedrun.scoring import Estimate
from speedrun.scoring.estimate import interval, ratio_estimate, share


def test_percentiles_of_plain_draws() -> None:
    assert interval(np.arange(1001.0)) == pytest.approx((50, 950), abs=1)


def test_a_draw_that_could_lie_anywhere_widens_both_ends() -> None:
    draws = np.arange(100.0)
    few, many = draws.copy(), draws.copy()
    few[40:43], many[40:46] = math.nan, math.nan
    assert interval(few)[0] < interval(draws)[0] and interval(few)[1] > interval(draws)[1]
    assert interval(many) == (-math.inf, math.inf)


def test_infinite_draws_open_one_end_only() -> None:
    draws = np.r_[np.zeros(90), np.full(10, math.inf)]
    found = ratio_estimate(0.0, draws)
    assert (found.value, found.low, found.high) == (1, 1, math.inf)


def test_json_never_holds_an_infinity_or_a_nan() -> None:
    for estimate in (Estimate(1.2, 1.1, math.inf), Estimate.undefined("why"), Estimate(2.0)):
        assert json.loads(json.dumps(estimate.as_dict(), allow_nan=False)) == estimate.as_dict()
    assert Estimate.undefined("why").as_dict()["reason"] == "why"
    assert Estimate(1.2, -math.inf, 2.0).as_dict()["reason"] == "the interval has no lower end"


def test_scaling_keeps_what_is_undefined_undefined() -> None:
    assert Estimate(2.0, 1.0, 3.0).scaled(0.5) == Estimate(1.0, 0.5, 1.5)
    assert Estimate.undefined("why").scaled(2.0) == Estimate.undefined("why")


def test_no_share_of_draws_is_nothing() -> None:
    assert share(np.zeros(999, bool)) == pytest.approx(0.001)
    assert share(np.ones(999, bool)) == 1


@pytest.mark.parametrize("module", ["speedrun.scoring", "speedrun.records.legacy"])
def test_scoring_needs_no_jax(module: str) -> None:
    heavy = "{'jax', 'levanter', 'haliax', 'marin'} & {name.partition('.')[0] for name in sys.modules}"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print({heavy})"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
