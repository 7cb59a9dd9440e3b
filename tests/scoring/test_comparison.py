import math

import numpy as np
import pandas as pd
import pytest

from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.scoring import Noise, arms_of, check_runs, compare, fit_curve, pairwise_test
from speedrun.scoring.speedup import interpolated_log_flops

EVERYWHERE = {"30m": 1.3, "75m": 1.3, "300m": 1.3, "1_4b": 1.3}


def test_without_noise_the_true_speedup_comes_out(make_runs) -> None:
    found = compare(make_runs(EVERYWHERE, sigma=0), "cand", "base", noise=Noise.assumed())
    assert [rung.rung for rung in found.rungs] == ["30m", "75m", "300m", "1_4b"]
    for rung in found.rungs:
        assert rung.speedup.value == pytest.approx(1.3, rel=1e-4)
        assert rung.speedup.low < 1.3 < rung.speedup.high
        assert rung.without_a_rung == pytest.approx((1.3, 1.3), rel=1e-3)


def test_compute_that_was_not_spent_counts_as_gain(make_runs) -> None:
    runs = make_runs({"30m": 1.0, "75m": 1.0, "300m": 1.0, "1_4b": 1.0}, sigma=0)
    runs.loc[runs["candidate"] == "cand", "model_flops"] /= 2
    found = compare(runs, "cand", "base", noise=Noise.assumed())
    assert [rung.speedup.value for rung in found.rungs] == pytest.approx([2.0] * 4)


def test_speedup_goes_through_the_measured_point_not_along_the_curve(make_runs) -> None:
    runs = make_runs(EVERYWHERE, sigma=0)
    runs.loc[runs["rung"] == "75m", "bits_per_byte"] += 0.01  # the rung is hard for both
    found = {rung.rung: rung for rung in compare(runs, "cand", "base", noise=Noise.assumed()).rungs}
    assert found["75m"].speedup.value == pytest.approx(1.3, rel=0.03)
    base = runs[runs["candidate"] == "base"].groupby("rung")[["model_flops", "bits_per_byte"]].mean()
    curve = fit_curve(base["model_flops"].tolist(), base["bits_per_byte"].tolist())
    along = curve.flops(found["75m"].candidate.bits_per_byte) / 6.75e17
    assert along < 1.26


def test_interpolation_knows_no_curve_and_stays_inside_the_measured_range(make_runs) -> None:
    found = {rung.rung: rung for rung in compare(make_runs(EVERYWHERE), "cand", "base").rungs}
    # The chord from 30m to 75m: by hand, with the true losses 0.8 + 0.7 (C / 1e17)^-0.2.
    start, end = 0.8 + 0.7 * 1.08**-0.2, 0.8 + 0.7 * 6.75**-0.2
    by_hand = 6.25 ** ((start - (0.8 + 0.7 * (1.08 * 1.3) ** -0.2)) / (start - end))
    assert found["30m"].interpolated.value == pytest.approx(by_hand, abs=0.02)
    assert by_hand > 1.3
    assert found["1_4b"].interpolated.value is None
    assert "outside the baseline's measured range" in found["1_4b"].interpolated.reason


def test_interpolation_between_rungs_by_hand() -> None:
    flops, losses = [1e17, 1e18, 1e19], np.array([[1.5, 1.3, 1.2]] * 4)
    found = interpolated_log_flops(flops, losses, np.array([1.5, 1.4, 1.25, 1.19]))
    assert found[:3] == pytest.approx(np.log([1e17, 10**17.5, 10**18.5]))
    assert math.isnan(found[3])
    assert math.isnan(interpolated_log_flops(flops, np.array([[1.5, 1.6, 1.2]]), np.array([1.45]))[0])


def test_two_budgets_are_too_few_for_a_speedup_but_not_for_a_verdict(make_runs) -> None:
    found = compare(make_runs(EVERYWHERE, rungs=2), "cand", "base")
    assert found.curve is None
    for rung in found.rungs:
        assert rung.speedup.value is None and rung.speedup.low is None
        assert "2 budget(s) and a curve needs 3" in rung.speedup.reason
        assert rung.realised.value is None and rung.log_draws is None
        assert rung.p_better is not None and rung.p_better < 0.01


def test_a_loss_below_the_asymptote_is_undefined_and_says_so(make_runs) -> None:
    runs = make_runs(EVERYWHERE)
    runs.loc[(runs["candidate"] == "cand") & (runs["rung"] == "1_4b"), "bits_per_byte"] = 0.7 + 0.001 * np.arange(3)
    top = compare(runs, "cand", "base").rungs[-1]
    assert top.speedup.value is None
    assert "at or below the baseline's asymptote" in top.speedup.reason
    assert top.speedup.as_dict()["value"] is None
    assert top.p_better is not None and top.p_better < 0.01


def test_an_interval_that_noise_leaves_open_is_open(make_runs) -> None:
    runs = make_runs(EVERYWHERE, sigma=0)
    runs.loc[(runs["candidate"] == "cand") & (runs["rung"] == "1_4b"), "bits_per_byte"] = 0.806
    top = compare(runs, "cand", "base", noise=Noise.assumed(0.01)).rungs[-1].speedup
    assert top.value is not None and top.low is not None and top.low > 1
    assert top.high == math.inf
    assert top.as_dict() | {"value": None, "low": None} == {
        "value": None,
        "low": None,
        "high": None,
        "reason": "the interval has no upper end",
    }


def test_single_seeds_show_no_noise_and_so_no_interval(make_runs) -> None:
    found = compare(make_runs(EVERYWHERE, seeds=1), "cand", "base")
    assert found.noise is None and "single seed" in found.noise_problem
    assert found.rungs[0].speedup.value == pytest.approx(1.3, abs=0.1)
    assert not found.rungs[0].speedup.has_interval and "single seed" in found.rungs[0].speedup.reason
    assert found.rungs[0].p_better is None


def test_a_baseline_against_itself_gains_nothing(make_runs) -> None:
    found = compare(make_runs(EVERYWHERE), "base", "base")
    for rung in found.rungs:
        assert (rung.speedup.value, rung.speedup.low, rung.speedup.high) == (1, 1, 1)
        assert rung.p_better == rung.p_worse == 1


def test_rungs_that_the_baseline_lacks_are_named(make_runs) -> None:
    runs = make_runs(EVERYWHERE)
    runs = runs[~((runs["candidate"] == "base") & (runs["rung"] == "1_4b"))]
    found = compare(runs, "cand", "base")
    assert found.unmatched == ("1_4b",)
    assert [rung.rung for rung in found.rungs] == ["30m", "75m", "300m"]


def test_the_same_arguments_give_the_same_answer_whoever_else_is_in_the_table(make_runs) -> None:
    runs = make_runs(EVERYWHERE)
    other = runs[runs["candidate"] == "cand"].assign(candidate="other")
    alone, beside = compare(runs, "cand", "base"), compare(pd.concat([other, runs]), "cand", "base")
    assert alone.rungs == beside.rungs


def test_draws_agree_with_students_t_at_equal_compute(make_runs) -> None:
    runs = make_runs({"30m": 1.004, "75m": 1.004, "300m": 1.004, "1_4b": 1.004}, seeds=2)
    found = compare(runs, "cand", "base", draws=40_000)
    assert found.noise is not None
    cand, base = arms_of(runs, "cand"), arms_of(runs, "base")
    for rung in found.rungs:
        exact = pairwise_test(cand[rung.rung], base[rung.rung], found.noise).p_better
        assert rung.p_better == pytest.approx(exact, abs=0.01)


def test_realised_speedup_is_the_gain_in_time(make_runs) -> None:
    runs = make_runs(EVERYWHERE, sigma=0).assign(hardware="v5p-8", flops_per_token=1e8)
    cand = runs["candidate"] == "cand"
    # Half the tokens per second, each of 1.5 times the FLOPs: 0.75 of the baseline's model FLOPs per second.
    runs["tokens_per_second"] = np.where(cand, 5e5, 1e6)
    runs.loc[cand, "flops_per_token"] = 1.5e8
    found = compare(runs, "cand", "base", noise=Noise.assumed()).rungs[1]
    assert found.mfu_ratio == pytest.approx(0.75)
    assert found.realised.value == pytest.approx(1.3 * 0.75, rel=1e-3)
    assert found.realised.low == pytest.approx(found.speedup.low * 0.75)

    runs.loc[cand, "hardware"] = "h100x8"
    found = compare(runs, "cand", "base", noise=Noise.assumed()).rungs[1]
    assert found.realised.value is None and "h100x8 and v5p-8" in found.realised.reason

    found = compare(runs.drop(columns="tokens_per_second"), "cand", "base", noise=Noise.assumed()).rungs[1]
    assert found.realised.value is None and "not on record" in found.realised.reason


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda runs: runs.drop(columns="seed"), r"lacks the column\(s\) seed"),
        (lambda runs: runs.assign(bits_per_byte=[math.nan, *runs["bits_per_byte"][1:]]), "base at 30m is nan"),
        (lambda runs: runs.assign(model_flops=[0.0, *runs["model_flops"][1:]]), "model_flops of base at 30m is 0.0"),
        (lambda runs: runs.assign(seed=0), "has seed 0 twice"),
        (lambda runs: runs.assign(model_flops=runs["model_flops"] * (1 + 0.1 * runs["seed"])), "different FLOPs"),
        (lambda runs: runs.assign(protocol=["levanter", *["1"] * (len(runs) - 1)]), "different protocols"),
    ],
)
def test_a_table_that_cannot_be_scored_is_refused(make_runs, spoil, message: str) -> None:
    with pytest.raises(SpeedrunError, match=message):
        check_runs(spoil(make_runs(EVERYWHERE)))


def test_an_unknown_candidate_is_named(make_runs) -> None:
    with pytest.raises(UnknownNameError, match="unknown candidate 'candy'. Did you mean 'cand'"):
        compare(make_runs(EVERYWHERE), "candy", "base")


def test_times_that_must_not_be_compared_give_no_realised_speedup(make_runs) -> None:
    runs = make_runs(EVERYWHERE, sigma=0).assign(hardware="cpu", flops_per_token=1e8, tokens_per_second=1e6)
    base_at_one_rung = (runs["candidate"] == "base") & (runs["rung"] == runs["rung"].iloc[0])
    runs["throughput_problem"] = np.where(base_at_one_rung, "other programs used 40% of its CPU meanwhile", "")
    first, second = compare(runs, "cand", "base", noise=Noise.assumed()).rungs[:2]
    assert first.realised.value is None
    assert first.realised.reason == "the baseline's times tell nothing: other programs used 40% of its CPU meanwhile"
    assert second.realised.value is not None
