"""``speedrun status``: what runs, how far it is, what failed and why. Imports nothing heavy."""

import functools
import json
import time
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from speedrun.cli.progress import duration
from speedrun.engines.manifest import Manifest, read_manifests
from speedrun.engines.watch import RunProgress, look_at
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec, hardware_flops, parse_hardware, price_usd
from speedrun.project import Project, find_project

_SHOWN_BY_DEFAULT = 20
WATCH_SECONDS = 2.0


@click.command("status")
@click.option("--all", "show_all", is_flag=True, help=f"Every run, not the {_SHOWN_BY_DEFAULT} newest.")
@click.option("--watch", is_flag=True, help="Show it anew every few seconds until nothing runs any more.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(show_all: bool, watch: bool, as_json: bool) -> None:
    """What runs, how far it is, what it has cost, what failed and why."""
    if watch and as_json:
        raise SpeedrunError("--watch and --json exclude one another: choose one")
    project = find_project()
    console = Console()
    seen, older = _look(project, show_all)
    if as_json:
        click.echo(json.dumps([_as_json(manifest, progress) for manifest, progress in seen], indent=2))
        return
    if not seen:
        console.print("nothing has been run here yet: try `speedrun run adamw --rung micro_1`", markup=False)
        return
    if watch:
        with Live(table_of(seen), console=console, auto_refresh=False) as live:
            while any(describe(progress)[0] in ("running", "queued") for _, progress in seen):
                time.sleep(WATCH_SECONDS)
                seen, older = _look(project, show_all)
                live.update(table_of(seen), refresh=True)
    else:
        console.print(table_of(seen))
    for manifest, progress in seen:
        where = f"{manifest.candidate} {manifest.rung} seed {manifest.seed}"
        if describe(progress)[0] == "failed":
            console.print(f"{where}: {why_failed(manifest)}", markup=False, highlight=False, soft_wrap=True)
        if progress.is_slowing:
            console.print(f"{where}: {slowing(progress)}", style="yellow", highlight=False, soft_wrap=True)
    if older:
        console.print(f"{older} older runs: --all shows them", style="dim")


def _look(project: Project, show_all: bool) -> tuple[list[tuple[Manifest, RunProgress]], int]:
    """(runs to show with their progress, how many older ones there are)."""
    manifests = read_manifests(project)
    shown = manifests if show_all else manifests[-_SHOWN_BY_DEFAULT:]
    return [(manifest, look_at(manifest)) for manifest in shown], len(manifests) - len(shown)


def table_of(seen: Sequence[tuple[Manifest, RunProgress]]) -> Table:
    """A line a run."""
    table = Table("candidate", "rung", "seed", "hardware", "node", "started", "state", "step", "loss")
    for heading in ("tokens/s", "MFU", "left", "tries", "cost", ""):
        table.add_column(heading)
    for manifest, progress in seen:
        state, text = describe(progress)
        style = {"done": "green", "running": "cyan", "failed": "red", "stopped": "yellow"}.get(state)
        last, speed, share = progress.last, progress.tokens_per_second, mfu(manifest, progress)
        cost = cost_usd(manifest, progress)
        holder = progress.states[progress.now][1] if progress.now else None
        node = holder or progress.driver
        table.add_row(
            manifest.candidate,
            manifest.rung,
            str(manifest.seed),
            manifest.hardware,
            node.host if node and state in ("running", "queued") else "",
            manifest.started.removesuffix(" UTC"),
            f"[{style}]{state}[/{style}]" if style else state,
            f"{last.step + 1}/{progress.steps_total}" if last else "",
            f"{last.loss:.3f}" if last else "",
            (f"{speed:,.0f}" if speed else "")
            + (f" [yellow]-{progress.fall:.0%}[/yellow]" if progress.is_slowing else ""),
            f"{share:.1%}" if share is not None else "",
            duration(progress.eta_seconds()) if state == "running" and last else "",
            str(progress.attempts or ""),
            f"${cost:,.2f}" if cost is not None else "",
            " ".join([*(f"{field}={value}" for field, value in manifest.overrides.items()), text]).strip(),
        )
    return table


def slowing(progress: RunProgress) -> str:
    """What is said of a run whose throughput falls."""
    return (
        f"throughput has fallen by {progress.fall:.0%} within this attempt: look for a hot or shared machine, slow "
        "storage, or memory that fills"
    )


def mfu(manifest: Manifest, progress: RunProgress) -> float | None:
    """Model FLOPs per second over the hardware's peak; None on a CPU and where something is unknown."""
    spec = _parsed(manifest.hardware)
    if spec is None or manifest.flops_per_token is None or progress.tokens_per_second is None:
        return None
    peak = hardware_flops(1.0, spec)
    return None if peak is None else manifest.flops_per_token * progress.tokens_per_second / peak


def cost_usd(manifest: Manifest, progress: RunProgress) -> float | None:
    """US dollars for the training time of all attempts so far, replayed steps included; None without a price."""
    spec = _parsed(manifest.hardware)
    return None if spec is None else price_usd(progress.spent_seconds, spec)


@functools.cache
def _parsed(hardware: str) -> HardwareSpec | None:
    try:
        return parse_hardware(hardware)[0]
    except SpeedrunError:
        # Started with a hardware file that is no longer there: its price is unknown, the rest is shown.
        return None


def describe(progress: RunProgress) -> tuple[str, str]:
    """(state of a run in a word, what more there is to say)."""
    if progress.is_done:
        return "done", ""
    label = progress.now
    state, holder = progress.states[label]
    if state == "failed":
        return "failed", f"in {label}"
    if state in ("held", "running"):
        return "running", f"{label}, by {holder}"
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
        "mfu": mfu(manifest, progress),
        "cost_usd": cost_usd(manifest, progress),
        "attempts": progress.attempts,
        "throughput_fall": progress.fall,
        "is_slowing": progress.is_slowing,
        "eta": duration(progress.eta_seconds()) if state == "running" else None,
        "steps": {label: step for label, (step, _) in progress.states.items()},
    }
