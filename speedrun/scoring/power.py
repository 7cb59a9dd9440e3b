"""The test of one method against another at equal compute, and its power: how many seeds show a given gain.

The test is Student's t, one-sided, with the pooled seed noise. Its threshold and its power are those of
`EVIDENCE` and `POWER` everywhere: in verdicts, in the power table and in the advice on seeds.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass

import pandas as pd
from scipy import special
from scipy.optimize import root_scalar

from speedrun.scoring.curve import Curve
from speedrun.scoring.estimate import LEVEL, UndefinedError
from speedrun.scoring.noise import Noise, student_quantile, student_share_below
from speedrun.scoring.table import SAME_BUDGET, Arm

EVIDENCE = 0.01
"""One-sided p below which a difference counts as shown. Stricter than an interval at `LEVEL`, which leaves
out 5 % on each side, because a ladder gives every method four chances."""
POWER = 0.80
"""Probability with which a gain that is really there should be shown."""
MOST_SEEDS = 64
"""More seeds than this nobody will run."""


@dataclass(frozen=True)
class PairwiseTest:
    """One method's bits per byte against another's."""

    difference: float
    """First minus second, bits per byte: negative where the first is better."""
    low: float
    high: float
    """Interval of the difference at `LEVEL`."""
    p_better: float
    """One-sided p of "the first is no better than the second"."""
    p_worse: float
    """One-sided p of "the first is no worse than the second"."""


def pairwise_test(first: Arm, second: Arm, noise: Noise, level: float = LEVEL) -> PairwiseTest:
    """Tests two arms of one rung against each other.

    Raises:
        UndefinedError: if they spent different compute; then only a speedup compares them.
    """
    ratio = first.model_flops / second.model_flops
    if abs(ratio - 1) > SAME_BUDGET:
        raise UndefinedError(
            f"one spent {ratio:.3g} times the other's model FLOPs, so their losses do not compare directly; "
            "a speedup would, and needs the baseline's curve"
        )
    here = noise.at(first.rung)
    error = here.sigma * math.sqrt(1 / first.seeds + 1 / second.seeds)
    difference = first.bits_per_byte - second.bits_per_byte
    half = student_quantile(here.degrees_of_freedom, (1 + level) / 2) * error
    return PairwiseTest(
        difference,
        low=difference - half,
        high=difference + half,
        p_better=student_share_below(here.degrees_of_freedom, difference / error),
        p_worse=student_share_below(here.degrees_of_freedom, -difference / error),
    )


def power(lower: float, seeds: int, noise: Noise, new_seeds: int) -> float:
    """Probability that the test shows a loss ``lower`` (bits per byte) than the other's.

    Args:
        lower: the true difference, positive.
        seeds: runs of each of the two.
        new_seeds: how many runs beyond those that ``noise`` already knows; each adds a degree of freedom.
    """
    shift = lower / (noise.sigma * math.sqrt(2 / seeds))
    degrees = noise.degrees_of_freedom + new_seeds
    threshold = student_quantile(degrees, 1 - EVIDENCE)
    if math.isinf(degrees):
        return float(special.ndtr(shift - threshold))
    return float(1 - special.nctdtr(degrees, shift, threshold))


def detectable_loss(seeds: int, noise: Noise) -> float:
    """The smallest true difference (bits per byte) that ``seeds`` fresh runs of each of the two show with `POWER`."""
    new_seeds = 2 * (seeds - 1)
    upper = noise.sigma
    while power(upper, seeds, noise, new_seeds) < POWER:
        upper *= 2
    found = root_scalar(lambda lower: power(lower, seeds, noise, new_seeds) - POWER, bracket=(0, upper))
    return float(found.root)


def seeds_to_show(lower: float, noise: Noise, runs_so_far: int = 2) -> int | None:
    """The fewest runs of each of the two that show a loss ``lower`` (bits per byte); None beyond `MOST_SEEDS`.

    Args:
        runs_so_far: runs that both together have already; each one more adds a degree of freedom.
    """
    if lower <= 0:
        return None

    def enough(seeds: int) -> bool:
        return power(lower, seeds, noise, max(0, 2 * seeds - runs_so_far)) >= POWER

    # Power rises with the number of seeds: double it, then search the last octave.
    most = 1
    while most < MOST_SEEDS and not enough(most):
        most *= 2
    octave = range(most // 2 + 1, most + 1)
    found = bisect_left(octave, True, key=enough)
    return octave[found] if found < len(octave) else None


def power_table(
    curve: Curve,
    budgets: dict[str, float],
    noise: Noise,
    seeds: tuple[int, ...] = (1, 3, 5),
    gains: tuple[float, ...] = (0.01, 0.02, 0.05, 0.10),
) -> pd.DataFrame:
    """How small a gain each rung can show, and how many seeds of each method a given gain needs there.

    Args:
        budgets: model FLOPs of each rung by name.
        gains: speedups minus 1.

    Returns:
        Index ``rung``; ``bits_per_byte_per_percent`` (what 1 % of compute is worth), ``gain_with_<n>_seeds``
        (smallest speedup minus 1; null where only the asymptote would do) and ``seeds_for_<g>%`` (null beyond
        `MOST_SEEDS`).
    """
    rows = []
    for rung, flops in budgets.items():
        loss, here = curve.loss(flops), noise.at(rung)
        row: dict[str, object] = {"rung": rung, "bits_per_byte_per_percent": curve.loss_per_log_compute(loss) / 100}
        for count in seeds:
            try:
                row[f"gain_with_{count}_seeds"] = curve.speedup_of_loss(loss, detectable_loss(count, here)) - 1
            except UndefinedError:
                row[f"gain_with_{count}_seeds"] = None
        for gain in gains:
            row[f"seeds_for_{gain:.0%}"] = seeds_to_show(loss - curve.loss_at_speedup(loss, 1 + gain), here)
        rows.append(row)
    return pd.DataFrame(rows).set_index("rung")
