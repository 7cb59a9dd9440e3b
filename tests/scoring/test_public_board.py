"""Known values: what the public board's figures give, worked out independently of this code."""

import math
from datetime import date

import numpy as np
import pandas as pd
import pytest

from speedrun.records.legacy import PublicBoard
from speedrun.scoring import Comparison, Curve, Dominance, Noise, arms_of, compare, fit_curve, rank
from speedrun.scoring.power import detectable_loss
from speedrun.scoring.speedup import speedup_through_point
from speedrun.scoring.table import all_arms

BASELINE = "adamw_llama_scaling"


def curve_of(runs: pd.DataFrame, candidate: str) -> Curve:
    own = runs[runs["candidate"] == candidate]
    return fit_curve(own["model_flops"].tolist(), own["bits_per_byte"].tolist())


@pytest.mark.parametrize(
    ("candidate", "projection"),
    [
        (BASELINE, 0.8678),
        ("muonh_qwen3_scaling", 0.8259),
        ("cautious_llama_scaling", 0.8382),
        ("muon_llama_scaling", 0.8531),
        ("hackable_transformer_starter/std_attn", 0.8573),
        ("parallel_llama", 0.8749),
    ],
)
def test_least_squares_projections_at_1e22_flops(public_runs, candidate: str, projection: float) -> None:
    assert curve_of(public_runs, candidate).loss(1e22) == pytest.approx(projection, abs=0.0005)


# What the board's own fit projects: Levenberg-Marquardt stopped by its iteration limit, 200, short of its optimum.
STOPPED_SHORT = {
    "adamc_llama_scaling": 0.835123,
    "adamh_llama_scaling": 0.827553,
    "adamw_llama_scaling": 0.840963,
    "c-adamc_llama_scaling": 0.829101,
    "cautious_llama_scaling": 0.829523,
    "hackable_transformer_starter/attnsink/jax": 0.837415,
    "hackable_transformer_starter/attnsink/splash/default_lr": 0.837210,
    "hackable_transformer_starter/attnsink/splash/default_x0.25": 0.864333,
    "hackable_transformer_starter/attnsink/splash/default_x0.5": 0.847693,
    "hackable_transformer_starter/attnsink/splash/default_x2": 0.830284,
    "hackable_transformer_starter/attnsink/splash/default_x4": 0.833130,
    "hackable_transformer_starter/std_attn": 0.835373,
    "muon_llama_scaling": 0.836064,
    "muon_qwen3_scaling": 0.836084,
    "muonh_qwen3_scaling": 0.822481,
    "parallel_llama": 0.838819,
    "parallel_llama/old_scaling/tpu": 0.780527,
}


def test_eleven_of_seventeen_groups_change_rank_at_the_optimum(public_runs) -> None:
    optima = {name: curve_of(public_runs, name).loss(1e22) for name in STOPPED_SHORT}
    before, after = (sorted(losses, key=lambda name: losses[name]) for losses in (STOPPED_SHORT, optima))
    assert sum(before.index(name) != after.index(name) for name in STOPPED_SHORT) == 11


def test_the_four_repeated_runs_stand_once(board: PublicBoard, public_runs) -> None:
    assert len(board.runs) == 96
    assert public_runs["run_link"].is_unique and len(public_runs) == 92
    repeated = board.runs[board.runs["flags"].map(lambda flags: "duplicate_run" in flags)]
    assert set(repeated["candidate"]) == {"hackable_transformer_starter/attnsink/splash"}
    assert "hackable_transformer_starter/attnsink/splash/default_lr" in set(public_runs["candidate"])


def test_the_board_shows_its_age_and_targets(board: PublicBoard) -> None:
    assert board.age_in_days(date(2026, 11, 30)) == 344
    assert board.targets["llama_75m"] == pytest.approx(1.2788727)


@pytest.fixture(scope="module")
def comparisons(public_runs) -> list[Comparison]:
    names = [name for name in public_runs["candidate"].unique() if "/" in name or "scaling" in name]
    return [compare(public_runs, name, BASELINE, noise=Noise.assumed()) for name in names]


@pytest.mark.parametrize("rung", ["130m", "300m", "520m", "1_2b"])
def test_what_loses_everywhere_never_ranks_above_what_beats_it(public_runs, comparisons, rung: str) -> None:
    arms = all_arms(public_runs)
    compared = Dominance.of({each.candidate: arms[each.candidate] for each in comparisons})
    table = rank(comparisons, compared, rung).set_index("candidate")
    splash = "hackable_transformer_starter/attnsink/splash"
    assert table.at[f"{splash}/default_x4", "rank"] > table.at[f"{splash}/default_lr", "rank"]
    assert f"{splash}/default_lr" in table.at[f"{splash}/default_x4", "beaten_by"]
    assert table.at[BASELINE, "speedup"] == 1


def test_muonh_at_the_top_rung_is_a_band_that_the_asymptote_decides(public_runs) -> None:
    muonh, adamw = (arms_of(public_runs, name)["1_2b"] for name in ("muonh_qwen3_scaling", BASELINE))
    points = public_runs[public_runs["candidate"] == BASELINE]
    log_flops, losses = np.log(points["model_flops"]), points["bits_per_byte"]

    def given(asymptote: float) -> float:
        exponent = -np.polyfit(log_flops, np.log(losses - asymptote), 1)[0]
        curve = Curve(asymptote, math.nan, exponent, (), (), (), "")
        return speedup_through_point(curve, muonh, adamw)

    assert (given(0.0), given(0.8)) == pytest.approx((1.46, 1.83), abs=0.01)
    # The least-squares asymptote is 0.810, so the speedup there lies just above that range.
    found = compare(public_runs, "muonh_qwen3_scaling", BASELINE, noise=Noise.assumed()).rungs[-1].speedup
    assert found.value == pytest.approx(given(0.81), abs=0.01)
    assert found.low is not None and found.low < 1.83


@pytest.mark.parametrize(
    ("between", "percent_per_thousandth", "gains"),
    [
        (("130m", "300m"), 1.5, (2.6, 1.5, 1.2)),
        (("300m", "520m"), None, (3.8, 2.2, 1.7)),
        (("520m", "1_2b"), 2.9, (5.2, 3.0, 2.3)),
    ],
)
def test_power_on_the_public_adamw_ladder(public_runs, between, percent_per_thousandth, gains) -> None:
    curve, arms = curve_of(public_runs, BASELINE), arms_of(public_runs, BASELINE)
    loss = curve.loss(math.sqrt(arms[between[0]].model_flops * arms[between[1]].model_flops))
    if percent_per_thousandth:
        assert 100 * 0.001 / curve.loss_per_log_compute(loss) == pytest.approx(percent_per_thousandth, abs=0.05)
    for seeds, gain in zip((1, 3, 5), gains, strict=True):
        found = curve.speedup_of_loss(loss, detectable_loss(seeds, Noise.assumed(0.0004))) - 1
        assert 100 * found == pytest.approx(gain, abs=0.2)
