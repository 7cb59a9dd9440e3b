"""Tables of runs for the scoring tests."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from speedrun.records.legacy import PublicBoard, read_board

BUDGETS = {"30m": 1.08e17, "75m": 6.75e17, "300m": 1.08e19, "1_4b": 2.352e20}

MakeRuns = Callable[..., pd.DataFrame]


def true_loss(model_flops: float) -> float:
    """The baseline's loss in these tests: 0.8 + 0.7 (C / 1e17)^-0.2 bits per byte."""
    return 0.8 + 0.7 * (model_flops / 1e17) ** -0.2


@pytest.fixture
def make_runs() -> MakeRuns:
    """Makes runs of the baseline "base" and of "cand", whose true speedup at each rung is given."""

    def make(speedups: Mapping[str, float], *, sigma: float = 0.001, seeds: int = 3, rungs: int = 4) -> pd.DataFrame:
        # Each arm's mean is exactly the true loss and its spread exactly sigma, so that no test hangs on a lucky draw.
        spread = np.linspace(-1, 1, seeds)
        spread = sigma * spread / spread.std(ddof=1) if seeds > 1 else np.zeros(1)
        rows = []
        for rung, budget in list(BUDGETS.items())[:rungs]:
            for candidate, gain in (("base", 1.0), ("cand", speedups.get(rung))):
                for seed in range(seeds if gain else 0):
                    score = true_loss(budget * (gain or 1.0)) + spread[seed]
                    rows.append((candidate, rung, seed, score, budget))
        return pd.DataFrame(rows, columns=["candidate", "rung", "seed", "bits_per_byte", "model_flops"])

    return make


@pytest.fixture(scope="session")
def board() -> PublicBoard:
    """The public board as this repository holds it."""
    return read_board(Path(__file__).parents[2] / "results" / "marin" / "board.json")


@pytest.fixture(scope="session")
def public_runs(board: PublicBoard) -> pd.DataFrame:
    """Its rows that may be ranked."""
    return board.runs[board.runs["ranked"]]
