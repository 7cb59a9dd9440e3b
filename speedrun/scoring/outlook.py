"""What a larger rung should show, if curve and trend go on: a forecast, never ranked on."""

import math
from dataclasses import dataclass

from speedrun.scoring.comparison import Comparison
from speedrun.scoring.curve import Forecast, forecast
from speedrun.scoring.estimate import UndefinedError
from speedrun.scoring.trend import Trend


@dataclass(frozen=True)
class Outlook:
    """Both methods at a budget that nobody has measured yet."""

    model_flops: float
    baseline: Forecast
    speedup: float
    """S = S_top (C / C_top)^b."""
    bits_per_byte: float
    """The candidate's, at that speedup."""


def outlook(comparison: Comparison, over_ladder: Trend, model_flops: float) -> Outlook:
    """The outlook at ``model_flops``.

    Raises:
        UndefinedError: without a curve or a slope.
    """
    headline, slope = over_ladder.headline, over_ladder.slope.value
    if comparison.curve is None:
        raise UndefinedError(comparison.curve_problem)
    if headline is None or headline.speedup.value is None or slope is None:
        raise UndefinedError(over_ladder.slope.reason or (headline.speedup.reason if headline else ""))
    speedup = headline.speedup.value * math.pow(model_flops / headline.candidate.model_flops, slope)
    baseline = forecast(comparison.curve, model_flops)
    return Outlook(
        model_flops,
        baseline,
        speedup,
        comparison.curve.loss_at_speedup(baseline.bits_per_byte, speedup),
    )
