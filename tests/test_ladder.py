"""The rungs' budgets are the seed's, and names are checked."""

import pytest

from speedrun.errors import UnknownNameError
from speedrun.ladder import LADDER, MICRO, rungs_named


@pytest.mark.parametrize(
    ("rung", "budget"), [("30m", 1.08e17), ("75m", 6.75e17), ("300m", 1.08e19), ("1_4b", 2.352e20)]
)
def test_standard_budgets_are_6nd_at_20_tokens_per_parameter(rung: str, budget: float) -> None:
    assert LADDER[rung].budget_flops == pytest.approx(budget, rel=1e-12)


def test_micro_budgets_grow_by_two_and_a_half() -> None:
    budgets = [rung.budget_flops for rung in MICRO]
    assert [after / before for before, after in zip(budgets, budgets[1:], strict=False)] == pytest.approx([2.5] * 3)


def test_rungs_come_in_ladder_order_without_repeats() -> None:
    assert [rung.name for rung in rungs_named(["75m", "30m", "75m"])] == ["30m", "75m"]


def test_unknown_rung_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'micro_1'"):
        rungs_named(["micro1"])


def test_micro_runs_never_stand_under_palomas_key() -> None:
    assert {rung.levanter_key for rung in MICRO} == {"eval/micro/heldout/bpb"}
