"""The gain over the ladder: the speedup at the largest measured rung, and how it changes with compute."""

import math
from dataclasses import dataclass

import numpy as np

from speedrun.scoring.comparison import Comparison, RungComparison
from speedrun.scoring.estimate import Array, Estimate, interval, share

ONE_SIGMA = (0.1587, 0.8413)
"""The quantiles one standard deviation either side of a normal's mean."""


@dataclass(frozen=True)
class Trend:
    """The gain over the ladder."""

    headline: RungComparison | None
    """The largest rung that both have; None where they share none."""
    slope: Estimate
    """b in ln S = a + b ln(C / C_top), per e-fold of compute: 0.02 makes S grow by 4.7 % per tenfold of compute."""
    p_grows: float | None = None
    """One-sided p of "the gain does not grow"; None where slope or noise is unknown."""
    p_shrinks: float | None = None
    """One-sided p of "the gain does not shrink"."""


def trend(comparison: Comparison) -> Trend:
    """Weighted least squares of ln S over ln C, each rung weighted by the inverse variance of its ln S.

    The interval comes from the same line through every joint draw, so that what rungs share (the curve, the
    pooled sigma) is counted once.
    """
    if not comparison.rungs:
        return Trend(None, Estimate.undefined("the candidate and its baseline share no rung"))
    headline = comparison.rungs[-1]
    defined = [(rung, rung.speedup.value) for rung in comparison.rungs if rung.speedup.value is not None]
    rungs, values = [rung for rung, _ in defined], [value for _, value in defined]
    if len(rungs) < 2:
        reason = f"a slope needs the speedup at two rungs and it is defined at {len(rungs)}"
        return Trend(headline, Estimate.undefined(reason))
    log_compute = np.log([rung.candidate.model_flops for rung in rungs])
    log_compute -= log_compute[-1]
    log_values = np.log(values)
    draws = [rung.log_draws for rung in rungs if rung.log_draws is not None]
    weights = np.array([_inverse_variance(log_draws) for log_draws in draws]) if draws else np.ones(len(rungs))
    if (weights > 0).sum() < 2:
        reason = "the noise leaves the speedup open at all rungs but one"
        return Trend(headline, Estimate.undefined(reason))
    used = weights > 0
    off_mean = log_compute - np.average(log_compute, weights=weights)
    solver = (weights * off_mean / (weights * off_mean**2).sum())[used]  # (rungs,): the slope is linear in ln S
    slope = float(solver @ log_values[used])
    if not draws:
        return Trend(headline, Estimate(slope, reason=comparison.noise_problem))
    with np.errstate(invalid="ignore"):
        slopes = solver @ np.stack(draws)[used]
    return Trend(headline, Estimate(slope, *interval(slopes)), share(~(slopes > 0)), share(~(slopes < 0)))


def _inverse_variance(log_draws: Array) -> float:
    """1 / variance by the middle two thirds of the draws, which few wild ones don't move; 0 if that is open."""
    low, high = interval(log_draws, level=ONE_SIGMA[1] - ONE_SIGMA[0])
    return 4 / max(high - low, 1e-12) ** 2 if math.isfinite(high - low) else 0.0
