import pytest

from speedrun.scoring import LadderWord, Noise, RungWord, compare, judge, trend


def gains(*values: float) -> dict[str, float]:
    return dict(zip(("30m", "75m", "300m", "1_4b"), values, strict=True))


def test_words_need_evidence(make_runs) -> None:
    verdict = judge(compare(make_runs(gains(1.3, 1.2, 0.7, 1.0)), "cand", "base"))
    assert [rung.word for rung in verdict.rungs] == [
        RungWord.BETTER,
        RungWord.BETTER,
        RungWord.WORSE,
        RungWord.NO_EVIDENCE,
    ]
    assert verdict.rungs[0].seeds_to_settle is None


def test_no_evidence_says_how_many_seeds_would_settle_it(make_runs) -> None:
    runs = make_runs(gains(1.02, 1.02, 1.02, 1.02), sigma=0, seeds=2)
    found = judge(compare(runs, "cand", "base", noise=Noise.assumed(0.002))).rungs[0]
    assert found.word is RungWord.NO_EVIDENCE
    # 1.02 at 30m lowers the loss by 0.6893 (1 - 1.02^-0.2) = 0.0027247; n = 2 (3.168 x 0.002 / 0.0027247)^2 = 10.8.
    assert found.seeds_to_settle == 11
    assert "11 seeds" in found.why
    tiny = judge(compare(make_runs(gains(*[1.0005] * 4), sigma=0), "cand", "base", noise=Noise.assumed(0.002))).rungs[0]
    assert tiny.seeds_to_settle is None and "more than 64" in tiny.why


def test_without_replicates_there_is_no_evidence_either_way(make_runs) -> None:
    verdict = judge(compare(make_runs(gains(2, 2, 2, 2), seeds=1), "cand", "base"))
    assert {rung.word for rung in verdict.rungs} == {RungWord.NO_EVIDENCE}
    assert "single seed" in verdict.rungs[0].why
    assert verdict.ladder is LadderWord.UNKNOWN
    assert any("single seed" in warning for warning in verdict.warnings)


@pytest.mark.parametrize(
    ("speedups", "sigma", "word"),
    [
        (gains(1.05, 1.15, 1.3, 1.5), 0.0004, LadderWord.GROWS),
        (gains(1.5, 1.3, 1.15, 1.05), 0.0004, LadderWord.SHRINKS),
        (gains(1.2, 1.2, 1.2, 1.2), 0.0004, LadderWord.HOLDS),
        (gains(1.2, 1.2, 1.2, 1.2), 0.02, LadderWord.UNKNOWN),
    ],
)
def test_what_the_gain_does_over_the_ladder(make_runs, speedups, sigma: float, word: LadderWord) -> None:
    assert judge(compare(make_runs(speedups, sigma=sigma), "cand", "base")).ladder is word


def test_the_slope_is_that_of_log_speedup_over_log_compute(make_runs) -> None:
    # 1.05 (C / 1.08e17)^0.05 at each budget.
    speedups = gains(1.05, 1.05 * 6.25**0.05, 1.05 * 100**0.05, 1.05 * 2177.777778**0.05)
    found = trend(compare(make_runs(speedups, sigma=0), "cand", "base", noise=Noise.assumed()))
    assert found.slope.value == pytest.approx(0.05, abs=1e-4)
    assert found.slope.low < 0.05 < found.slope.high
    assert found.headline.rung == "1_4b"


def test_one_rung_has_no_slope(make_runs) -> None:
    found = judge(compare(make_runs({"75m": 1.2}), "cand", "base"))
    assert found.trend.slope.value is None and "defined at 1" in found.trend.slope.reason
    assert found.ladder is LadderWord.UNKNOWN
    assert found.trend.headline.rung == "75m"


def test_no_shared_rung_is_no_verdict(make_runs) -> None:
    runs = make_runs({"1_4b": 1.2})
    runs = runs[(runs["candidate"] == "cand") | (runs["rung"] != "1_4b")]
    verdict = judge(compare(runs, "cand", "base"))
    assert verdict.rungs == () and verdict.trend.headline is None
    assert any("no run at 1_4b" in warning for warning in verdict.warnings)


def test_a_reader_is_warned_of_a_curve_that_does_not_fit(make_runs) -> None:
    runs = make_runs(gains(1.2, 1.2, 1.2, 1.2), sigma=0.0004)
    runs.loc[(runs["candidate"] == "base") & (runs["rung"] == "75m"), "bits_per_byte"] += 0.02
    assert any("does not lie on its curve" in warning for warning in judge(compare(runs, "cand", "base")).warnings)
    straight = runs.assign(bits_per_byte=4 - 0.05 * runs["model_flops"].map(lambda c: len(f"{c:.0f}")))
    verdict = judge(compare(straight, "cand", "base", noise=Noise.assumed(1.0)))
    assert any("do not pin down" in warning for warning in verdict.warnings)
    assert any("assumed 1 bits per byte, not measured" in warning for warning in verdict.warnings)
