"""A figure with its interval, or the reason why there is none."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEVEL = 0.90
"""Share of intervals that hold the truth. ``scripts/sim_coverage.py`` measures that they do."""


class UndefinedError(ValueError):
    """A quantity that the data do not define; the message says why. Never stands for a bug."""


@dataclass(frozen=True)
class Estimate:
    """A figure with an interval at `LEVEL`. What is undefined is None, never NaN, and ``reason`` says why."""

    value: float | None
    low: float | None = None
    """Lower end; ``-inf`` (0 for a ratio) where there is none."""
    high: float | None = None
    """Upper end; ``inf`` where there is none."""
    reason: str = ""
    """Why the value, or its interval, is undefined."""

    @classmethod
    def undefined(cls, reason: str) -> Self:
        """No value, for this reason."""
        return cls(None, reason=reason)

    @property
    def has_interval(self) -> bool:
        """Whether both ends are there."""
        return self.low is not None and self.high is not None

    def scaled(self, factor: float) -> "Estimate":
        """The estimate times an exact positive factor."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return Estimate(None if self.value is None else self.value * factor, low, high, self.reason)

    def as_dict(self) -> dict[str, float | str | None]:
        """For JSON, which knows no infinity: an open end is null and ``reason`` says so."""
        low, high = (None if end is None or math.isinf(end) else end for end in (self.low, self.high))
        reason = self.reason
        if not reason and self.has_interval and (low is None or high is None):
            reason = "the interval has no " + ("lower" if low is None else "upper") + " end"
        return {"value": self.value, "low": low, "high": high, "reason": reason}


def interval(draws: Array, level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval of draws (draws,).

    A draw that is NaN could lie anywhere and so counts towards both tails; infinite draws count where they
    are. An interval that the data cannot close is thus left open.
    """
    tail = (1 - level) / 2
    last = len(draws) - 1
    low, high = math.floor(last * tail), math.ceil(last * (1 - tail))
    open_ended = np.isnan(draws)
    if not open_ended.any():
        ordered = np.partition(draws, (low, high))
        return float(ordered[low]), float(ordered[high])
    lows, highs = (np.partition(np.where(open_ended, end, draws), at) for end, at in ((-np.inf, low), (np.inf, high)))
    return float(lows[low]), float(highs[high])


def ratio_estimate(log_value: float, log_draws: Array | None, no_draws: str = "", level: float = LEVEL) -> Estimate:
    """Estimate of a ratio from its logarithm and the logarithm's draws (None: no interval, because of ``no_draws``)."""
    if log_draws is None:
        return Estimate(math.exp(log_value), reason=no_draws)
    with np.errstate(over="ignore"):
        low, high = np.exp(interval(log_draws, level))
    return Estimate(math.exp(log_value), float(low), float(high))


def share(condition: NDArray[np.bool_]) -> float:
    """Share of draws in which something holds, never 0: so many draws show no smaller chance."""
    return float((condition.sum() + 1) / (len(condition) + 1))
