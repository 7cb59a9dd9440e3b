"""Ending a ladder early: only where even the intervals' upper ends leave the claim no room."""

import pytest

from speedrun.scoring import compare, trend
from speedrun.scoring.futility import futility
from tests.scoring.conftest import BUDGETS, MakeRuns

TOP = BUDGETS["1_4b"]


def test_a_method_that_loses_is_stopped_and_one_that_gains_goes_on(make_runs: MakeRuns) -> None:
    losing = compare(make_runs({"30m": 0.7, "75m": 0.7, "300m": 0.7}), "cand", "base")
    assert futility(losing, 1.0, TOP).is_futile
    gaining = compare(make_runs({"30m": 1.3, "75m": 1.3, "300m": 1.3}), "cand", "base")
    assert not futility(gaining, 1.0, TOP).is_futile
    # The same runs, against a claim far above what they leave room for.
    assert futility(gaining, 3.0, TOP).is_futile


def test_room_is_the_upper_ends_carried_to_the_top(make_runs: MakeRuns) -> None:
    comparison = compare(make_runs({"30m": 1.0, "75m": 1.1, "300m": 1.25}), "cand", "base")
    slope, at_300m = trend(comparison).slope.high, comparison.rungs[-1].speedup.high
    assert slope is not None and slope > 0 and at_300m is not None
    # From 1.08e19 to 2.352e20 FLOPs.
    assert futility(comparison, 1.0, TOP).highest_speedup == pytest.approx(at_300m * (235.2 / 10.8) ** slope)


def test_nothing_is_stopped_on_one_rung_or_without_noise(make_runs: MakeRuns) -> None:
    one = compare(make_runs({"30m": 0.5}), "cand", "base")
    assert not futility(one, 1.0, TOP).is_futile
    quiet = compare(make_runs({"30m": 0.5, "75m": 0.5}, seeds=1), "cand", "base")
    found = futility(quiet, 1.0, TOP)
    assert not found.is_futile
    assert found.reason.startswith("undecided")
