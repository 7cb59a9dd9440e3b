"""Fitted curves, ready to draw: points along each, its band and its residuals."""

from collections.abc import Mapping

import numpy as np

from speedrun.board.model import Figure, Line
from speedrun.scoring import Arm, Forecast, UndefinedError, fit_curve, forecast
from speedrun.scoring.curve import leave_one_out

PROJECTION_FLOPS = 1e22
"""Where Marin's board projects its suites to."""
STEPS = 25
"""Points along a drawn curve."""
BEYOND = 4.0
"""How far past the measured budgets it is drawn."""


def line_of(candidate: str, measured: Mapping[str, Arm], *, project: bool = False) -> Line | None:
    """The curve through a candidate's rungs; None where no curve can be fitted.

    Args:
        project: whether to work out the projection at `PROJECTION_FLOPS`.
    """
    arms = measured.values()
    flops = [arm.model_flops for arm in arms]
    try:
        curve = fit_curve(flops, [arm.bits_per_byte for arm in arms], [arm.seeds for arm in arms])
    except UndefinedError:
        return None
    grid = [float(c) for c in np.geomspace(min(flops) / 1.5, max(flops) * BEYOND, STEPS)]
    others = leave_one_out(curve)
    drawn = [forecast(curve, c, others) for c in grid]
    lows = [each.low for each in drawn if each.low is not None]
    highs = [each.high for each in drawn if each.high is not None]
    return Line(
        candidate=candidate,
        asymptote=curve.asymptote,
        coefficient=curve.coefficient,
        exponent=curve.exponent,
        model_flops=grid,
        bits_per_byte=[each.bits_per_byte for each in drawn],
        low=lows,
        high=highs,
        point_flops=list(curve.budgets),
        residuals=list(curve.residuals),
        projection=_figure(forecast(curve, PROJECTION_FLOPS, others)) if project else None,
    )


def _figure(projected: Forecast) -> Figure:
    reason = f"{projected.extrapolation:.0f} times the largest measured compute"
    return Figure(value=projected.bits_per_byte, low=projected.low, high=projected.high, reason=reason)
