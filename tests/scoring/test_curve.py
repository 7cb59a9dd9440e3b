import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from speedrun.scoring import UndefinedError, fit_curve, forecast
from speedrun.scoring.curve import Curve, fit_curves, leave_one_out

FLOPS = [1.08e17, 6.75e17, 1.08e19, 2.352e20]


def exact(asymptote: float, above: float, exponent: float) -> list[float]:
    return [asymptote + above * (flops / FLOPS[0]) ** -exponent for flops in FLOPS]


@settings(deadline=None)  # machines may be busy
@given(asymptote=st.floats(0.1, 1.5), above=st.floats(0.1, 2.0), exponent=st.floats(0.03, 0.8))
def test_points_on_a_curve_give_that_curve_back(asymptote: float, above: float, exponent: float) -> None:
    curve = fit_curve(FLOPS, exact(asymptote, above, exponent))
    # An exponent that small bends little, so the asymptote is the figure that is hardest to recover.
    assert curve.asymptote == pytest.approx(asymptote, abs=2e-3)
    assert curve.exponent == pytest.approx(exponent, rel=5e-3)
    assert max(map(abs, curve.residuals)) < 1e-6


@settings(deadline=None)  # machines may be busy
@given(st.lists(st.floats(-0.01, 0.01), min_size=4, max_size=4), st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_no_other_starting_point_finds_a_better_fit(noise: list[float], seeds: list[int]) -> None:
    losses = np.array(exact(0.8, 0.7, 0.2)) + noise
    ours = fit_curve(FLOPS, losses.tolist(), seeds)
    ours_error = sum(n * r * r for n, r in zip(seeds, ours.residuals, strict=True))

    def residuals(parameters: np.ndarray) -> np.ndarray:
        asymptote, above, exponent = parameters
        return np.sqrt(seeds) * (asymptote + above * (np.array(FLOPS) / FLOPS[0]) ** -exponent - losses)

    for start in ([0.1, 1.0, 0.05], [0.8, 0.7, 0.2], [0.9, 0.5, 0.6]):
        other = least_squares(residuals, start, bounds=([0, 1e-6, 0.005], [3, 5, 2]), xtol=1e-14, ftol=1e-14)
        assert ours_error <= 2 * other.cost + 1e-12


def test_the_gradient_vanishes_at_the_public_adamw_optimum(public_runs) -> None:
    adamw = public_runs[public_runs["candidate"] == "adamw_llama_scaling"]
    curve = fit_curve(adamw["model_flops"].tolist(), adamw["bits_per_byte"].tolist())
    flops, residuals = np.array(curve.budgets), np.array(curve.residuals)
    falling = (flops / flops[0]) ** -curve.exponent
    by_asymptote, by_amplitude = residuals.sum(), (residuals * falling).sum()
    by_exponent = (residuals * falling * np.log(flops / flops[0])).sum()
    assert np.abs([by_asymptote, by_amplitude, by_exponent]).max() < 1e-8


def test_many_fits_at_once_are_the_single_fits() -> None:
    rng = np.random.default_rng(0)
    losses = np.array(exact(0.8, 0.7, 0.2)) + 0.003 * rng.standard_normal((50, 4))
    many = fit_curves(FLOPS, losses, [3, 3, 1, 1])
    for row, asymptote, exponent in zip(losses, many.asymptote, many.exponent, strict=True):
        single = fit_curve(FLOPS, row.tolist(), [3, 3, 1, 1])
        assert (asymptote, exponent) == pytest.approx((single.asymptote, single.exponent), abs=1e-6)


def test_more_seeds_pull_the_curve_towards_their_rung() -> None:
    losses = np.array(exact(0.8, 0.7, 0.2)) + [0.0, 0.01, 0.0, 0.0]
    light, heavy = (fit_curve(FLOPS, losses.tolist(), [1, n, 1, 1]) for n in (1, 100))
    assert abs(heavy.residuals[1]) < abs(light.residuals[1]) / 20


def test_too_few_budgets_are_refused_and_said_to_be() -> None:
    with pytest.raises(UndefinedError, match=r"2 budget\(s\) and a curve needs 3"):
        fit_curve([1e17, 1e17, 1e18], [1.5, 1.51, 1.3])


def test_a_loss_that_rises_with_compute_has_no_curve() -> None:
    with pytest.raises(UndefinedError, match="does not fall"):
        fit_curve([1e17, 1e18, 1e19], [1.0, 1.1, 1.3])


def test_data_that_bend_too_little_leave_the_asymptote_at_its_bound() -> None:
    straight = [1.5 - 0.05 * math.log10(flops / FLOPS[0]) for flops in FLOPS]
    curve = fit_curve(FLOPS, straight)
    assert (curve.asymptote, curve.at_bound) == (0, "asymptote")


def test_no_compute_reaches_the_asymptote() -> None:
    curve = fit_curve(FLOPS, exact(0.8, 0.7, 0.2))
    assert curve.flops(1.5) == pytest.approx(FLOPS[0], rel=1e-4)
    with pytest.raises(UndefinedError, match="at or below the baseline's asymptote 0.8"):
        curve.flops(0.79)


def test_slope_and_worth_agree_with_the_curve() -> None:
    curve = Curve(0.8, 0.7 * 1e17**0.2, 0.2, (1e17,), (0.0,), (1,), "")
    by_differences = (curve.loss(1e18 * 0.9999) - curve.loss(1e18 * 1.0001)) / 0.0002
    assert curve.loss_per_log_compute(curve.loss(1e18)) == pytest.approx(by_differences, rel=1e-5)
    assert curve.loss_at_speedup(curve.loss(1e18), 3.0) == pytest.approx(curve.loss(3e18))
    assert curve.speedup_of_loss(curve.loss(1e18), curve.loss(1e18) - curve.loss(3e18)) == pytest.approx(3.0)


def test_residuals_beyond_the_noise_are_noticed() -> None:
    losses = np.array(exact(0.8, 0.7, 0.2)) + [0.0, 0.004, -0.004, 0.0]
    curve = fit_curve(FLOPS, losses.tolist(), [3] * 4)
    assert curve.misfit_p_value(0.0004, math.inf) < 1e-6
    assert curve.misfit_p_value(0.01, math.inf) > 0.3
    # One spare point: F(1, v) is the square of t(v), so little knowledge of sigma means little evidence.
    assert curve.misfit_p_value(0.0004, 2) > curve.misfit_p_value(0.0004, 8) > curve.misfit_p_value(0.0004, math.inf)
    with pytest.raises(UndefinedError, match="no residual"):
        fit_curve(FLOPS[:3], losses[:3].tolist()).misfit_p_value(0.0004, math.inf)


def test_leaving_one_rung_out_is_fitting_the_others() -> None:
    losses = np.array(exact(0.8, 0.7, 0.2)) + [0.0, 0.002, -0.002, 0.001]
    curve = fit_curve(FLOPS, losses.tolist())
    others = leave_one_out(curve)
    assert [len(other.budgets) for other in others] == [3] * 4
    assert others[1].loss(1e22) == pytest.approx(fit_curve(FLOPS[:1] + FLOPS[2:], [losses[0], *losses[2:]]).loss(1e22))

    far = forecast(curve, 2.352e22)
    assert far.low is not None and far.high is not None
    assert far.low <= min(o.loss(2.352e22) for o in others) and max(o.loss(2.352e22) for o in others) <= far.high
    assert far.low < far.bits_per_byte < far.high
    assert far.extrapolation == pytest.approx(100)


def test_three_rungs_have_a_forecast_without_a_band() -> None:
    far = forecast(fit_curve(FLOPS[:3], exact(0.8, 0.7, 0.2)[:3]), 1e22)
    assert (far.low, far.high) == (None, None)
    assert far.bits_per_byte == pytest.approx(0.8 + 0.7 * (1e22 / FLOPS[0]) ** -0.2, abs=1e-4)
