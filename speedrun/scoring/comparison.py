"""A candidate against its baseline at every rung that both have, with joint draws of all that noise moves."""

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from speedrun.scoring.curve import Curve, Curves, fit_curve, fit_curves, leave_one_out
from speedrun.scoring.estimate import Array, Estimate, UndefinedError, ratio_estimate, share
from speedrun.scoring.noise import Noise, draw_means, draw_sigmas, noises_of
from speedrun.scoring.power import pairwise_test
from speedrun.scoring.speedup import interpolated_log_flops, log_speedup, mfu_ratio, speedup_through_point
from speedrun.scoring.table import Arm, arms_of, check_runs

DRAWS = 4_000
"""So many that chance moves an end of an interval by a third of a per cent of the draws (a standard error)."""


@dataclass(frozen=True)
class RungComparison:
    """The two at one rung."""

    rung: str
    candidate: Arm
    baseline: Arm
    speedup: Estimate
    """S through the baseline's measured point."""
    interpolated: Estimate
    """S without a curve: the check."""
    realised: Estimate
    """S times the ratio of MFU on the same hardware: the gain in time."""
    mfu_ratio: float | None
    """Candidate's over baseline's model FLOPs per second; None where ``realised`` is undefined."""
    without_a_rung: tuple[float, float] | None
    """Least and greatest S (it may be ``inf``) when the curve is fitted without one of its rungs; None with
    three budgets."""
    p_better: float | None
    """One-sided p of "no better than the baseline"; None where noise is unknown or nothing compares them."""
    p_worse: float | None
    """One-sided p of "no worse than the baseline"."""
    log_draws: Array | None = field(repr=False, compare=False)
    """(draws,) of ln S; None where S or the noise is unknown."""


@dataclass(frozen=True)
class Comparison:
    """All rungs, least compute first, and what they rest on."""

    candidate: str
    baseline: str
    rungs: tuple[RungComparison, ...]
    unmatched: tuple[str, ...]
    """Rungs of the candidate at which the baseline has no run."""
    curve: Curve | None
    """The baseline's."""
    curve_problem: str
    """Why there is no curve."""
    noise: Noise | None
    """Of the baseline's seeds."""
    candidate_noise: Noise | None
    """Of the candidate's: the same, but for `noises_of`'s exception."""
    noise_problem: str
    """Why the noise is unknown."""
    misfit_p: float | None
    """Chance that seed noise alone leaves the curve's residuals; None with three budgets or unknown noise."""


def compare(
    runs: pd.DataFrame, candidate: str, baseline: str, *, noise: Noise | None = None, draws: int = DRAWS, seed: int = 0
) -> Comparison:
    """Compares a candidate with a baseline.

    Every draw takes new means for both (`draw_means`), fits the baseline's curve to its means again, and
    computes all figures from them. So an interval carries the noise of the seeds, of the curve and of its
    asymptote, with their correlations. The baseline's draws are the same whatever it is compared with.

    Args:
        runs: a table with the columns of `Run`.
        noise: seed noise of both; from their seeds (`noises_of`) if not given.
        seed: of the draws; the result is a function of the arguments.

    Raises:
        SpeedrunError: for a table that cannot be scored, or a name that it lacks.
    """
    check_runs(runs)
    arms = arms_of(runs, candidate), arms_of(runs, baseline)
    return compare_arms(candidate, arms[0], baseline, arms[1], noise=noise, draws=draws, seed=seed)


def compare_arms(
    candidate: str,
    cand: dict[str, Arm],
    baseline: str,
    base: dict[str, Arm],
    *,
    noise: Noise | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    interpolate: bool = True,
) -> Comparison:
    """As `compare`, from arms by rung of a table that was checked.

    Args:
        interpolate: whether to work out the check without a curve, which no ranking needs.
    """
    curve, curve_problem, other_curves = _curves_of(tuple(base.values()))
    own_noise, noise_problem = noise, ""
    if noise is None:
        try:
            noise, own_noise = noises_of([*base.values()], [] if candidate == baseline else [*cand.values()])
        except UndefinedError as problem:
            noise_problem = str(problem)
    misfit = None
    if curve is not None and noise is not None and curve.spare_points:
        misfit = curve.misfit_p_value(noise.sigma, noise.degrees_of_freedom)
    pair = _Pair(
        candidate, baseline, cand, base, curve, curve_problem, other_curves, noise, own_noise, noise_problem,
        draws, seed, interpolate,
    )  # fmt: skip
    return Comparison(
        candidate,
        baseline,
        rungs=tuple(pair.at(rung) for rung in cand if rung in base),
        unmatched=tuple(rung for rung in cand if rung not in base),
        curve=curve,
        curve_problem=curve_problem,
        noise=noise,
        candidate_noise=own_noise,
        noise_problem=noise_problem,
        misfit_p=misfit,
    )


def _points(arms: Iterable[Arm]) -> tuple[list[float], list[float], list[int]]:
    """Budgets, losses and seeds, as `fit_curve` takes them."""
    arms = list(arms)
    return [arm.model_flops for arm in arms], [arm.bits_per_byte for arm in arms], [arm.seeds for arm in arms]


# What depends on the baseline alone is worked out once, however many are compared with it.


@lru_cache(maxsize=8)
def _curves_of(base: tuple[Arm, ...]) -> tuple[Curve | None, str, list[Curve]]:
    """(the baseline's curve, why there is none, the curves that leave a rung out)."""
    try:
        curve = fit_curve(*_points(base))
    except UndefinedError as problem:
        return None, str(problem), []
    return curve, "", leave_one_out(curve)


@lru_cache(maxsize=4)
def _baseline_draws(
    name: str, base: tuple[Arm, ...], noise: "_SameNoise", draws: int, seed: int, with_curve: bool
) -> tuple[dict[str, Array], Curves | None]:
    """(draws of the baseline's means by rung, its curve in each)."""
    sigmas = draw_sigmas(noise.noise, [arm.rung for arm in base], draws, seed)
    means = draw_means(base, sigmas, _rng(name, seed))
    budgets, _, seeds = _points(base)
    return means, fit_curves(budgets, np.stack(list(means.values()), axis=1), seeds) if with_curve else None


@dataclass(frozen=True)
class _SameNoise:
    """A noise as a key: equal where all its figures are."""

    noise: Noise = field(compare=False)
    figures: tuple[tuple[str, float, float], ...]

    @classmethod
    def of(cls, noise: Noise) -> "_SameNoise":
        parts = [("", noise), *sorted(noise.of_rungs.items())]
        return cls(noise, tuple((rung, each.sigma, each.degrees_of_freedom) for rung, each in parts))


def _rng(name: str, seed: int) -> np.random.Generator:
    """Everybody's own stream of draws."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


@dataclass(frozen=True)
class _Draws:
    """Joint draws: each arm's mean by rung (draws,), and the baseline's curves."""

    candidate: dict[str, Array]
    baseline: dict[str, Array]
    curves: Curves | None


@dataclass(frozen=True)
class _Pair:
    """The two, and what every rung's comparison needs of them."""

    candidate: str
    baseline: str
    cand: dict[str, Arm]
    base: dict[str, Arm]
    curve: Curve | None
    curve_problem: str
    other_curves: list[Curve]
    noise: Noise | None
    candidate_noise: Noise | None
    noise_problem: str
    draws: int
    seed: int
    interpolate: bool

    def at(self, rung: str) -> RungComparison:
        mine, theirs = self.cand[rung], self.base[rung]
        speedup, log_draws = self._speedup(rung)
        p_better, p_worse = self._p_values(rung, log_draws)
        try:
            ratio = mfu_ratio(mine, theirs)
            realised = speedup.scaled(ratio)
        except UndefinedError as problem:
            ratio, realised = None, Estimate.undefined(str(problem))
        return RungComparison(
            rung, mine, theirs, speedup, self._interpolated(rung), realised, ratio, self._without_a_rung(rung),
            p_better, p_worse, log_draws,
        )  # fmt: skip

    @cached_property
    def _sampled(self) -> _Draws | None:
        if self.noise is None or self.candidate_noise is None:
            return None
        whose = "" if self.candidate_noise is self.noise else self.candidate
        sigmas = draw_sigmas(self.candidate_noise, self.cand, self.draws, self.seed, whose)
        candidate = draw_means(self.cand.values(), sigmas, _rng(self.candidate, self.seed))
        base, noise = tuple(self.base.values()), _SameNoise.of(self.noise)
        return _Draws(
            candidate, *_baseline_draws(self.baseline, base, noise, self.draws, self.seed, self.curve is not None)
        )

    def _speedup(self, rung: str) -> tuple[Estimate, Array | None]:
        """S and the draws of ln S."""
        if self.curve is None:
            return Estimate.undefined(self.curve_problem), None
        mine, theirs = self.cand[rung], self.base[rung]
        try:
            log_value = math.log(speedup_through_point(self.curve, mine, theirs))
        except UndefinedError as problem:
            return Estimate.undefined(str(problem)), None
        drawn, log_draws = self._sampled, None
        if drawn is not None and drawn.curves is not None:
            log_draws = log_speedup(
                drawn.baseline[rung],
                drawn.candidate[rung],
                theirs.model_flops / mine.model_flops,
                drawn.curves.asymptote,
                drawn.curves.exponent,
            )
        return ratio_estimate(log_value, log_draws, self.noise_problem), log_draws

    def _without_a_rung(self, rung: str) -> tuple[float, float] | None:
        speedups = []
        for curve in self.other_curves:
            try:
                speedups.append(speedup_through_point(curve, self.cand[rung], self.base[rung]))
            except UndefinedError:
                speedups.append(math.inf)  # without that rung the asymptote lies above the candidate's loss
        return (min(speedups), max(speedups)) if speedups else None

    def _interpolated(self, rung: str) -> Estimate:
        if not self.interpolate:
            return Estimate.undefined("not worked out")
        mine, (budgets, losses, _) = self.cand[rung], _points(self.base.values())
        log_flops = interpolated_log_flops(budgets, np.array([losses]), np.array([mine.bits_per_byte]))[0]
        if math.isnan(log_flops):
            if (np.diff(losses) < 0).all():
                return Estimate.undefined("the loss lies outside the baseline's measured range: nothing to interpolate")
            return Estimate.undefined("the baseline's loss rises from one rung to the next")
        log_draws = None
        if (drawn := self._sampled) is not None:
            baseline = np.stack([drawn.baseline[each] for each in self.base], axis=1)
            log_draws = interpolated_log_flops(budgets, baseline, drawn.candidate[rung]) - math.log(mine.model_flops)
        return ratio_estimate(log_flops - math.log(mine.model_flops), log_draws, self.noise_problem)

    def _p_values(self, rung: str, log_draws: Array | None) -> tuple[float | None, float | None]:
        """From the draws of ln S; where S is undefined from the losses alone, at equal compute."""
        if self.candidate_noise is None:
            return None, None
        if log_draws is not None:
            return share(~(log_draws > 0)), share(~(log_draws < 0))
        try:
            test = pairwise_test(self.cand[rung], self.base[rung], self.candidate_noise)
        except UndefinedError:
            return None, None
        return test.p_better, test.p_worse
