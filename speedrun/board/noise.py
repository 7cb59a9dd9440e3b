"""Which seed noise the board compares by, and the interval that it leaves a mean."""

import math
from collections.abc import Sequence

from scipy import stats

from speedrun.scoring import LEVEL, Arm, Noise, UndefinedError, pooled_noise

ENOUGH_DEGREES = 4
"""Degrees of freedom (three seeds at two rungs) from which the baseline alone tells the noise."""
UNLIKE = 0.01
"""p of the F test below which a candidate's seeds are said to differ more than the baseline's."""


def comparison_noise(baseline: Sequence[Arm], candidate: Sequence[Arm]) -> Noise | None:
    """The noise that two methods are compared by: the baseline's own, from `ENOUGH_DEGREES` on.

    So every candidate is measured by one noise, and none can narrow its own interval. One whose seeds differ
    significantly more than the baseline's (F test) is compared by the noise pooled over the two.

    Returns:
        None where the noise is unknown, and `compare` says why.
    """
    known = _pooled(baseline)
    if known is None or known.degrees_of_freedom < ENOUGH_DEGREES:
        return _pooled([*baseline, *candidate])
    own = _pooled(candidate)
    if own is not None:
        ratio = (own.sigma / known.sigma) ** 2
        if stats.f.sf(ratio, own.degrees_of_freedom, known.degrees_of_freedom) < UNLIKE:
            return _pooled([*baseline, *candidate])
    return known


def _pooled(arms: Sequence[Arm]) -> Noise | None:
    try:
        return pooled_noise(arms)
    except UndefinedError:
        return None


def mean_interval(arm: Arm, noise: Noise, level: float = LEVEL) -> tuple[float, float]:
    """Student's interval of an arm's true mean, in bits per byte."""
    own = noise.at(arm.rung)
    known = math.isinf(own.degrees_of_freedom)
    quantile = stats.norm.ppf((1 + level) / 2) if known else stats.t.ppf((1 + level) / 2, own.degrees_of_freedom)
    half = float(quantile) * own.sigma / math.sqrt(arm.seeds)
    return arm.bits_per_byte - half, arm.bits_per_byte + half
