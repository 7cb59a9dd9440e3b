"""Sweeps: points add up over reruns, and a winner at the edge is flagged."""

from pathlib import Path

import pytest

from speedrun.errors import SpeedrunError
from speedrun.records.sweeps import SWEEP_FILE, SweepPoint, fields_at_edge, keep_points, read_sweep


def point(rate: float, seed: int = 42, score: float | None = 2.0) -> SweepPoint:
    return SweepPoint(
        overrides={"rate": rate},
        seed=seed,
        recipe_fingerprint=f"f{rate}",
        bits_per_byte=score,
        model_flops=None if score is None else 10.0,
        training_time=None if score is None else 3.0,
    )


def test_the_cost_of_the_search_adds_up_over_commands_and_nothing_counts_twice(tmp_path: Path) -> None:
    keep_points(tmp_path, [point(0.1), point(0.2, score=None)])
    sweep = keep_points(tmp_path, [point(0.1), point(0.4), point(0.1, seed=43)])
    assert [(p.overrides["rate"], p.seed) for p in sweep.points] == [(0.1, 42), (0.1, 43), (0.2, 42), (0.4, 42)]
    assert (sweep.model_flops, sweep.training_seconds) == (30.0, 9.0)
    assert read_sweep(tmp_path) == sweep


def test_a_damaged_sweep_is_refused(tmp_path: Path) -> None:
    (tmp_path / SWEEP_FILE).write_text("{")
    with pytest.raises(SpeedrunError, match="cannot be read as a sweep"):
        keep_points(tmp_path, [point(0.1)])
    assert (tmp_path / SWEEP_FILE).read_text() == "{"


@pytest.mark.parametrize(
    ("winner", "values", "edges"),
    [
        (0.1, [0.1, 0.2, 0.4], ["rate"]),
        (0.2, [0.1, 0.2, 0.4], []),
        (0.4, [0.4, 0.1, 0.2], ["rate"]),
        # One value is no search.
        (0.2, [0.2, 0.2, 0.2], []),
        ("cosine", ["cosine", "linear"], []),
    ],
)
def test_edges(winner: object, values: list[object], edges: list[str]) -> None:
    assert fields_at_edge({"rate": winner}, {"rate": values}) == edges
