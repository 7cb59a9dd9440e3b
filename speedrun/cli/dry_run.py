"""``speedrun dry-run``: what a candidate costs on each rung, before any accelerator is touched."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from speedrun.cli.options import RECIPE_FIELDS
from speedrun.cli.price_table import Planned, Priced, print_hardware, print_lines, print_notes, total_json
from speedrun.cost.estimate import RungCost, as_json, rung_costs
from speedrun.cost.plan import Range, mfu_range, plan_run
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec, parse_hardware
from speedrun.ladder import STANDARD, Rung, rungs_named
from speedrun.project import Project, find_project
from speedrun.records.store import RESULTS_FILE, read_results


@click.command("dry-run", context_settings=RECIPE_FIELDS)
@click.argument("name")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED, metavar="[--FIELD VALUE]...")
@click.option("--rung", "rungs", multiple=True, help="Rung to price; may be repeated. [30m, 75m, 300m, 1_4b]")
@click.option("--hardware", default="h100x8", show_default=True, help="Such as h100x8,v5p-8,w7900.")
@click.option("--seeds", default=1, show_default=True, help="How many seeds will be run.")
@click.option("--target-gain", help="Gain in compute to be shown, such as 5%: says how many seeds each rung needs.")
@click.option("--mfu", help="Range of model FLOPs utilisation, such as 0.3-0.5 (or 30-50).")
@click.option(
    "--compile", "targets", multiple=True, help="Compile the real step for h100x8, v5p-8, ... with no device."
)
@click.option("--config", "config", type=click.Path(path_type=Path), help="YAML file with recipe fields.")
@click.option("--markdown", is_flag=True, help="The block that goes into a pull request.")
@click.option("--json", "as_json_", is_flag=True, help="Machine-readable output.")
def command(
    name: str,
    overrides: Sequence[str],
    rungs: Sequence[str],
    hardware: str,
    seeds: int,
    target_gain: str | None,
    mfu: str | None,
    targets: Sequence[str],
    config: Path | None,
    markdown: bool,
    as_json_: bool,
) -> None:
    """Price candidate NAME: FLOPs by three meters, memory, hours and dollars.

    Exits with 1 when a rung is over budget, cannot be priced, or does not fit the target that it was compiled for.
    The model is traced on shapes, which takes seconds and no memory; asked again, the answer is instant. Fields of
    the recipe can be set, as in --batch_size 128.
    """
    from speedrun.overrides import parse_arguments, read_file

    if seeds < 1:
        raise SpeedrunError(f"--seeds must be at least 1, got {seeds}")
    specs = parse_hardware(hardware)
    asked_mfu = parse_mfu(mfu) if mfu else None
    gain = _gain(target_gain) if target_gain is not None else None
    compile_for = _targets(targets)
    fields = (read_file(config) if config else {}) | parse_arguments(overrides)
    wanted = rungs_named(rungs) if rungs else list(STANDARD)
    project = find_project()
    console = Console(stderr=True, quiet=as_json_ or markdown)
    with console.status("pricing") as status:
        found = rung_costs(project, name, wanted, sorted({spec.chips for spec in specs}), status.update, fields)
    costs = {rung: cost for rung, cost in found.items() if isinstance(cost, RungCost)}
    baseline = _baseline_of(project, name)
    priced = Priced(
        title=" ".join([name, *(f"{field}={value}" for field, value in fields.items())]),
        costs=costs,
        failures={rung: str(error) for rung, error in found.items() if isinstance(error, SpeedrunError)},
        plans={str(spec): _plans(project, spec, costs, asked_mfu) for spec in specs},
        seeds=seeds,
        baseline=baseline,
        baseline_missing=[
            rung.name for rung in wanted if name != baseline and not _has_record(project, baseline, rung)
        ],
    )
    traced = [rung for rung in wanted if rung.name in costs]
    compiled = [row for spec in compile_for for row in _compile(project, name, traced, spec, fields, console)]
    if as_json_:
        click.echo(json.dumps(_json(project, name, priced, compiled, gain), indent=2))
    else:
        _print(Console(width=10_000 if markdown else None), project, name, priced, specs, compiled, gain, markdown)
    if priced.over_budget or priced.failures or not all(row["fits"] for row in compiled):
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


def _gain(text: str) -> float:
    from speedrun.submission.preregister import parse_gain

    return parse_gain(text, "--target-gain")


def _targets(names: Sequence[str]) -> list[HardwareSpec]:
    """What to compile for, refused at once where nothing here can."""
    from speedrun.cost.targets import target_for

    specs = [spec for name in names for spec in parse_hardware(name)]
    for spec in specs:
        target_for(spec)
    return specs


def _print(
    console: Console,
    project: Project,
    name: str,
    priced: Priced,
    specs: Sequence[HardwareSpec],
    compiled: Sequence[Mapping[str, Any]],
    gain: float | None,
    markdown: bool,
) -> None:
    if priced.costs:
        for spec in specs:
            print_hardware(console, priced, spec, markdown=markdown)
    print_notes(console, priced, markdown=markdown)
    print_lines(console, [row["text"] for row in compiled], markdown=markdown)
    if gain is None:
        return
    from speedrun.board.text import markdown as as_markdown
    from speedrun.cli.sheets import print_sheet
    from speedrun.cli.target_gain import gain_sheet, target_gain

    found = target_gain(project, name, priced, gain)
    console.print()
    for spec in specs:
        sheet = gain_sheet(found, priced, str(spec))
        if markdown:
            console.print(as_markdown(sheet, 3), markup=False, highlight=False, soft_wrap=True)
        else:
            print_sheet(console, sheet)


def _json(
    project: Project, name: str, priced: Priced, compiled: Sequence[Mapping[str, Any]], gain: float | None
) -> dict[str, Any]:
    content = {
        "rungs": {rung: as_json(cost) for rung, cost in priced.costs.items()},
        "failures": priced.failures,
        "plans": {spec: {rung: _plan_json(plan) for rung, plan in each.items()} for spec, each in priced.plans.items()},
        "seeds": priced.seeds,
        "baseline": priced.baseline,
        "baseline_arm_needed": priced.baseline_missing,
        "totals": {spec: total_json(priced.total(spec)) for spec in priced.plans},
        "compiled": compiled,
    }
    if gain is not None:
        from speedrun.cli.target_gain import gain_json, target_gain

        content["target_gain"] = gain_json(target_gain(project, name, priced, gain), priced)
    return content


def _plan_json(planned: Planned) -> dict[str, Any]:
    plan, source = planned
    return {
        "mfu": [plan.mfu.low, plan.mfu.high],
        "mfu_source": source,
        "hours": [plan.hours.low, plan.hours.high],
        "chip_hours": [plan.chip_hours.low, plan.chip_hours.high],
        "hardware_flops": [plan.hardware_flops.low, plan.hardware_flops.high],
        "usd": [plan.usd.low, plan.usd.high] if plan.usd else None,
    }


def _plans(project: Project, spec: HardwareSpec, costs: dict[str, RungCost], asked: Range | None) -> dict[str, Planned]:
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


def _has_record(project: Project, name: str, rung: Rung) -> bool:
    return (project.results / name / rung.name / RESULTS_FILE).exists()


def _baseline_of(project: Project, name: str) -> str:
    """The candidate's baseline, as its text says."""
    import ast

    from speedrun.catalog import find_candidate

    tree = ast.parse(find_candidate(project, name).path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "baseline" and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    return "adamw"


def _compile(
    project: Project,
    name: str,
    rungs: Sequence[Rung],
    target: HardwareSpec,
    overrides: Mapping[str, Any],
    console: Console,
) -> list[dict[str, Any]]:
    """What compiling each rung for ``target`` says."""
    from speedrun.cost.compiled import compile_candidate

    with console.status(f"compiling for {target}") as status:
        return [compile_candidate(project, name, rung, target, status.update, overrides) for rung in rungs]
