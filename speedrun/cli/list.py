"""``speedrun list``: rungs, candidates and accelerators. Imports nothing heavy."""

import json

import click
from rich.console import Console
from rich.table import Table

from speedrun.catalog import list_candidates
from speedrun.ladder import LADDER
from speedrun.project import find_project


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(as_json: bool) -> None:
    """Rungs, candidates and accelerators."""
    from speedrun.accelerators import accelerators

    project = find_project()
    candidates = list_candidates(project)
    known = accelerators()
    if as_json:
        content = {
            "rungs": [
                {"name": r.name, "ladder": r.ladder, "budget_flops": r.budget_flops, "training_data": r.training_data}
                for r in LADDER.values()
            ],
            "candidates": [{"name": c.name, "summary": c.summary, "problem": c.problem or None} for c in candidates],
            "accelerators": [
                {
                    "name": a.name,
                    "peak_flops_per_second": a.peak_flops_per_second,
                    "memory_bytes": a.memory_bytes,
                    "usd_per_chip_hour": a.price.usd_per_chip_hour if a.price else None,
                }
                for a in known.values()
            ],
        }
        click.echo(json.dumps(content, indent=2))
        return
    console = Console()
    rungs = Table("rung", "ladder", "budget (model FLOPs)", "training data", title="Rungs", title_justify="left")
    for rung in LADDER.values():
        rungs.add_row(rung.name, rung.ladder, f"{rung.budget_flops:.3g}", rung.training_data)
    console.print(rungs)
    table = Table("candidate", "", title=f"Candidates ({project.candidates.name}/)", title_justify="left")
    for item in candidates:
        # Text from a file is shown as text: no markup of its own.
        text = item.summary if not item.problem else f"cannot be loaded: {item.problem}"
        table.add_row(item.name, text.replace("[", r"\["))
    console.print(table)
    chips = Table("accelerator", "peak bf16", "memory", "$/chip-hour", title="Accelerators", title_justify="left")
    for chip in known.values():
        peak = f"{chip.peak_flops_per_second / 1e12:.1f} TFLOP/s" if chip.peak_flops_per_second else "-"
        memory = f"{chip.memory_bytes / 2**30:.0f} GiB" if chip.memory_bytes else "-"
        chips.add_row(chip.name, peak, memory, f"{chip.price.usd_per_chip_hour:.2f}" if chip.price else "-")
    console.print(chips)
