"""Speedup over a baseline: by how many times less compute a candidate reaches its loss.

S = C_b(L_v) / C_v, the compute-equivalent gain (arXiv 2312.07413): the model FLOPs that the baseline needs
for the candidate's loss, over those that the candidate spent. Above 1 the candidate is better.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from speedrun.scoring.curve import Curve, below_asymptote
from speedrun.scoring.estimate import Array, UndefinedError
from speedrun.scoring.table import Arm


def speedup_through_point(curve: Curve, candidate: Arm, baseline: Arm) -> float:
    """S at a rung: the baseline curve's shape, taken through the baseline's measured point there.

    Raises:
        UndefinedError: where a loss is at or below the curve's asymptote.
    """
    for arm in (candidate, baseline):
        if arm.bits_per_byte <= curve.asymptote:
            raise UndefinedError(below_asymptote(arm.bits_per_byte, curve.asymptote))
    flops_ratio = baseline.model_flops / candidate.model_flops
    losses = baseline.bits_per_byte, candidate.bits_per_byte
    return math.exp(log_speedup(*losses, flops_ratio, curve.asymptote, curve.exponent))


def log_speedup(
    baseline_loss: Array | float,
    candidate_loss: Array | float,
    flops_ratio: float,
    asymptote: Array | float,
    exponent: Array | float,
) -> Array:
    """ln S = ln[((L_b - c) / (L_v - c))^(1 / alpha) C_b / C_v], for arrays of one shape.

    Args:
        flops_ratio: C_b / C_v.

    Returns:
        ``inf`` where only the candidate is at or below the asymptote, ``-inf`` where only the baseline is, NaN
        where both are.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        baseline = np.log(np.maximum(np.subtract(baseline_loss, asymptote), 0))
        candidate = np.log(np.maximum(np.subtract(candidate_loss, asymptote), 0))
        return (baseline - candidate) / exponent + math.log(flops_ratio)


def interpolated_log_flops(baseline_flops: ArrayLike, baseline_losses: Array, loss: Array) -> Array:
    """ln C_b(L) by straight lines of loss over ln C between neighbouring rungs.

    It knows no curve, and so checks it. Real curves sag below their chords, so that a small gain comes out a
    fifth to two fifths too large on the standard ladder, and 7 % on the micro ladder.

    Args:
        baseline_flops: (rungs,) ascending.
        baseline_losses: (sets, rungs) bits per byte.
        loss: (sets,) bits per byte.

    Returns:
        (sets,); NaN outside the measured range, and where the baseline's loss rises from one rung to the next.
    """
    log_flops = np.log(baseline_flops)
    result = np.full(len(loss), np.nan)
    for left in range(len(log_flops) - 1):
        start, end = baseline_losses[:, left], baseline_losses[:, left + 1]
        here = (start >= loss) & (loss >= end) & (start > end)
        share = (start - loss)[here] / (start - end)[here]
        result[here] = log_flops[left] + share * (log_flops[left + 1] - log_flops[left])
    falls = (np.diff(baseline_losses, axis=1) < 0).all(axis=1)
    return np.where(falls, result, np.nan)


def mfu_ratio(candidate: Arm, baseline: Arm) -> float:
    """Candidate's over baseline's model FLOPs per second, on the same hardware: above 1 it uses it better.

    S times this is the realised speedup, the gain in time: a method that needs less compute but runs it more
    slowly gains less than S.

    Raises:
        UndefinedError: where a throughput is unknown or must not be compared, or the hardware is not the same.
    """
    for who, arm in (("candidate", candidate), ("baseline", baseline)):
        if arm.throughput_problem:
            raise UndefinedError(f"the {who}'s times tell nothing: {arm.throughput_problem}")
    if not candidate.throughput or not baseline.throughput:
        who = "candidate" if not candidate.throughput else "baseline"
        raise UndefinedError(f"the {who}'s tokens per second or FLOPs per token are not on record")
    if not candidate.hardware or candidate.hardware != baseline.hardware:
        names = (arm.hardware or "several or unknown" for arm in (candidate, baseline))
        raise UndefinedError(f"they ran on different hardware ({' and '.join(names)}): throughput compares on one only")
    return candidate.throughput / baseline.throughput
