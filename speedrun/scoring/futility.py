"""When a ladder may be ended early: the rungs so far leave the claimed gain no room at the top."""

import math
from dataclasses import dataclass

from speedrun.scoring.comparison import Comparison
from speedrun.scoring.trend import trend


@dataclass(frozen=True)
class Futility:
    """Whether the gain claimed for the top rung can still be shown."""

    is_futile: bool
    claimed_speedup: float
    highest_speedup: float | None
    """S at the top rung if both the interval's upper end at the largest measured rung and the slope's upper end
    were true; None where one of them is open."""
    reason: str


def futility(comparison: Comparison, claimed_speedup: float, top_flops: float) -> Futility:
    """Judges the rungs measured so far.

    The most that they leave room for is S_high (C_top / C)^b_high: S_high the upper end of S at the largest
    measured rung, b_high that of the slope, or 0 if that is below 0 (a gain that shrinks so far isn't expected to
    grow, and isn't counted on to shrink). Both ends at once are more than the interval's level allows, so that
    a ladder is not ended by chance. Without a slope (two rungs, known noise) nothing is ended.

    Args:
        claimed_speedup: S that is claimed at the top rung.
        top_flops: model FLOPs of the top rung.
    """
    over = trend(comparison)
    if over.headline is None or over.headline.speedup.high is None:
        why = over.headline.speedup.reason if over.headline else over.slope.reason
        return Futility(False, claimed_speedup, None, f"undecided: {why or 'the noise is unknown'}")
    if over.slope.high is None or not math.isfinite(over.slope.high):
        return Futility(False, claimed_speedup, None, f"undecided: {over.slope.reason or 'the slope is open'}")
    further = max(top_flops / over.headline.candidate.model_flops, 1.0)
    highest = over.headline.speedup.high * further ** max(over.slope.high, 0.0)
    if not math.isfinite(highest):
        return Futility(False, claimed_speedup, None, "undecided: the interval has no upper end")
    is_futile = highest < claimed_speedup
    word = "no room for" if is_futile else "room for"
    reason = f"the rungs to {over.headline.rung} leave S at most {highest:.3f} at the top: {word} {claimed_speedup:g}"
    return Futility(is_futile, claimed_speedup, highest, reason)
