"""Marin's historic board on ours: known values, worked out independently or published."""

import pytest

from speedrun.board.model import PublicBoard
from speedrun.board.public import public_board
from speedrun.project import Project

SPLASH = "hackable_transformer_starter/attnsink/splash"


@pytest.fixture(scope="module")
def public() -> PublicBoard:
    from pathlib import Path

    shown = public_board(Project(Path(__file__).parents[2]))
    assert shown is not None
    return shown


@pytest.mark.parametrize(
    ("suite", "projection"),
    [
        ("adamw_llama_scaling", 0.8678),
        ("muonh_qwen3_scaling", 0.8259),
        ("cautious_llama_scaling", 0.8382),
        ("muon_llama_scaling", 0.8531),
        ("hackable_transformer_starter/std_attn", 0.8573),
        ("parallel_llama", 0.8749),
    ],
)
def test_projections_at_1e22_are_the_optimum(public: PublicBoard, suite: str, projection: float) -> None:
    line = next(line for line in public.lines if line.candidate == suite)
    assert line.projection is not None
    assert line.projection.value == pytest.approx(projection, abs=0.0005)
    assert line.projection.low <= line.projection.value <= line.projection.high


def test_a_run_under_two_names_is_ranked_once(public: PublicBoard) -> None:
    ranked = [row for row in public.rows if row.rank is not None]
    assert len({row.run_link for row in ranked}) == len(ranked)
    twice = [row for row in public.rows if "duplicate_run" in row.flags]
    assert {row.candidate for row in twice} == {SPLASH} and len(twice) == 4
    assert all(row.rank is None and "another row" in row.not_ranked for row in twice)


def test_what_loses_everywhere_ranks_below_what_beats_it(public: PublicBoard) -> None:
    for rung in ("130m", "300m", "520m", "1_2b"):
        ranks = {row.candidate: row.rank for row in public.rows if row.rung == rung and row.rank}
        assert ranks[f"{SPLASH}/default_x4"] > ranks[f"{SPLASH}/default_lr"]


def test_muonh_leads_at_the_top_and_its_speedup_is_within_the_public_range(public: PublicBoard) -> None:
    top = next(row for row in public.rows if row.rung == "1_2b" and row.rank == 1)
    assert top.candidate == "muonh_qwen3_scaling"
    # By the asymptote alone it ranges from 1.46 to 1.83; the least-squares one lies just above.
    assert 1.46 < top.speedup.low < 1.83 < top.speedup.high < 2


def test_targets_are_reached_by_who_reaches_them(public: PublicBoard) -> None:
    track = next(track for track in public.tracks if track.name == "llama_1_4b")
    costs = [hit.model_flops for hit in track.by_flops]
    assert track.by_flops and costs == sorted(costs)
    assert all(hit.bits_per_byte <= 0.9557313919067384 for hit in track.by_flops + track.by_time)
