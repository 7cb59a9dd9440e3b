"""The baseline curve L(C) = c + A C^-alpha: how bits per byte fall with model FLOPs.

Fitted by least squares on bits per byte themselves (not on their logarithms), each rung weighted by its
number of seeds. Given the exponent the curve is linear in c and A, so both are solved in closed form and
only the exponent is searched (variable projection, Golub and Pereyra 1973; for scaling laws arXiv
2603.22339): first over a grid of every plausible exponent, so that no local minimum can trap it, then by
bracketed minimisation. The asymptote c stays at 0 or above, since bits per byte cannot be negative.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.optimize import elementwise

from speedrun.scoring.estimate import Array, UndefinedError

MIN_BUDGETS = 3
"""Budgets that a curve of three parameters needs; with fewer every speedup is undefined."""

EXPONENTS = np.geomspace(0.005, 2.0, 60)
"""The grid of exponents. Published fits of loss over compute lie between 0.05 and 0.4."""


@dataclass(frozen=True)
class Curve:
    """One fitted curve."""

    asymptote: float
    """c, bits per byte that no compute gets below."""
    coefficient: float
    """A, bits per byte times model FLOPs^alpha."""
    exponent: float
    """alpha, without unit."""
    budgets: tuple[float, ...]
    """Model FLOPs of the points it was fitted to, ascending."""
    residuals: tuple[float, ...]
    """Measured minus fitted bits per byte at each budget."""
    seeds: tuple[int, ...]
    """Runs behind each point: its weight."""
    at_bound: str
    """Empty, or the parameter that the data do not pin down: "asymptote" (at 0) or "exponent" (at the grid's end)."""

    def loss(self, model_flops: float) -> float:
        """Bits per byte at ``model_flops``."""
        return self.asymptote + self.coefficient * model_flops**-self.exponent

    def flops(self, bits_per_byte: float) -> float:
        """Model FLOPs at which the curve reaches ``bits_per_byte``.

        Raises:
            UndefinedError: at or below the asymptote.
        """
        return (self.coefficient / self._above(bits_per_byte)) ** (1 / self.exponent)

    def loss_per_log_compute(self, bits_per_byte: float) -> float:
        """-dL / d ln C where the curve passes ``bits_per_byte``: alpha (L - c), bits per byte per e-fold of FLOPs."""
        return self.exponent * self._above(bits_per_byte)

    def loss_at_speedup(self, bits_per_byte: float, speedup: float) -> float:
        """Bits per byte of a method ``speedup`` times as efficient, where the baseline has ``bits_per_byte``."""
        return self.asymptote + self._above(bits_per_byte) * speedup**-self.exponent

    def speedup_of_loss(self, bits_per_byte: float, lower: float) -> float:
        """The speedup that a loss ``lower`` than the baseline's ``bits_per_byte`` shows at equal compute.

        Raises:
            UndefinedError: at or below the asymptote.
        """
        return (self._above(bits_per_byte) / self._above(bits_per_byte - lower)) ** (1 / self.exponent)

    def _above(self, bits_per_byte: float) -> float:
        above = bits_per_byte - self.asymptote
        if above <= 0:
            raise UndefinedError(below_asymptote(bits_per_byte, self.asymptote))
        return above

    @property
    def spare_points(self) -> int:
        """Points beyond the three that fix a curve: degrees of freedom of the residuals."""
        return len(self.budgets) - MIN_BUDGETS

    def misfit_p_value(self, sigma: float, degrees_of_freedom: float) -> float:
        """Chance that seed noise alone leaves residuals this large (F test; chi-square where sigma is known).

        Raises:
            UndefinedError: with three budgets, which the curve always fits.
        """
        if not self.spare_points:
            raise UndefinedError("three budgets leave no residual to test: the curve passes through all of them")
        squares = sum(n * r * r for n, r in zip(self.seeds, self.residuals, strict=True)) / sigma**2
        if math.isinf(degrees_of_freedom):
            return float(special.chdtrc(self.spare_points, squares))
        return float(special.fdtrc(self.spare_points, degrees_of_freedom, squares / self.spare_points))


def below_asymptote(bits_per_byte: float, asymptote: float) -> str:
    """Why a loss has no compute on the curve."""
    return (
        f"{bits_per_byte:.4f} bits per byte lie at or below the baseline's asymptote {asymptote:.4f}: "
        "by its curve no compute reaches them"
    )


def fit_curve(
    model_flops: Sequence[float], bits_per_byte: Sequence[float], seeds: Sequence[int] | None = None
) -> Curve:
    """The least-squares curve through one point a rung.

    Args:
        model_flops: compute of each rung.
        bits_per_byte: mean over the rung's seeds.
        seeds: runs behind each mean, its weight; one each if not given.

    Raises:
        UndefinedError: with fewer than three distinct budgets, or if the loss does not fall with compute.
    """
    order = np.argsort(model_flops)
    flops, losses = (np.asarray(x, float)[order] for x in (model_flops, bits_per_byte))
    weights = np.ones(len(flops), int) if seeds is None else np.asarray(seeds, int)[order]
    budgets = len(np.unique(flops))
    if budgets < MIN_BUDGETS:
        raise UndefinedError(
            f"the baseline has {budgets} budget(s) and a curve needs {MIN_BUDGETS}: run it at more rungs"
        )
    curve = _curve(fit_curves(flops, losses[None, :], weights), 0, flops, losses, weights)
    if curve is None:
        raise UndefinedError("the baseline's loss does not fall with compute, so no curve describes it")
    return curve


@dataclass(frozen=True)
class Curves:
    """Many curves side by side, each field (sets,); NaN where the loss does not fall with compute."""

    asymptote: Array
    coefficient: Array
    exponent: Array


def _curve(fitted: "Curves", at: int, flops: Array, losses: Array, weights: NDArray[np.int_]) -> Curve | None:
    """One of many fitted curves with the points that it was fitted to; None where the loss does not fall."""
    asymptote, coefficient, exponent = (float(x[at]) for x in (fitted.asymptote, fitted.coefficient, fitted.exponent))
    if math.isnan(exponent):
        return None
    inside = EXPONENTS[0] < exponent < EXPONENTS[-1]
    return Curve(
        asymptote,
        coefficient,
        exponent,
        budgets=tuple(flops.tolist()),
        residuals=tuple((losses - asymptote - coefficient * flops**-exponent).tolist()),
        seeds=tuple(weights.tolist()),
        at_bound="exponent" if not inside else "asymptote" if asymptote == 0 else "",
    )


def fit_curves(model_flops: ArrayLike, bits_per_byte: ArrayLike, seeds: ArrayLike) -> Curves:
    """Least-squares curves through many sets of losses at the same budgets, all at once.

    Args:
        model_flops: (rungs,) compute of each rung.
        bits_per_byte: (sets, rungs) losses.
        seeds: (rungs,) or (sets, rungs) weights; 0 leaves a rung out.
    """
    flops, losses, weights = (np.asarray(x, float) for x in (model_flops, bits_per_byte, seeds))
    weights = np.broadcast_to(weights / weights.sum(axis=-1, keepdims=True), losses.shape)
    centre = np.log(flops).mean()
    log_compute = np.log(flops) - centre  # about 0, so that C^-alpha stays near 1

    grid, sets = len(EXPONENTS), len(losses)
    everywhere = np.repeat(EXPONENTS, sets), np.tile(losses, (grid, 1)), log_compute, np.tile(weights, (grid, 1))
    best = np.argmin(_solve(*everywhere)[2].reshape(grid, sets), axis=0)
    exponent = EXPONENTS[best]
    inside = np.flatnonzero((best > 0) & (best < grid - 1))
    if len(inside):

        def error(exponent: Array, of_set: Array) -> Array:
            at = of_set.astype(int)
            return _solve(exponent, losses[at], log_compute, weights[at])[2]

        bracket = tuple(EXPONENTS[best[inside] + step] for step in (-1, 0, 1))
        exponent[inside] = elementwise.find_minimum(error, bracket, args=(inside,)).x
    asymptote, amplitude, _ = _solve(exponent, losses, log_compute, weights)
    falls = amplitude > 0
    return Curves(
        np.where(falls, asymptote, np.nan),
        np.where(falls, amplitude * np.exp(exponent * centre), np.nan),
        np.where(falls, exponent, np.nan),
    )


def _solve(exponent: Array, losses: Array, log_compute: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Asymptote, amplitude (both >= 0) and weighted squared error of each set, given its exponent."""
    shape = np.exp(-exponent[:, None] * log_compute)
    mean_shape, mean_loss = _mean(shape, weights), _mean(losses, weights)
    spread, deviation = shape - mean_shape[:, None], losses - mean_loss[:, None]
    amplitude = np.maximum(_mean(spread * deviation, weights) / _mean(spread * spread, weights), 0)
    asymptote = mean_loss - amplitude * mean_shape
    through_zero = _mean(shape * losses, weights) / _mean(shape * shape, weights)
    amplitude = np.where(asymptote < 0, through_zero, amplitude)
    asymptote = np.maximum(asymptote, 0)
    error = _mean((losses - asymptote[:, None] - amplitude[:, None] * shape) ** 2, weights)
    return asymptote, amplitude, error


def _mean(values: Array, weights: Array) -> Array:
    """Each set's weighted mean over rungs."""
    return np.einsum("sr,sr->s", values, weights)


def leave_one_out(curve: Curve) -> list[Curve]:
    """The curve fitted again without each of its points in turn; empty where three points or fewer are left to fit.

    How far these lie apart says how much a figure hangs on a single rung.
    """
    if not curve.spare_points:
        return []
    flops, seeds = np.array(curve.budgets), np.array(curve.seeds)
    losses = np.array([curve.loss(c) + residual for c, residual in zip(curve.budgets, curve.residuals, strict=True)])
    kept = ~np.eye(len(flops), dtype=bool)
    fitted = fit_curves(flops, np.tile(losses, (len(flops), 1)), seeds * kept)
    enough = [at for at in range(len(flops)) if len(np.unique(flops[kept[at]])) >= MIN_BUDGETS]
    curves = [_curve(fitted, at, flops[kept[at]], losses[kept[at]], seeds[kept[at]]) for at in enough]
    return [each for each in curves if each is not None]


@dataclass(frozen=True)
class Forecast:
    """A loss projected beyond the measured budgets. It is shown, never ranked on."""

    bits_per_byte: float
    low: float | None
    """Least of the projections that leave one rung out; None where three budgets leave nothing to leave out."""
    high: float | None
    """Greatest of them."""
    extrapolation: float
    """Target compute over the largest measured one."""


def forecast(curve: Curve, model_flops: float, others: Sequence[Curve] | None = None) -> Forecast:
    """The curve's loss at ``model_flops`` with its leave-one-rung-out band.

    Args:
        others: `leave_one_out` of the curve, where it is known already.
    """
    value = curve.loss(model_flops)
    projections = [value, *(other.loss(model_flops) for other in (leave_one_out(curve) if others is None else others))]
    banded = len(projections) > 1
    return Forecast(
        value,
        min(projections) if banded else None,
        max(projections) if banded else None,
        model_flops / curve.budgets[-1],
    )
