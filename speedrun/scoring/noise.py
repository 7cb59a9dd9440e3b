"""Seed noise: how much bits per byte vary between seeds of one recipe, and how well that is known.

Two methods are compared by the baseline's noise, so that everybody is measured by one (`noises_of` says when not).
It is one sigma, pooled over the rungs; a rung where one arm has `OWN_SIGMA_FROM` seeds or more uses its own, as noise
may differ between rungs.
"""

import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy import special

from speedrun.scoring.estimate import LEVEL, Array, UndefinedError
from speedrun.scoring.table import Arm

OWN_SIGMA_FROM = 5

ENOUGH_DEGREES = 4
"""Degrees of freedom (three seeds at two rungs) from which the baseline's seeds alone tell the noise."""
OWN_NOISE_FROM = 8
"""Degrees of freedom (three seeds at four rungs) from which a noisier candidate has a noise of its own. With fewer, two
uncertain sigmas in one difference make the interval too wide."""
NOISIER = 0.05
"""p of the F test below which a candidate's seeds are taken to differ more than the baseline's. Not strict, for a
noisy candidate that is not found out gets intervals far too narrow; looser still, and all become too wide."""

ASSUMED_SIGMA = 0.0004
"""Bits per byte. What a comparison of public rows assumes: they have one seed each, and so show no noise of
their own. Our own comparisons measure it."""


@dataclass(frozen=True)
class Noise:
    """Standard deviation of bits per byte between seeds."""

    sigma: float
    """Bits per byte."""
    degrees_of_freedom: float
    """Of the estimate of sigma; ``inf`` when it is taken as known."""
    source: str
    """Where it comes from, in words."""
    of_rungs: Mapping[str, "Noise"] = field(default_factory=dict)
    """The noise of those rungs that have their own."""

    @classmethod
    def assumed(cls, sigma: float = ASSUMED_SIGMA) -> "Noise":
        """A sigma that is taken as known.

        Raises:
            ValueError: if it is not positive.
        """
        if not sigma > 0:
            raise ValueError(f"sigma must be positive, got {sigma}")
        return cls(sigma, math.inf, f"assumed {sigma:g} bits per byte")

    def at(self, rung: str) -> "Noise":
        """The noise at a rung: its own where it has one."""
        return self.of_rungs.get(rung, self)


def pooled_noise(arms: Sequence[Arm]) -> Noise:
    """Pooled standard deviation within arms, and within those of each rung that has seeds enough.

    Raises:
        UndefinedError: if no arm has two seeds, or if all seeds of every arm agree to the last digit.
    """
    degrees = sum(arm.seeds - 1 for arm in arms)
    if degrees < 1:
        raise UndefinedError(
            "every rung has a single seed, so nothing tells noise from gain: run more seeds, of the baseline at least"
        )
    sigma = math.sqrt(sum(arm.squares for arm in arms) / degrees)
    if sigma == 0:
        raise UndefinedError("all seeds agree to the last digit: they repeat one run, and show no noise")
    by_rung: dict[str, list[Arm]] = defaultdict(list)
    for arm in arms:
        by_rung[arm.rung].append(arm)
    own = {rung: _own_noise(rung, here) for rung, here in by_rung.items() if _has_own(here)}
    replicated = sum(arm.seeds > 1 for arm in arms)
    source = f"pooled over {replicated} arm(s) with several seeds, {degrees} degrees of freedom"
    return Noise(sigma, degrees, source, own)


def _has_own(arms: Sequence[Arm]) -> bool:
    return max(arm.seeds for arm in arms) >= OWN_SIGMA_FROM and any(arm.squares > 0 for arm in arms)


def _own_noise(rung: str, arms: Sequence[Arm]) -> Noise:
    degrees = sum(arm.seeds - 1 for arm in arms)
    sigma = math.sqrt(sum(arm.squares for arm in arms) / degrees)
    return Noise(sigma, degrees, f"measured at {rung} alone, {degrees} degrees of freedom")


def noises_of(baseline: Sequence[Arm], candidate: Sequence[Arm]) -> tuple[Noise, Noise]:
    """The noise of the baseline's arms and of the candidate's, where the two are compared.

    Both are the baseline's own, so that no candidate narrows its interval by few or lucky seeds. A candidate whose
    seeds differ more (F test, `NOISIER`) has its own. Either is pooled over the two where too few degrees of freedom
    stand behind it (`ENOUGH_DEGREES`, `OWN_NOISE_FROM`).

    Raises:
        UndefinedError: where no noise is known.
    """
    theirs = _noise_or_none(baseline)
    if theirs is None or theirs.degrees_of_freedom < ENOUGH_DEGREES:
        both = pooled_noise([*baseline, *candidate])
        return both, both
    own = _noise_or_none(candidate)
    if own is None:
        return theirs, theirs
    ratio = (own.sigma / theirs.sigma) ** 2
    if special.fdtrc(own.degrees_of_freedom, theirs.degrees_of_freedom, ratio) >= NOISIER:
        return theirs, theirs
    return theirs, own if own.degrees_of_freedom >= OWN_NOISE_FROM else pooled_noise([*baseline, *candidate])


def _noise_or_none(arms: Sequence[Arm]) -> Noise | None:
    try:
        return pooled_noise(arms)
    except UndefinedError:
        return None


def mean_interval(arm: Arm, noise: Noise, level: float = LEVEL) -> tuple[float, float]:
    """Student's interval of an arm's true mean, in bits per byte."""
    own = noise.at(arm.rung)
    half = student_quantile(own.degrees_of_freedom, (1 + level) / 2) * own.sigma / math.sqrt(arm.seeds)
    return arm.bits_per_byte - half, arm.bits_per_byte + half


# From scipy.special, for scipy.stats takes longer to import than a board of many records takes to make.


@lru_cache
def student_quantile(degrees: float, below: float) -> float:
    """Student's t with a share ``below`` under it; the normal's for ``inf`` degrees of freedom."""
    return float(special.ndtri(below) if math.isinf(degrees) else special.stdtrit(degrees, below))


def student_share_below(degrees: float, t: float) -> float:
    """The share of Student's distribution below ``t``; of the normal for ``inf`` degrees of freedom."""
    return float(special.ndtr(t) if math.isinf(degrees) else special.stdtr(degrees, t))


def draw_sigmas(noise: Noise, rungs: Iterable[str], draws: int, seed: int, whose: str = "") -> dict[str, Array]:
    """Draws (draws,) of each rung's sigma that its seeds allow: sigma sqrt(v / chi-square_v).

    Rungs that share the pooled sigma share its draws, and so do two methods that share a noise.

    Args:
        whose: who has this noise for its own, and so draws of its own.
    """
    found = {}
    for rung in rungs:
        own = noise.at(rung)
        stream = whose if own is noise else f"{whose} {rung}"
        found[rung] = _draw_sigma(own.sigma, own.degrees_of_freedom, stream, draws, seed)
    return found


@lru_cache(maxsize=16)  # the same for everybody who is compared by the same noise
def _draw_sigma(sigma: float, degrees: float, stream: str, draws: int, seed: int) -> Array:
    if math.isinf(degrees):
        return np.full(draws, sigma)
    rng = np.random.default_rng([seed, zlib.crc32(stream.encode())])
    return sigma * np.sqrt(degrees / rng.chisquare(degrees, draws))


def draw_means(arms: Iterable[Arm], sigmas: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Draws (draws,) of each arm's true mean by rung: normal about the measured mean, with that draw's sigma.

    For a single arm that is exactly the t interval.
    """
    return {
        arm.rung: arm.bits_per_byte
        + sigmas[arm.rung] * rng.standard_normal(len(sigmas[arm.rung])) / math.sqrt(arm.seeds)
        for arm in arms
    }
