"""The charts' points, worked out: the Pareto chart, the fits with their residuals, and speedup over compute."""

from collections.abc import Sequence
from typing import Any

from speedrun.board.model import ArmRow, Figure, Ladder, Line, PublicBoard, PublicRow
from speedrun.board.text import plain, ratio, scientific
from speedrun.ladder import LADDER

NAMED = 12
"""Candidates that a chart draws in colours of their own; the rest are grey."""
COSTS = {"model": "model_flops", "causal": "causal_flops", "hardware": "hardware_flops"}


def short(name: str, longest: int = 34) -> str:
    """A name for a legend: its end, which tells suites apart."""
    shown = plain(name, 200)
    return shown if len(shown) <= longest else f"…{shown[1 - longest :]}"


def charts(ladder: Ladder) -> dict[str, Any]:
    """Of one of our ladders."""
    named = [ladder.baseline, *(row.candidate for row in ladder.over_ladder)][:NAMED]
    budgets = {rung: LADDER[rung].budget_flops for rung in ladder.rungs}
    arms = [arm for arm in ladder.arms if arm.bits_per_byte.value is not None and any(not r.flags for r in arm.runs)]
    return {
        "costs": list(COSTS),
        "ticks": [[budget, f"{rung}<br>{scientific(budget)}"] for rung, budget in budgets.items()],
        "pareto": _pareto(arms, named),
        "fronts": {cost: _front([(getattr(arm, field), _score(arm)) for arm in arms]) for cost, field in COSTS.items()},
        "fits": [_fit(line) for name in named for line in ladder.lines if line.candidate == name],
        "speedups": [_speedups(name, arms) for name in named if name != ladder.baseline],
        "baseline": ladder.baseline,
    }


def _score(arm: ArmRow) -> float:
    assert arm.bits_per_byte.value is not None
    return arm.bits_per_byte.value


def _pareto(arms: Sequence[ArmRow], named: Sequence[str]) -> list[dict[str, Any]]:
    groups: dict[str, list[ArmRow]] = {name: [] for name in named}
    for arm in arms:
        groups.setdefault(arm.candidate if arm.candidate in named else "others", []).append(arm)
    return [
        {
            "name": short(name),
            "err": [] if name == "others" else [_half(arm.bits_per_byte) for arm in group],
            "x": {cost: _known([getattr(arm, field) for arm in group]) for cost, field in COSTS.items()},
            "y": [round(_score(arm), 5) for arm in group],
            "text": [f"{plain(arm.candidate, 40)} at {arm.rung}" for arm in group],
        }
        for name, group in groups.items()
        if group
    ]


def _known(values: list[float | None]) -> list[float | None]:
    """The values, or nothing where none is known."""
    return values if any(value is not None for value in values) else []


def _half(figure: Figure) -> float | None:
    """Half the width of an interval."""
    return None if figure.low is None or figure.high is None else round((figure.high - figure.low) / 2, 5)


def _front(points: Sequence[tuple[float | None, float]]) -> dict[str, list[float]]:
    """The points that none beats in both, cheapest first, to be joined by steps."""
    front: list[tuple[float, float]] = []
    for cost, loss in sorted((cost, loss) for cost, loss in points if cost is not None):
        if not front or loss < front[-1][1]:
            front.append((cost, loss))
    return {"x": [cost for cost, _ in front], "y": [loss for _, loss in front]}


def _fit(line: Line) -> dict[str, Any]:
    measured = [
        line.asymptote + line.coefficient * flops**-line.exponent + residual
        for flops, residual in zip(line.point_flops, line.residuals, strict=True)
    ]
    return {
        "name": short(line.candidate),
        "law": f"L(C) = {line.asymptote:.4f} + {line.coefficient:.4g} C^-{line.exponent:.4f}",
        "x": line.model_flops,
        "y": [round(loss, 5) for loss in line.bits_per_byte],
        "low": [round(loss, 5) for loss in line.low],
        "high": [round(loss, 5) for loss in line.high],
        "px": line.point_flops,
        "py": [round(loss, 5) for loss in measured],
        "residuals": [round(1000 * residual, 3) for residual in line.residuals],
    }


def _speedups(name: str, arms: Sequence[ArmRow]) -> dict[str, Any]:
    own = [arm for arm in arms if arm.candidate == name and arm.speedup.value is not None]
    own.sort(key=lambda arm: arm.model_flops)
    values = [arm.speedup.value or 0.0 for arm in own]
    lows, highs = ([getattr(arm.speedup, end) for arm in own] for end in ("low", "high"))
    return {
        "name": short(name),
        "x": [arm.model_flops for arm in own],
        "y": values,
        "minus": [0 if low is None else value - low for value, low in zip(values, lows, strict=True)],
        "plus": [0 if high is None else high - value for value, high in zip(values, highs, strict=True)],
        "text": [f"{plain(name, 40)} at {arm.rung}: {ratio(arm.speedup)}" for arm in own],
    }


def top_rung(public: PublicBoard) -> str:
    """The largest rung of the historic board at which several are ranked."""
    counts = {rung: sum(1 for row in public.rows if row.rung == rung and row.rank) for rung in public.rungs}
    return next((rung for rung in reversed(public.rungs) if counts[rung] > 1), public.rungs[-1] if public.rungs else "")


def public_charts(public: PublicBoard) -> dict[str, Any]:
    """Of the historic board."""
    rows = [row for row in public.rows if row.bits_per_byte and row.model_flops and "duplicate_run" not in row.flags]
    leaders = [row.candidate for row in public.rows if row.rung == top_rung(public) and row.rank]
    named = list(dict.fromkeys([public.baseline, *leaders]))[:NAMED]
    groups: dict[str, list[PublicRow]] = {name: [] for name in named}
    for row in rows:
        groups.setdefault(row.candidate if row.candidate in named else "others", []).append(row)
    costs = {cost: field for cost, field in COSTS.items() if cost != "causal"}
    return {
        "costs": list(costs),
        "ticks": [],
        "pareto": [
            {
                "name": short(name),
                "err": [],
                "x": {cost: [getattr(row, field) for row in group] for cost, field in costs.items()},
                "y": [row.bits_per_byte for row in group],
                "text": [plain(row.name, 60) for row in group],
            }
            for name, group in groups.items()
        ],
        "fronts": {
            cost: _front([(getattr(row, field), row.bits_per_byte or 0.0) for row in rows])
            for cost, field in costs.items()
        },
        "fits": [_fit(line) for name in named for line in public.lines if line.candidate == name],
        "speedups": [_public_speedups(name, rows) for name in named if name != public.baseline],
        "baseline": public.baseline,
    }


def _public_speedups(name: str, rows: Sequence[PublicRow]) -> dict[str, Any]:
    own = [row for row in rows if row.candidate == name and row.speedup.value is not None]
    own.sort(key=lambda row: row.model_flops or 0)
    values = [row.speedup.value or 0.0 for row in own]
    return {
        "name": short(name),
        "x": [row.model_flops for row in own],
        "y": values,
        "minus": [value - (row.speedup.low or value) for value, row in zip(values, own, strict=True)],
        "plus": [(row.speedup.high or value) - value for value, row in zip(values, own, strict=True)],
        "text": [f"{plain(row.name, 60)}: {ratio(row.speedup)}" for row in own],
    }
