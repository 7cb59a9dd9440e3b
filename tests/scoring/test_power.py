import math

import numpy as np
import pytest
from scipy import stats

from speedrun.scoring import Arm, Noise, UndefinedError, fit_curve, pairwise_test, pooled_noise, power_table
from speedrun.scoring.power import EVIDENCE, detectable_loss, power, seeds_to_show


def arm(scores: np.ndarray, model_flops: float = 1e17) -> Arm:
    return Arm("30m", scores.mean(), model_flops, len(scores), ((scores - scores.mean()) ** 2).sum(), None, "")


def scores(seeds: int, shift: float = 0.0) -> np.ndarray:
    return 1.2 + shift + 0.001 * np.random.default_rng(seeds).standard_normal(seeds)


def test_the_pairwise_test_is_students_with_few_seeds() -> None:
    first, second = scores(3, -0.001), scores(4)
    noise = pooled_noise([arm(first), arm(second)])
    found = pairwise_test(arm(first), arm(second), noise)
    expected = stats.ttest_ind(first, second, equal_var=True, alternative="less")
    assert found.p_better == pytest.approx(expected.pvalue)
    assert found.p_worse == pytest.approx(1 - expected.pvalue)
    assert (found.low, found.high) == pytest.approx(
        tuple(stats.ttest_ind(first, second, equal_var=True).confidence_interval(0.9))
    )


def test_the_pairwise_test_uses_the_rungs_own_noise_where_there_is_one() -> None:
    first, second = scores(6, -0.001), scores(5)
    elsewhere = Arm("75m", 1.1, 1e18, 2, 0.02, None, "")
    noise = pooled_noise([arm(first), arm(second), elsewhere])
    expected = stats.ttest_ind(first, second, equal_var=True, alternative="less")
    assert pairwise_test(arm(first), arm(second), noise).p_better == pytest.approx(expected.pvalue)


def test_losses_at_different_compute_are_not_compared() -> None:
    with pytest.raises(UndefinedError, match="1.02 times"):
        pairwise_test(arm(scores(3), 1.02e17), arm(scores(3)), Noise.assumed())
    pairwise_test(arm(scores(3), 1.002e17), arm(scores(3)), Noise.assumed())  # within one step's compute


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_detectable_gain_is_detected_four_times_in_five(seeds: int) -> None:
    """Simulated: fresh runs of both, sigma pooled over them and four degrees of freedom from before."""
    known = Noise(1.0, 4, "")
    gain = detectable_loss(seeds, known)
    rng, repeats = np.random.default_rng(0), 20_000
    first, second = (rng.standard_normal((repeats, seeds)) - shift for shift in (gain, 0))
    squares = sum((x.var(axis=1) * seeds) for x in (first, second)) + rng.chisquare(4, repeats)
    degrees = 4 + 2 * (seeds - 1)
    t = (second.mean(axis=1) - first.mean(axis=1)) / np.sqrt(squares / degrees * 2 / seeds)
    assert (t > stats.t.isf(EVIDENCE, degrees)).mean() == pytest.approx(0.8, abs=0.01)


def test_a_known_sigma_gives_the_textbook_figure() -> None:
    # (2.326 + 0.842) sigma sqrt(2 / n)
    assert detectable_loss(1, Noise.assumed(0.0004)) == pytest.approx(3.168 * 0.0004 * math.sqrt(2), rel=1e-3)
    assert detectable_loss(4, Noise.assumed(0.0004)) == pytest.approx(3.168 * 0.0004 * math.sqrt(0.5), rel=1e-3)


def test_power_without_a_difference_is_the_false_positive_rate() -> None:
    for noise in (Noise.assumed(), Noise(0.001, 3, "")):
        assert power(0.0, 3, noise, 0) == pytest.approx(EVIDENCE)


def test_seeds_to_show_is_the_inverse_of_the_detectable_loss() -> None:
    noise = Noise.assumed(0.0004)
    for seeds in (1, 2, 5, 20):
        assert seeds_to_show(detectable_loss(seeds, noise) * 1.001, noise) == seeds
        assert seeds_to_show(detectable_loss(seeds, noise) * 0.999, noise) == seeds + 1
    assert seeds_to_show(1e-6, noise) is None
    assert seeds_to_show(0.0, noise) is None


def test_little_knowledge_of_sigma_asks_for_more_seeds() -> None:
    vague, sure = (seeds_to_show(0.002, Noise(0.0004, degrees, "")) for degrees in (1, 50))
    assert vague is not None and sure is not None and vague > sure


def test_the_table_says_what_each_rung_can_show() -> None:
    budgets = {"30m": 1.08e17, "75m": 6.75e17, "300m": 1.08e19, "1_4b": 2.352e20}
    losses = [0.8 + 0.7 * (flops / 1e17) ** -0.2 for flops in budgets.values()]
    table = power_table(fit_curve(list(budgets.values()), losses), budgets, Noise.assumed(0.0004))
    # At 30m an e-fold of compute is worth 0.2 x 0.6893 bits per byte.
    assert table.at["30m", "bits_per_byte_per_percent"] == pytest.approx(0.0013786, rel=1e-3)
    assert table.at["30m", "gain_with_1_seeds"] == pytest.approx(0.001792 / 0.13786, rel=0.01)
    assert table["gain_with_3_seeds"].is_monotonic_increasing  # the larger the rung, the less a gain shows
    assert table.at["1_4b", "seeds_for_1%"] > table.at["30m", "seeds_for_1%"]
    assert table.at["30m", "seeds_for_10%"] == 1
