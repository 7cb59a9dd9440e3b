import math

import numpy as np
import pytest
from scipy import stats

from speedrun.scoring import Arm, Noise, UndefinedError, mean_interval, noises_of, pooled_noise
from speedrun.scoring.noise import draw_means, draw_sigmas


def arm(scores: list[float], rung: str = "30m", model_flops: float = 1e17) -> Arm:
    values = np.array(scores)
    return Arm(rung, values.mean(), model_flops, len(values), ((values - values.mean()) ** 2).sum(), None, "")


def test_pooling_weighs_arms_by_their_degrees_of_freedom() -> None:
    noise = pooled_noise([arm([1.0, 1.2]), arm([2.0, 2.0, 2.3]), arm([3.0])])
    # Squares 0.02 and 0.06 over 1 + 2 degrees of freedom.
    assert noise.sigma == pytest.approx(math.sqrt(0.08 / 3))
    assert noise.degrees_of_freedom == 3
    assert "2 arm(s)" in noise.source


def test_no_replicate_shows_no_noise() -> None:
    with pytest.raises(UndefinedError, match="single seed"):
        pooled_noise([arm([1.0]), arm([2.0])])
    with pytest.raises(UndefinedError, match="agree to the last digit"):
        pooled_noise([arm([1.0, 1.0])])


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan])
def test_an_assumed_sigma_must_be_positive(sigma: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        Noise.assumed(sigma)


def drawn(own: Arm, noise: Noise, draws: int) -> np.ndarray:
    sigmas = draw_sigmas(noise, [own.rung], draws, seed=0)
    return draw_means([own], sigmas, np.random.default_rng(1))[own.rung]


@pytest.mark.parametrize("scores", [[1.0, 1.1], [1.0, 1.1, 1.05], [1.0, 1.1, 1.05, 1.2, 0.9, 1.0]])
def test_draws_of_one_mean_are_its_t_interval(scores: list[float]) -> None:
    own = arm(scores)
    noise = pooled_noise([own])
    half = stats.t.ppf(0.95, len(scores) - 1) * noise.sigma / math.sqrt(len(scores))
    low, high = np.quantile(drawn(own, noise, 200_000), [0.05, 0.95])
    assert (low, high) == pytest.approx((own.bits_per_byte - half, own.bits_per_byte + half), abs=0.02 * half)


def test_a_rung_with_five_seeds_keeps_its_own_noise() -> None:
    quiet = [arm([1.0, 1.001, 0.999, 1.0005, 1.0], "300m"), arm([0.9, 0.901], "300m")]
    loud = arm([1.0, 1.2], "30m")
    noise = pooled_noise([*quiet, loud])
    assert noise.at("30m") is noise
    # Squares 2e-6 + 5e-7 - rounding aside, over 4 + 1 degrees of freedom.
    assert noise.at("300m").sigma == pytest.approx(math.sqrt((2.2e-6 + 5e-7) / 5))
    assert noise.at("300m").degrees_of_freedom == 5
    assert drawn(quiet[0], noise, 20_000).std() < 0.001 < 0.02 < drawn(loud, noise, 20_000).std()


def test_everybody_is_measured_by_the_baselines_noise() -> None:
    base = [arm([1.0, 1.1, 1.05], "30m"), arm([0.9, 1.0, 0.95], "75m")]
    lucky = [arm([0.9, 0.9001], "30m")]
    theirs, own = noises_of(base, lucky)
    # Squares 2 x 0.005 over 2 x 2 degrees of freedom.
    assert theirs is own and theirs.sigma == pytest.approx(0.05) and theirs.degrees_of_freedom == 4
    assert noises_of(base, [arm([0.9], "30m")])[1].sigma == pytest.approx(0.05)


def test_a_candidate_that_varies_more_has_its_own_noise() -> None:
    rungs = ("30m", "75m", "300m", "1_4b")
    base = [arm([1.0, 1.1, 1.05], rung) for rung in rungs]
    theirs, own = noises_of(base, [arm([1.0, 1.2, 1.1], rung) for rung in rungs])
    # Twice the sigma: F = 4 with 8 and 8 degrees of freedom has p = 0.033.
    assert (theirs.sigma, own.sigma) == (pytest.approx(0.05), pytest.approx(0.1))
    # F = 3.24 has p = 0.058.
    assert noises_of(base, [arm([1.0, 1.18, 1.09], rung) for rung in rungs])[1].sigma == pytest.approx(0.05)


def test_few_seeds_tell_no_noise_of_their_own() -> None:
    base = [arm([1.0, 1.1, 1.05], "30m"), arm([0.9, 1.0, 0.95], "75m")]
    _, own = noises_of(base, [arm([1.0, 1.4], "30m")])
    # F = 0.08 / 0.0025 = 32 with 1 and 4 degrees of freedom; pooled: (0.08 + 0.01) / 5.
    assert own.sigma == pytest.approx(math.sqrt(0.09 / 5)) and own.degrees_of_freedom == 5
    theirs, own = noises_of(base[:1], [arm([1.0, 1.4], "30m")])
    assert theirs is own and own.degrees_of_freedom == 3
    with pytest.raises(UndefinedError, match="single seed"):
        noises_of([arm([1.0])], [arm([1.0])])


@pytest.mark.parametrize(("seeds", "quantile"), [(2, 6.313752), (3, 2.919986), (6, 2.015048)])
def test_the_interval_of_a_mean_is_students(seeds: int, quantile: float) -> None:
    # 95 % quantiles of Student's t with 1, 2 and 5 degrees of freedom, from a table.
    own = arm([1.0 + 0.1 * at for at in range(seeds)])
    noise = pooled_noise([own])
    low, high = mean_interval(own, noise)
    half = quantile * noise.sigma / math.sqrt(seeds)
    assert (low, high) == pytest.approx((own.bits_per_byte - half, own.bits_per_byte + half), rel=1e-6)
    low, high = mean_interval(own, Noise.assumed(0.2))
    assert (high - low) / 2 == pytest.approx(1.644854 * 0.2 / math.sqrt(seeds), rel=1e-6)
