"""``speedrun dry-run``: what a candidate costs on each rung, before any accelerator is touched."""

import json
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from speedrun.cost.estimate import RungCost, as_json, rung_costs
from speedrun.cost.plan import LadderPlan, Range, RunPlan, mfu_range, plan_ladder, plan_run
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec, parse_hardware
from speedrun.ladder import LADDER, STANDARD, Rung, compute_6nd, rungs_named
from speedrun.project import Project, find_project
from speedrun.records.store import RESULTS_FILE, read_results

HEADINGS = (
    "rung",
    "parameters (without embeddings)",
    "steps x batch x length",
    "tokens",
    "tokens/param",
    "FLOPs/token: convention",
    "causal",
    "traced",
    "budget used",
    "epochs",
    "optimizer",
    "memory/chip",
    "MFU",
    "time",
    "chip-hours",
    "$",
)


@click.command("dry-run")
@click.argument("name")
@click.option("--rung", "rungs", multiple=True, help="Rung to price; may be repeated. [30m, 75m, 300m, 1_4b]")
@click.option("--hardware", default="h100x8", show_default=True, help="Such as h100x8,v5p-8,w7900.")
@click.option("--seeds", default=1, show_default=True, help="How many seeds will be run.")
@click.option("--mfu", help="Range of model FLOPs utilisation, such as 0.3-0.5 (or 30-50).")
@click.option("--compile", "targets", multiple=True, help="Compile the real step for this target, with no device.")
@click.option("--markdown", is_flag=True, help="The block that goes into a pull request.")
@click.option("--json", "as_json_", is_flag=True, help="Machine-readable output.")
def command(
    name: str,
    rungs: Sequence[str],
    hardware: str,
    seeds: int,
    mfu: str | None,
    targets: Sequence[str],
    markdown: bool,
    as_json_: bool,
) -> None:
    """Price candidate NAME: FLOPs by three meters, memory, hours and dollars. Exits with 1 when over budget.

    The model is traced on shapes, which takes seconds and no memory; asked again, the answer is instant.
    """
    project = find_project()
    if seeds < 1:
        raise SpeedrunError(f"--seeds must be at least 1, got {seeds}")
    specs = parse_hardware(hardware)
    asked_mfu = parse_mfu(mfu) if mfu else None
    wanted = rungs_named(rungs) if rungs else list(STANDARD)
    console = Console(stderr=True, quiet=as_json_ or markdown)
    with console.status("pricing") as status:
        found = rung_costs(project, name, wanted, sorted({spec.chips for spec in specs}), status.update)
    costs = {rung: cost for rung, cost in found.items() if isinstance(cost, RungCost)}
    failures = {rung: str(error) for rung, error in found.items() if isinstance(error, SpeedrunError)}
    baseline_missing = _rungs_without_baseline(project, name, wanted)
    plans = {str(spec): _plans(project, spec, costs, asked_mfu) for spec in specs}
    compiled = [_compile(project, name, wanted, target, console) for target in targets]
    over = [cost for cost in costs.values() if cost.steps > cost.steps_that_fit]
    if as_json_:
        content = {
            "rungs": {rung: as_json(cost) for rung, cost in costs.items()},
            "failures": failures,
            "plans": {spec: {rung: _plan_json(plan) for rung, plan in each.items()} for spec, each in plans.items()},
            "seeds": seeds,
            "baseline_arm_needed": baseline_missing,
            "compiled": [row for rows in compiled for row in rows],
        }
        click.echo(json.dumps(content, indent=2))
    else:
        out = Console(width=None if not markdown else 10_000)
        for spec in specs:
            _print_hardware(out, name, spec, costs, plans[str(spec)], seeds, baseline_missing, markdown)
        _print_notes(out, costs, failures, over, markdown)
        for rows in compiled:
            for row in rows:
                out.print(row["text"], markup=False, highlight=False, soft_wrap=True)
    if over or failures or any(not row["fits"] for rows in compiled for row in rows):
        raise click.exceptions.Exit(1)


def parse_mfu(text: str) -> Range:
    """A range of utilisations: ``0.3-0.5``, ``30-50`` (per cent) or a single figure.

    Raises:
        SpeedrunError: for anything else.
    """
    try:
        figures = [float(part.strip().rstrip("%")) for part in text.split("-")]
    except ValueError:
        figures = []
    figures = [figure / 100 if figure > 1 else figure for figure in figures]
    if len(figures) not in (1, 2) or not all(0 < figure <= 1 for figure in figures):
        raise SpeedrunError(f"--mfu {text}: write a range such as 0.3-0.5, or 30-50 for per cent")
    return Range(min(figures), max(figures))


def _plans(
    project: Project, spec: HardwareSpec, costs: dict[str, RungCost], asked: Range | None
) -> dict[str, tuple[RunPlan, str]]:
    """(plan, where its MFU range comes from) by rung; nothing for hardware without a peak."""
    if spec.accelerator.peak_flops_per_second is None:
        return {}
    plans = {}
    for rung, cost in costs.items():
        if asked is not None:
            mfu, source = asked, "--mfu"
        elif (measured := _measured_mfu(project, rung, spec)) is not None:
            mfu, source = measured, "our records"
        else:
            mfu, source = mfu_range(rung), "assumed"
        plans[rung] = plan_run(rung, cost.model_flops, spec, mfu), source
    return plans


def _measured_mfu(project: Project, rung: str, spec: HardwareSpec) -> Range | None:
    """The range of MFU in this project's own records of the rung on this accelerator."""
    seen = []
    for path in project.results.glob(f"*/{rung}/{RESULTS_FILE}"):
        try:
            runs = read_results(path).runs
        except SpeedrunError:
            continue
        for run in runs:
            if run.run_info.mfu and run.run_info.resources.get("accelerator") == spec.accelerator.name:
                seen.append(run.run_info.mfu)
    return Range(min(seen), max(seen)) if seen else None


def _rungs_without_baseline(project: Project, name: str, rungs: Sequence[Rung]) -> list[str]:
    """Rungs on which the baseline has no record, so that its arm must be run too."""
    baseline = _baseline_of(project, name)
    if baseline == name:
        return []
    return [rung.name for rung in rungs if not (project.results / baseline / rung.name / RESULTS_FILE).exists()]


def _baseline_of(project: Project, name: str) -> str:
    """The candidate's baseline, as its text says."""
    import ast

    from speedrun.catalog import find_candidate

    tree = ast.parse(find_candidate(project, name).path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "baseline" and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    return "adamw"


def _rows(
    costs: dict[str, RungCost], spec: HardwareSpec, plans: dict[str, tuple[RunPlan, str]]
) -> list[tuple[str, ...]]:
    rows = []
    for rung, cost in costs.items():
        planned = plans.get(rung)
        plan, source = planned if planned else (None, "")
        rows.append(
            (
                rung,
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
                _time(plan.hours) if plan else "-",
                _range(plan.chip_hours) if plan else "-",
                _range(plan.usd) if plan and plan.usd else "-",
            )
        )
    return rows


def _print_hardware(
    console: Console,
    name: str,
    spec: HardwareSpec,
    costs: dict[str, RungCost],
    plans: dict[str, tuple[RunPlan, str]],
    seeds: int,
    baseline_missing: list[str],
    markdown: bool,
) -> None:
    rows = _rows(costs, spec, plans)
    if markdown:
        lines = [f"**{name} on {spec}**", "", "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    else:
        table = Table(title=f"{name} on {spec}", title_justify="left", show_lines=False)
        # Down instead of across: a rung is a column, so that the table fits a terminal.
        table.add_column("")
        for row in rows:
            table.add_column(row[0], justify="right")
        for at, heading in enumerate(HEADINGS[1:], start=1):
            table.add_row(heading, *(row[at] for row in rows))
        console.print(table)
    if not plans:
        text = f"{spec} has no peak, so no hours can be told: measure a few steps instead."
    else:
        runs = [
            plan for rung, (plan, _) in plans.items() for _ in range(seeds * (2 if rung in baseline_missing else 1))
        ]
        text = f"In all, {_what_is_run(seeds, baseline_missing, plans)}: {_total(plan_ladder(runs))}."
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _print_notes(
    console: Console, costs: dict[str, RungCost], failures: dict[str, str], over: list[RungCost], markdown: bool
) -> None:
    notes = []
    for cost in costs.values():
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
    for cost in over:
        notes.append(f"{cost.rung}: over budget: {cost.steps:,} steps; {cost.steps_that_fit:,} steps fit.")
    notes += [f"{rung}: {text}" for rung, text in failures.items()]
    notes.append("FLOPs/token are forward, in millions; training is three times that. Memory is a lower bound.")
    for note in notes:
        console.print(f"- {note}" if markdown else note, markup=False, highlight=False, soft_wrap=True)


def _compile(project: Project, name: str, rungs: Sequence[Rung], target: str, console: Console) -> list[dict[str, Any]]:
    """What compiling each rung for ``target`` says."""
    from speedrun.cost.compiled import compile_candidate

    with console.status(f"compiling for {target}") as status:
        return [compile_candidate(project, name, rung, target, status.update) for rung in rungs]


def _plan_json(planned: tuple[RunPlan, str]) -> dict[str, Any]:
    plan, source = planned
    return {
        "mfu": [plan.mfu.low, plan.mfu.high],
        "mfu_source": source,
        "hours": [plan.hours.low, plan.hours.high],
        "chip_hours": [plan.chip_hours.low, plan.chip_hours.high],
        "hardware_flops": [plan.hardware_flops.low, plan.hardware_flops.high],
        "usd": [plan.usd.low, plan.usd.high] if plan.usd else None,
    }


def _what_is_run(seeds: int, baseline_missing: list[str], plans: dict[str, Any]) -> str:
    text = f"{len(plans)} rung{'s' if len(plans) > 1 else ''} x {seeds} seed{'s' if seeds > 1 else ''}"
    if baseline_missing:
        text += f", and the baseline's arm at {', '.join(baseline_missing)}, which has no records"
    return text


def _total(total: LadderPlan) -> str:
    parts = [f"{total.model_flops:.3g} model FLOPs", _time(total.hours)]
    parts.append(f"{_range(total.chip_hours)} chip-hours")
    if total.usd is not None:
        parts.append(f"${_range(total.usd)}")
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


def _range(value: Range) -> str:
    low, high = _figure(value.low), _figure(value.high)
    return low if low == high else f"{low}-{high}"


def _time(hours: Range) -> str:
    """A range of hours in the unit that suits its upper end."""
    for unit, size in (("d", 24.0), ("h", 1.0), ("min", 1 / 60)):
        if hours.high >= size or unit == "min":
            return f"{_range(hours * (1 / size))} {unit}"
    raise AssertionError("unreachable")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _million(flops: float | None) -> str:
    return f"{flops / 1e6:,.2f}" if flops is not None else "-"


def _count(number: float) -> str:
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"
