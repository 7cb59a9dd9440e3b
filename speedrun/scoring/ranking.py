"""Who stands where: dominance, the Pareto front, targets, and a ranking in tiers of ties."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedrun.scoring.comparison import Comparison, RungComparison
from speedrun.scoring.estimate import LEVEL, Array
from speedrun.scoring.table import SAME_BUDGET, Arm

FEW = 5
"""Names that are listed where there may be hundreds."""


def pareto_front(runs: pd.DataFrame, cost: str = "model_flops") -> pd.Series:
    """Which runs no other beats: none has a loss as low at a cost as low, and one of the two lower.

    Args:
        cost: column to be kept small, such as ``model_flops`` or ``training_time_seconds``. A run without it
            is on no front.

    Returns:
        Booleans, one a row of ``runs``.
    """
    spent, losses = runs[cost].to_numpy(float), runs["bits_per_byte"].to_numpy(float)
    known = np.flatnonzero(np.isfinite(spent) & np.isfinite(losses))
    cheapest_first = known[np.lexsort((losses[known], spent[known]))]
    on_front = np.zeros(len(runs), bool)
    best, best_cost = np.inf, np.inf
    for at in cheapest_first:
        if losses[at] < best or (losses[at] == best and spent[at] == best_cost):
            on_front[at], best, best_cost = True, losses[at], spent[at]
    return pd.Series(on_front, index=runs.index)


def reaching(runs: pd.DataFrame, bits_per_byte: float, by: str = "model_flops") -> pd.DataFrame:
    """The runs that reach a target, cheapest first by column ``by``; those that lack it come last."""
    return runs[runs["bits_per_byte"] <= bits_per_byte].sort_values(by, na_position="last", kind="stable")


@dataclass(frozen=True)
class Dominance:
    """Who beats whom at every rung that they have.

    To beat is a lower mean loss for no more compute (to within `SAME_BUDGET`). A candidate that lacks one of
    the rungs beats nobody there, so that the relation has no cycles.
    """

    names: tuple[str, ...]
    """Sorted."""
    losses: Array
    """(candidates, rungs) mean bits per byte; NaN where there is no run, so that no comparison with it holds."""
    flops: Array
    """(candidates, rungs) model FLOPs."""

    @classmethod
    def of(cls, arms: Mapping[str, Mapping[str, Arm]]) -> Self:
        """Of candidates' arms by rung."""
        names = tuple(sorted(arms))
        rungs = list(dict.fromkeys(rung for own in arms.values() for rung in own))
        losses, flops = (
            np.array([[getattr(arms[name].get(rung), field, np.nan) for rung in rungs] for name in names])
            for field in ("bits_per_byte", "model_flops")
        )
        return cls(names, losses, flops)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where in ``names`` each stands."""
        return {name: at for at, name in enumerate(self.names)}

    def above(self, name: str) -> NDArray[np.intp]:
        """Places of all that beat a candidate."""
        at = self.places[name]
        own = np.isfinite(self.losses[at])
        cheaper = self.flops[:, own] <= self.flops[at, own] * (1 + SAME_BUDGET)
        return np.flatnonzero(((self.losses[:, own] < self.losses[at, own]) & cheaper).all(axis=1))

    @cached_property
    def beaten_by(self) -> dict[str, str]:
        """The names of those that beat a candidate, the first `FEW` of them."""
        found = {}
        for name in self.names:
            above = self.above(name)
            more = f" and {len(above) - FEW} more" if len(above) > FEW else ""
            found[name] = ", ".join(self.names[at] for at in above[:FEW]) + more
        return found


def rank(comparisons: Sequence[Comparison], dominance: Dominance, rung: str) -> pd.DataFrame:
    """Ranks candidates that were compared with one baseline at one rung.

    By the lower end of the speedup's interval, so that nobody gains by being uncertain; but never a method
    above one that beats it at every rung. A tier holds those whom the draws do not tell from its first.

    Args:
        comparisons: one a candidate, from `compare` with the same ``draws`` and ``seed``.
        dominance: of all of these candidates.

    Returns:
        One row a candidate, best first: ``rank`` and ``tier`` (from 1; null where not ranked), ``candidate``,
        ``speedup``, ``low``, ``high``, ``beaten_by`` (`Dominance.beaten_by`) and ``reason`` (why not ranked).

    Raises:
        ValueError: if the baselines differ.
    """
    if len({comparison.baseline for comparison in comparisons}) > 1:
        raise ValueError("candidates compared with different baselines cannot be ranked together")
    here = {comparison.candidate: _at(comparison, rung) for comparison in comparisons}
    ranked = {name: found for name, found in here.items() if found is not None and found.speedup.has_interval}
    rows = []
    leader: RungComparison | None = None
    tier = 0
    for position, name in enumerate(_order(ranked, dominance), start=1):
        if leader is None or _shown_above(leader, ranked[name]):
            leader, tier = ranked[name], tier + 1
        rows.append(_row(name, ranked[name], dominance, position, tier, ""))
    for name in sorted(here.keys() - ranked.keys()):
        found = here[name]
        reason = f"no run at {rung} beside the baseline's" if found is None else found.speedup.reason or "unknown noise"
        rows.append(_row(name, found, dominance, None, None, reason))
    table = pd.DataFrame(rows, columns=["rank", "tier", "candidate", "speedup", "low", "high", "beaten_by", "reason"])
    return table.astype({"rank": "Int64", "tier": "Int64", "speedup": "Float64", "low": "Float64", "high": "Float64"})


def _at(comparison: Comparison, rung: str) -> RungComparison | None:
    return next((found for found in comparison.rungs if found.rung == rung), None)


def _order(ranked: Mapping[str, RungComparison], dominance: Dominance) -> list[str]:
    """Highest lower end first, each after all that beat it everywhere (a topological order).

    Whoever comes up too early waits for the last of those that must stand above, and then comes up again.
    """
    keys = {name: (-(found.speedup.low or 0), name) for name, found in ranked.items()}
    waiting: dict[str, list[str]] = {name: [] for name in ranked}
    unplaced = np.array([name in ranked for name in dominance.names])
    order: list[str] = []
    free = list(keys.values())
    heapq.heapify(free)
    while free:
        _, name = heapq.heappop(free)
        above = [dominance.names[at] for at in dominance.above(name) if unplaced[at]]
        if above:
            waiting[max(above, key=keys.__getitem__)].append(name)
            continue
        order.append(name)
        unplaced[dominance.places[name]] = False
        for other in waiting[name]:
            heapq.heappush(free, keys[other])
    return order


def _shown_above(one: RungComparison, other: RungComparison) -> bool:
    """Whether the joint draws, which share the baseline's noise, put ``one`` above ``other``."""
    assert one.log_draws is not None and other.log_draws is not None  # both have intervals
    with np.errstate(invalid="ignore"):
        above = one.log_draws - other.log_draws > 0
    return bool(above.mean() > (1 + LEVEL) / 2)


def _row(
    name: str, found: RungComparison | None, dominance: Dominance, position: int | None, tier: int | None, reason: str
) -> dict[str, object]:
    speedup = found.speedup if found is not None else None
    return {
        "rank": position,
        "tier": tier,
        "candidate": name,
        "speedup": speedup.value if speedup else None,
        "low": speedup.low if speedup else None,
        "high": speedup.high if speedup else None,
        "beaten_by": dominance.beaten_by[name],
        "reason": reason,
    }
