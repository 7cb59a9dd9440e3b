import math

import numpy as np
import pytest
from scipy import stats

from speedrun.scoring import Arm, Noise, UndefinedError, pooled_noise
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
