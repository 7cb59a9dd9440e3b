"""``speedrun check``: gate 1, on this computer's CPU."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

from speedrun.ladder import LADDER, rungs_named
from speedrun.project import Project, find_project

CHECK_FILE = "check.json"
SHORT_RUN_STEPS = 40
_STYLES = {"passed": "green", "warn": "yellow", "failed": "red"}


@click.command("check")
@click.argument("name")
@click.option("--rung", "rungs", multiple=True, help="Rung to check; may be repeated. [all that are declared]")
@click.option("--no-training", is_flag=True, help="Leave out the short training run at micro_1.")
@click.option("--groups", "show_groups", is_flag=True, help="Show every parameter's optimizer group.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(name: str, rungs: Sequence[str], no_training: bool, show_groups: bool, as_json: bool) -> None:
    """Gate 1 for candidate NAME: does it build, trace, shard and count at every rung? Exits with 1 when not.

    The answers are kept in results/NAME/check.json, where `validate` and the board find them.
    """
    project = find_project()
    wanted = [rung.name for rung in rungs_named(rungs)]
    # Before jax is imported: it decides then how many devices there are.
    os.environ["JAX_PLATFORMS"] = "cpu"
    from speedrun.submission import check as gate

    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={gate.DEVICES}".strip()
    console = Console(stderr=True, quiet=as_json)
    with console.status("loading jax and levanter") as status:
        from speedrun.catalog import load_candidate

        loaded = load_candidate(project, name)
        names = wanted or [rung for rung in LADDER if rung in loaded.candidate.rungs]
        checks = []
        for rung in names:
            status.update(f"checking {name} at {rung}")
            checks.append(gate.check_rung(loaded, LADDER[rung]))
        first = next((check for check in checks if check.rung == "micro_1"), None)
        if first is not None and first.passed and not no_training:
            status.update(f"training {name} at micro_1 for {SHORT_RUN_STEPS} steps")
            first.lines.append(gate.losses_line(_train_briefly(project, name, flags)))
    report = gate.report(loaded, checks)
    _keep(project, name, report.as_json())
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        _print(Console(), report, show_groups)
    if not report.passed:
        raise click.exceptions.Exit(1)


def _train_briefly(project: Project, name: str, flags: str) -> list[float]:
    """Losses of a short scratch run, in a process of its own, with one device as runs have."""
    words = [sys.executable, "-m", "speedrun", "run", name, "--rung", "micro_1", "--steps", str(SHORT_RUN_STEPS)]
    environment = os.environ | {"SPEEDRUN_PROJECT": str(project.root), "XLA_FLAGS": flags}
    done = subprocess.run([*words, "--hardware", "cpu", "--json"], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        click.echo(done.stderr.strip(), err=True)
        return []
    (info,) = json.loads(done.stdout)
    folder = project.work / "scratch" / name / "micro_1" / info["recipe_fingerprint"][:12]
    lines = gzip.decompress((folder / info["step_log"]["file"]).read_bytes()).decode().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def _keep(project: Project, name: str, report: dict) -> None:
    """Merge the rungs that were checked into what is kept, unless that is of another source."""
    from speedrun.records.store import write_json_atomically

    path = project.results / name / CHECK_FILE
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        same = all(kept[key] == report[key] for key in ("source_digest", "versions", "schema_version"))
        earlier = {rung["rung"]: rung for rung in kept["rungs"]} if same else {}
    except (OSError, ValueError, KeyError, TypeError):
        earlier = {}
    earlier |= {rung["rung"]: rung for rung in report["rungs"]}
    merged = [earlier[rung] for rung in LADDER if rung in earlier]
    passed = all(line["state"] != "failed" for rung in merged for line in rung["lines"])
    write_json_atomically(path, report | {"rungs": merged, "passed": passed})


def _print(console: Console, report, show_groups: bool) -> None:
    table = Table("rung", "question", "", title=f"gate 1: {report.candidate}", title_justify="left")
    table.add_column("", overflow="fold")  # a path is shown whole
    for check in report.rungs:
        for line in check.lines:
            style = _STYLES[line.state]
            table.add_row(check.rung, line.question, f"[{style}]{line.state}[/{style}]", line.text.replace("[", r"\["))
        table.add_section()
    console.print(table)
    if show_groups:
        for check in report.rungs:
            groups = Table("parameter", "shape", "count", "group", title=f"{check.rung}: optimizer groups")
            for row in check.groups:
                groups.add_row(row.path, " x ".join(map(str, row.shape)), f"{row.count:,}", row.group)
            console.print(groups)
    verdict = "passes gate 1" if report.passed else "does not pass gate 1"
    console.print(f"{report.candidate} {verdict}", style="green" if report.passed else "red")
