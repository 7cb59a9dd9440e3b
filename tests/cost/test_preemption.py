"""Checkpoints against preemption: the formula against Young's rule, the simulation, and the default."""

import random
import statistics

import pytest

from speedrun.cost.preemption import best_interval_seconds, expected_overhead, simulated_seconds
from speedrun.steps.dag import CHECKPOINT_EVERY


def test_the_best_interval_is_youngs_for_cheap_checkpoints_and_a_minimum() -> None:
    # Young: sqrt(2 x 10 x 3600) = 268.3; Daly's next terms and the exact optimum bring it to about 262.
    best = best_interval_seconds(10, 3600)
    assert best == pytest.approx(262, abs=1)
    assert expected_overhead(best, 10, 300, 3600) < min(expected_overhead(best + by, 10, 300, 3600) for by in (-9, 9))


def test_nothing_is_lost_where_nothing_fails() -> None:
    # A checkpoint of 10 s for each 100 s of training is 10 %.
    assert expected_overhead(100, 10, 300, 1e12) == pytest.approx(0.1, rel=1e-6)
    assert simulated_seconds(1000, 100, 10, 300, 1e12, random.Random(0)) == pytest.approx(1100)


@pytest.mark.parametrize("interval", [120.0, 300.0, 1200.0])
def test_the_simulation_agrees(interval: float) -> None:
    chance = random.Random(0)
    runs = [simulated_seconds(20 * interval, interval, 10, 300, 3600, chance) for _ in range(2000)]
    error = statistics.stdev(runs) / len(runs) ** 0.5
    expected = 20 * interval * (1 + expected_overhead(interval, 10, 300, 3600))
    assert abs(statistics.mean(runs) - expected) < 4 * error


def test_the_default_interval_costs_hardly_more_than_the_best() -> None:
    best = expected_overhead(best_interval_seconds(10, 3600), 10, 300, 3600)
    assert expected_overhead(CHECKPOINT_EVERY.total_seconds(), 10, 300, 3600) - best < 0.005
