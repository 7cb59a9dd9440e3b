"""The words of a verdict: per rung and over the ladder, each with the figures that it stands on."""

import math
from dataclasses import dataclass
from enum import StrEnum

from speedrun.scoring.comparison import Comparison, RungComparison
from speedrun.scoring.power import EVIDENCE, MOST_SEEDS, POWER, seeds_to_show
from speedrun.scoring.trend import Trend, trend

HOLDS_WITHIN = 0.02
"""Slopes of ln S over ln C nearer to 0 than this, interval and all, count as none: under 5 % per tenfold of compute."""

MISFIT = 0.01
"""p of the curve's residuals below which it is said not to describe the baseline."""


class RungWord(StrEnum):
    """What one rung shows."""

    BETTER = "better"
    WORSE = "worse"
    NO_EVIDENCE = "no evidence"


class LadderWord(StrEnum):
    """What the gain does with compute."""

    GROWS = "grows"
    HOLDS = "holds"
    SHRINKS = "shrinks"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class RungVerdict:
    """One rung's word."""

    rung: str
    word: RungWord
    why: str
    seeds_to_settle: int | None
    """Runs of each of the two, those already there included, that would show the measured difference with
    probability `POWER` if it is the true one; None where the word is settled, or the noise unknown, or
    `MOST_SEEDS` too few."""


@dataclass(frozen=True)
class Verdict:
    """What a comparison shows."""

    comparison: Comparison
    rungs: tuple[RungVerdict, ...]
    trend: Trend
    ladder: LadderWord
    warnings: tuple[str, ...]
    """What a reader must know beside the figures."""


def judge(comparison: Comparison) -> Verdict:
    """The verdict on a comparison. A word needs evidence: p below `EVIDENCE`, one-sided."""
    over_ladder = trend(comparison)
    return Verdict(
        comparison,
        tuple(_judge_rung(rung, comparison) for rung in comparison.rungs),
        over_ladder,
        _ladder_word(over_ladder),
        tuple(_warnings(comparison)),
    )


def _judge_rung(rung: RungComparison, comparison: Comparison) -> RungVerdict:
    if rung.p_better is None or rung.p_worse is None:
        why = comparison.noise_problem or "they spent different compute, and without a speedup nothing compares them"
        return RungVerdict(rung.rung, RungWord.NO_EVIDENCE, why, None)
    for word, p in ((RungWord.BETTER, rung.p_better), (RungWord.WORSE, rung.p_worse)):
        if p < EVIDENCE:
            return RungVerdict(rung.rung, word, f"p = {p:.2g}, one-sided, below {EVIDENCE:g}", None)
    seeds = _seeds_to_settle(rung, comparison)
    why = f"p = {min(rung.p_better, rung.p_worse):.2g}, one-sided, not below {EVIDENCE:g}; "
    why += (
        f"more than {MOST_SEEDS} seeds of each would be needed to show a difference as small as this"
        if seeds is None
        else f"{seeds} seeds of each would show this difference with {POWER:.0%} probability, if it is real"
    )
    return RungVerdict(rung.rung, RungWord.NO_EVIDENCE, why, seeds)


def _seeds_to_settle(rung: RungComparison, comparison: Comparison) -> int | None:
    assert comparison.candidate_noise is not None  # there is a p
    difference = abs(rung.baseline.bits_per_byte - rung.candidate.bits_per_byte)
    if comparison.curve is not None and rung.speedup.value is not None:
        # At equal compute, whatever each spent.
        at_equal = comparison.curve.loss_at_speedup(rung.baseline.bits_per_byte, rung.speedup.value)
        difference = abs(rung.baseline.bits_per_byte - at_equal)
    noise = comparison.candidate_noise.at(rung.rung)
    seeds = seeds_to_show(difference, noise, rung.candidate.seeds + rung.baseline.seeds)
    # This many were not enough this time, though their chance was good.
    already = min(rung.candidate.seeds, rung.baseline.seeds)
    return seeds if seeds is None else max(seeds, already + 1)


def _ladder_word(over_ladder: Trend) -> LadderWord:
    low, high = over_ladder.slope.low, over_ladder.slope.high
    if low is not None and high is not None and -HOLDS_WITHIN < low and high < HOLDS_WITHIN:
        return LadderWord.HOLDS
    for word, p in ((LadderWord.GROWS, over_ladder.p_grows), (LadderWord.SHRINKS, over_ladder.p_shrinks)):
        if p is not None and p < EVIDENCE:
            return word
    return LadderWord.UNKNOWN


def _warnings(comparison: Comparison) -> list[str]:
    warnings = [problem for problem in (comparison.curve_problem, comparison.noise_problem) if problem]
    if comparison.curve is not None and comparison.curve.at_bound:
        warnings.append(
            f"the baseline's records do not pin down its curve's {comparison.curve.at_bound}: "
            "read the speedup at the top rung as a guess"
        )
    if comparison.misfit_p is not None and comparison.misfit_p < MISFIT:
        warnings.append(
            f"the baseline does not lie on its curve within the noise (p = {comparison.misfit_p:.2g}): its rungs are "
            "not equally well tuned, or the noise is underestimated, and the intervals are too narrow"
        )
    if comparison.unmatched:
        warnings.append(f"the baseline has no run at {', '.join(comparison.unmatched)}: nothing to compare with there")
    if comparison.noise is not None and math.isinf(comparison.noise.degrees_of_freedom):
        warnings.append(f"seed noise is {comparison.noise.source}, not measured")
    return warnings
