"""A dry run's tables: what each rung costs on each kind of hardware, for a terminal or as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from speedrun.cost.estimate import RungCost
from speedrun.cost.plan import LadderPlan, Range, RunPlan, plan_ladder
from speedrun.hardware import HardwareSpec
from speedrun.ladder import LADDER, compute_6nd

HEADINGS = (
    "rung",
    "parameters (without embeddings)",
    "steps x batch x length",
    "tokens",
    "tokens/param",
    "forward MFLOPs/token: convention",
    "causal",
    "traced",
    "budget used",
    "epochs",
    "optimizer's share",
    "memory/chip",
    "MFU",
    "time",
    "chip-hours",
    "$",
)

Planned = tuple[RunPlan, str]
"""What a run takes, and where its MFU range comes from."""


@dataclass(frozen=True)
class Priced:
    """Everything that a dry run found out."""

    title: str
    """The candidate's name, with the fields of its recipe that were set."""
    costs: Mapping[str, RungCost]
    failures: Mapping[str, str]
    """By rung that cannot be priced: why."""
    plans: Mapping[str, Mapping[str, Planned]]
    """By hardware and rung; empty for hardware without a peak."""
    seeds: int
    baseline: str
    baseline_missing: Sequence[str]
    """Rungs on which the baseline has no records, so that its arm must be run too."""

    @property
    def over_budget(self) -> list[RungCost]:
        """Rungs whose recipe asks for more steps than fit."""
        return [cost for cost in self.costs.values() if cost.steps > cost.steps_that_fit]

    def total(self, hardware: str) -> LadderPlan | None:
        """All seeds of all rungs, and as many of the baseline where it is missing; None where no hours can be told."""
        runs = [
            plan
            for rung, (plan, _) in self.plans[hardware].items()
            for _ in range(self.seeds * (2 if rung in self.baseline_missing else 1))
        ]
        return plan_ladder(runs) if runs else None


def print_hardware(console: Console, priced: Priced, spec: HardwareSpec, *, markdown: bool) -> None:
    """The table of one kind of hardware, with its total."""
    rows = [_row(cost, spec, priced.plans[str(spec)].get(rung)) for rung, cost in priced.costs.items()]
    if markdown:
        lines = [f"**{priced.title} on {spec}**", "", "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
        _say(console, "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]))
    else:
        table = Table(title=f"{priced.title} on {spec}", title_justify="left", show_lines=False)
        # Down instead of across: a rung is a column, so that the table fits a terminal.
        table.add_column("")
        for row in rows:
            table.add_column(row[0], justify="right")
        for at, heading in enumerate(HEADINGS[1:], start=1):
            table.add_row(heading, *(row[at] for row in rows))
        console.print(table)
    total = priced.total(str(spec))
    if total is None:
        _say(console, f"{spec} has no peak, so no hours can be told: measure a few steps instead.")
    else:
        _say(console, f"In all, {_what_is_run(priced)}: {_total(total)}.")
    if markdown:
        _say(console, "")


def print_notes(console: Console, priced: Priced, *, markdown: bool) -> None:
    """What must be said about the figures, and about rungs that have none."""
    notes = []
    for cost in priced.costs.values():
        if cost.disagreement:
            notes.append(f"{cost.rung}: {cost.disagreement}.")
        if cost.uncounted:
            notes.append(f"{cost.rung}: not counted: {'; '.join(cost.uncounted)}. The traced figure is a lower bound.")
        for chips, problem in cost.memory_problem.items():
            notes.append(f"{cost.rung} on {chips} chips: {problem}")
        six_n = compute_6nd(cost.parameters, 1) / (3 * cost.charged_flops_per_token)
        if six_n > 1.1 and not LADDER[cost.rung].is_micro:
            notes.append(
                f"{cost.rung}: 6ND would overstate it {six_n:.2f}x: "
                f"{cost.lookup_parameters / cost.parameters:.0%} of its parameters are the input embedding, which is "
                "looked up and multiplies nothing."
            )
    for cost in priced.over_budget:
        notes.append(f"{cost.rung}: over budget: {cost.steps:,} steps; {cost.steps_that_fit:,} steps fit.")
    notes += [f"{rung}: {text}" for rung, text in priced.failures.items()]
    if priced.costs:
        notes.append("Training takes three times the forward FLOPs. Memory is a lower bound; --compile tells it whole.")
    if any(source == "assumed" for plans in priced.plans.values() for _, source in plans.values()):
        notes.append("MFU assumed: from the lowest on Marin's public board at that rung to 40 %. --mfu sets your own.")
    print_lines(console, notes, markdown=markdown)


def print_lines(console: Console, lines: Iterable[str], *, markdown: bool) -> None:
    """Lines of text, as a list where it is Markdown."""
    for line in lines:
        _say(console, f"- {line}" if markdown else line)


def total_json(total: LadderPlan | None) -> dict[str, Any] | None:
    """A total as data."""
    if total is None:
        return None
    return {
        "runs": len(total.runs),
        "model_flops": total.model_flops,
        "hours": [total.hours.low, total.hours.high],
        "chip_hours": [total.chip_hours.low, total.chip_hours.high],
        "usd": [total.usd.low, total.usd.high] if total.usd else None,
    }


def range_text(value: Range) -> str:
    """``0.47-1.82``, or one figure where both ends read the same."""
    low, high = _figure(value.low), _figure(value.high)
    return low if low == high else f"{low}-{high}"


def time_text(hours: Range) -> str:
    """A range of hours in the unit that suits its upper end."""
    for unit, size in (("d", 24.0), ("h", 1.0), ("min", 1 / 60)):
        if hours.high >= size or unit == "min":
            return f"{range_text(hours * (1 / size))} {unit}"
    raise AssertionError("unreachable")


def _row(cost: RungCost, spec: HardwareSpec, planned: Planned | None) -> tuple[str, ...]:
    plan, source = planned or (None, "")
    return (
        cost.rung,
        f"{_count(cost.parameters)} ({_count(cost.non_embedding_parameters)})",
        f"{cost.steps:,} x {cost.batch_size} x {cost.sequence_length}",
        _count(cost.tokens),
        f"{cost.tokens / cost.parameters:.1f}",
        _million(cost.convention_flops_per_token),
        _million(cost.causal_flops_per_token),
        ("≥ " if cost.is_lower_bound else "") + _million(cost.traced_flops_per_token),
        f"{cost.budget_used:.1%}" + (" OVER" if cost.steps > cost.steps_that_fit else ""),
        f"{cost.epochs:.2f}" if cost.epochs is not None else "?",
        f"{cost.optimizer_flops_share:.2%}",
        _memory(cost, spec),
        f"{plan.mfu.low:.0%}-{plan.mfu.high:.0%} {source}" if plan else "-",
        time_text(plan.hours) if plan else "-",
        range_text(plan.chip_hours) if plan else "-",
        range_text(plan.usd) if plan and plan.usd else "-",
    )


def _what_is_run(priced: Priced) -> str:
    text = f"{_several(len(priced.costs), 'rung')} x {_several(priced.seeds, 'seed')}"
    missing = [rung for rung in priced.baseline_missing if rung in priced.costs]
    if missing:
        text += f", and as many of {priced.baseline} at {', '.join(missing)}, where it has no records"
    return text


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"


def _total(total: LadderPlan) -> str:
    parts = [f"{total.model_flops:.3g} model FLOPs", time_text(total.hours)]
    parts.append(f"{range_text(total.chip_hours)} chip-hours")
    if total.usd is not None:
        parts.append(f"${range_text(total.usd)}")
    return ", ".join(parts)


def _memory(cost: RungCost, spec: HardwareSpec) -> str:
    figures = cost.memory.get(str(spec.chips))
    if figures is None:
        return "?"
    least, capacity = figures["at_least_bytes"], spec.accelerator.memory_bytes
    text = f"≥ {least / 2**30:.2f} GiB"
    if capacity is None:
        return text
    return f"{text} of {capacity / 2**30:.0f}" + (" DOES NOT FIT" if least > capacity else "")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _million(flops: float | None) -> str:
    return f"{flops / 1e6:,.2f}" if flops is not None else "-"


def _count(number: float) -> str:
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
