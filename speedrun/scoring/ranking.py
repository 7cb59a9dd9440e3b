"""Who stands where: dominance, the Pareto front, targets, and a ranking in tiers of ties."""

import heapq
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from speedrun.scoring.comparison import Comparison, RungComparison
from speedrun.scoring.estimate import interval
from speedrun.scoring.table import SAME_BUDGET, all_arms


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


def dominators(runs: pd.DataFrame) -> dict[str, set[str]]:
    """For each candidate, those that beat it at every rung that it has.

    To beat is a lower mean loss for no more compute (to within `SAME_BUDGET`). A candidate that lacks one of
    the rungs beats nobody there, so that the relation has no cycles.
    """
    arms = all_arms(runs)
    names, rungs = list(arms), list(runs["rung"].unique())
    # (candidates, rungs), NaN where there is no run: no comparison with it holds.
    losses, flops = (
        np.array([[getattr(own[rung], field) if rung in own else np.nan for rung in rungs] for own in arms.values()])
        for field in ("bits_per_byte", "model_flops")
    )
    found = {}
    for at, name in enumerate(names):
        own = np.isfinite(losses[at])
        beats = (losses[:, own] < losses[at, own]) & (flops[:, own] <= flops[at, own] * (1 + SAME_BUDGET))
        found[name] = {names[other] for other in np.flatnonzero(beats.all(axis=1))}
    return found


def rank(comparisons: Sequence[Comparison], runs: pd.DataFrame, rung: str) -> pd.DataFrame:
    """Ranks candidates that were compared with one baseline at one rung.

    By the lower end of the speedup's interval, so that nobody gains by being uncertain; but never a method
    above one that beats it at every rung. A tier holds those whom the draws do not tell from its first.

    Args:
        comparisons: one a candidate, from `compare` with the same ``draws`` and ``seed``.
        runs: the runs that they were made from.

    Returns:
        One row a candidate, best first: ``rank`` and ``tier`` (from 1; null where not ranked), ``candidate``,
        ``speedup``, ``low``, ``high``, ``beaten_by`` (names, comma-separated) and ``reason`` (why not ranked).

    Raises:
        ValueError: if the baselines differ.
    """
    if len({comparison.baseline for comparison in comparisons}) > 1:
        raise ValueError("candidates compared with different baselines cannot be ranked together")
    here = {comparison.candidate: _at(comparison, rung) for comparison in comparisons}
    ranked = {name: found for name, found in here.items() if found is not None and found.speedup.has_interval}
    beaten_by = dominators(runs[runs["candidate"].isin(list(here))])
    rows = []
    leader: RungComparison | None = None
    tier = 0
    for position, name in enumerate(_order(ranked, beaten_by), start=1):
        if leader is None or _shown_above(leader, ranked[name]):
            leader, tier = ranked[name], tier + 1
        rows.append(_row(name, ranked[name], beaten_by[name], position, tier, ""))
    for name in sorted(here.keys() - ranked.keys()):
        found = here[name]
        reason = f"no run at {rung} beside the baseline's" if found is None else found.speedup.reason or "unknown noise"
        rows.append(_row(name, found, beaten_by[name], None, None, reason))
    table = pd.DataFrame(rows, columns=["rank", "tier", "candidate", "speedup", "low", "high", "beaten_by", "reason"])
    return table.astype({"rank": "Int64", "tier": "Int64", "speedup": "Float64", "low": "Float64", "high": "Float64"})


def _at(comparison: Comparison, rung: str) -> RungComparison | None:
    return next((found for found in comparison.rungs if found.rung == rung), None)


def _order(ranked: Mapping[str, RungComparison], beaten_by: Mapping[str, set[str]]) -> list[str]:
    """Highest lower end first, each after all that beat it everywhere (a topological order)."""
    by_low = {name: (-(found.speedup.low or 0), name) for name, found in ranked.items()}
    beats: dict[str, list[str]] = {name: [] for name in ranked}
    above = dict.fromkeys(ranked, 0)  # how many of those that must stand above have no place yet
    for name in ranked:
        for other in beaten_by[name] & ranked.keys():
            beats[other].append(name)
            above[name] += 1
    free = [by_low[name] for name in ranked if not above[name]]
    heapq.heapify(free)
    order: list[str] = []
    while free:
        _, name = heapq.heappop(free)
        order.append(name)
        for other in beats[name]:
            above[other] -= 1
            if not above[other]:
                heapq.heappush(free, by_low[other])
    return order


def _shown_above(one: RungComparison, other: RungComparison) -> bool:
    """Whether the joint draws, which share the baseline's noise, put ``one`` above ``other``."""
    assert one.log_draws is not None and other.log_draws is not None  # both have intervals
    with np.errstate(invalid="ignore"):
        return interval(one.log_draws - other.log_draws)[0] > 0


def _row(
    name: str, found: RungComparison | None, beaten_by: set[str], position: int | None, tier: int | None, reason: str
) -> dict[str, object]:
    speedup = found.speedup if found is not None else None
    return {
        "rank": position,
        "tier": tier,
        "candidate": name,
        "speedup": speedup.value if speedup else None,
        "low": speedup.low if speedup else None,
        "high": speedup.high if speedup else None,
        "beaten_by": ", ".join(sorted(beaten_by)),
        "reason": reason,
    }
