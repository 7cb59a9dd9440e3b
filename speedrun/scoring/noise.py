"""Seed noise: how much bits per byte vary between seeds of one recipe, and how well that is known.

All arms that are compared share one pooled sigma. At a rung where one of them has `OWN_SIGMA_FROM` seeds or
more, there are enough to use the rung's own, as noise may differ between rungs.
"""

import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy import stats

from speedrun.scoring.estimate import Array, UndefinedError
from speedrun.scoring.table import Arm

OWN_SIGMA_FROM = 5

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


def draw_sigmas(noise: Noise, rungs: Iterable[str], draws: int, seed: int) -> dict[str, Array]:
    """Draws (draws,) of each rung's sigma that its seeds allow: sigma sqrt(v / chi-square_v).

    Rungs that share the pooled sigma share its draws.
    """
    found = {}
    for rung in rungs:
        own = noise.at(rung)
        stream = "" if own is noise else rung
        found[rung] = _draw_sigma(own.sigma, own.degrees_of_freedom, stream, draws, seed)
    return found


@lru_cache(maxsize=16)  # the same for everybody who is compared by the same noise
def _draw_sigma(sigma: float, degrees: float, stream: str, draws: int, seed: int) -> Array:
    if math.isinf(degrees):
        return np.full(draws, sigma)
    uniform = np.random.default_rng([seed, zlib.crc32(stream.encode())]).random(draws)
    return sigma * np.sqrt(degrees / stats.chi2.ppf(uniform, degrees))


def draw_means(arms: Iterable[Arm], sigmas: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Draws (draws,) of each arm's true mean by rung: normal about the measured mean, with that draw's sigma.

    For a single arm that is exactly the t interval.
    """
    return {
        arm.rung: arm.bits_per_byte
        + sigmas[arm.rung] * rng.standard_normal(len(sigmas[arm.rung])) / math.sqrt(arm.seeds)
        for arm in arms
    }
