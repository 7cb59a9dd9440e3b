"""``speedrun status``: what runs, how far it is, what failed and why. Imports nothing heavy."""

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from speedrun.cli.progress import duration, training_detail
from speedrun.engines.manifest import Manifest, read_manifests
from speedrun.engines.watch import RunProgress, look_at
from speedrun.project import find_project

_SHOWN_BY_DEFAULT = 20


@click.command("status")
@click.option("--all", "show_all", is_flag=True, help=f"Every run, not the {_SHOWN_BY_DEFAULT} newest.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(show_all: bool, as_json: bool) -> None:
    """What runs, how far it is, what failed and why."""
    project = find_project()
    manifests = read_manifests(project)
    shown = manifests if show_all else manifests[-_SHOWN_BY_DEFAULT:]
    seen = [(manifest, look_at(manifest)) for manifest in shown]
    if as_json:
        click.echo(json.dumps([_as_json(manifest, progress) for manifest, progress in seen], indent=2))
        return
    console = Console()
    if not seen:
        console.print("nothing has been run here yet: try `speedrun run adamw --rung micro_1`", markup=False)
        return
    table = Table("candidate", "rung", "seed", "hardware", "started", "state", "")
    for manifest, progress in seen:
        state, text = describe(progress)
        style = {"done": "green", "running": "cyan", "failed": "red", "stopped": "yellow"}.get(state)
        table.add_row(
            manifest.candidate,
            manifest.rung,
            str(manifest.seed),
            manifest.hardware,
            manifest.started.removesuffix(" UTC"),
            f"[{style}]{state}[/{style}]" if style else state,
            " ".join([*(f"{field}={value}" for field, value in manifest.overrides.items()), text]).strip(),
        )
    console.print(table)
    for manifest, progress in seen:
        if describe(progress)[0] == "failed":
            where = f"{manifest.candidate} {manifest.rung} seed {manifest.seed}"
            console.print(f"{where}: {why_failed(manifest)}", markup=False, highlight=False, soft_wrap=True)
    if len(shown) < len(manifests):
        console.print(f"{len(manifests) - len(shown)} older runs: --all shows them", style="dim")


def describe(progress: RunProgress) -> tuple[str, str]:
    """(state of a run in a word, what more there is to say)."""
    if progress.is_done:
        return "done", ""
    label = progress.now
    state, holder = progress.states[label]
    if state == "failed":
        return "failed", f"in {label}"
    if state in ("held", "running"):
        text = training_detail(progress) if label == "train" and progress.last else f"{label}, by {holder}"
        return "running", text
    if progress.driver is not None:
        return "queued", f"{progress.driver} will come to it"
    reached = f"after step {progress.last.step + 1} of {progress.steps_total}; " if progress.last else ""
    return "stopped", f"{reached}the same command goes on"


def why_failed(manifest: Manifest) -> str:
    """The last error in the run's log, in a line."""
    try:
        with open(manifest.log_file, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return f"its log {manifest.log_file} is gone"
    errors = [line.strip() for line in lines if line and not line[0].isspace() and _is_exception(line)]
    return f"{errors[-1] if errors else 'no error in its log'} (log: {manifest.log_file})"


def _is_exception(line: str) -> bool:
    name = line.split(":", 1)[0].rsplit(".", 1)[-1]
    known = name.isidentifier() and name.endswith(("Error", "Exception", "Failure"))
    return known and "step(s) failed" not in line and "Step failed" not in line


def _as_json(manifest: Manifest, progress: RunProgress) -> dict[str, Any]:
    state, text = describe(progress)
    return {
        "candidate": manifest.candidate,
        "rung": manifest.rung,
        "seed": manifest.seed,
        "hardware": manifest.hardware,
        "run_key": manifest.key,
        "state": state,
        "detail": text,
        "why": why_failed(manifest) if state == "failed" else None,
        "started": manifest.started,
        "overrides": manifest.overrides,
        "step": progress.last.step if progress.last else None,
        "steps_total": progress.steps_total,
        "loss": progress.last.loss if progress.last else None,
        "tokens_per_second": progress.tokens_per_second,
        "eta": duration(progress.eta_seconds()) if state == "running" else None,
        "steps": {label: step for label, (step, _) in progress.states.items()},
    }
