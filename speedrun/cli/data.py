"""``speedrun data``: what each rung needs before anything trains, whether it is there, and what opens it."""

import dataclasses
import json
import sys

import click
from rich.console import Console
from rich.table import Table

from speedrun.access import Need, needs_of
from speedrun.cli.progress import size_of
from speedrun.ladder import LADDER, rungs_named
from speedrun.project import find_project


@click.command("data")
@click.option("--rung", "rungs", multiple=True, help="Rung to look at; may be repeated. [all]")
@click.option("--evaluation", help="Evaluation set instead of the rung's own, such as c4_en_proxy.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(rungs: tuple[str, ...], evaluation: str | None, as_json: bool) -> None:
    """Show what each rung needs: training set, evaluation set, tokenizer, and the step that opens what is closed.

    Asks the model hub with the present token and downloads nothing. Exits with 1 when something is closed.
    """
    project = find_project()
    chosen = rungs_named(rungs or tuple(LADDER))
    needs = needs_of(project, chosen, evaluation or "")
    closed = {need.name: need for of_rung in needs.values() for need in of_rung if need.state == "closed"}
    if as_json:
        content = {rung: [dataclasses.asdict(need) for need in of_rung] for rung, of_rung in needs.items()}
        click.echo(json.dumps(content, indent=2))
        sys.exit(1 if closed else 0)
    console = Console()
    table = Table("rung", "for", "name", "from", "size", "tokens", "state")
    for of_rung, names in _grouped(needs):
        for at, need in enumerate(of_rung):
            tokens = f"{need.tokens / 1e9:.3g} B" if need.tokens else "-"
            state = f"[{_COLOURS[need.state]}]{need.state}[/]"
            rung = "\n".join(names) if at == 0 else ""
            table.add_row(rung, need.role, need.name, _place(need), size_of(need.bytes), tokens, state)
        table.add_section()
    console.print(table)
    for need in closed.values():
        console.print(f"\n{need.advice}", markup=False, highlight=False, soft_wrap=True)
    sys.exit(1 if closed else 0)


def _grouped(needs: dict[str, list[Need]]) -> list[tuple[list[Need], list[str]]]:
    """Rungs that need the same, together."""
    groups: list[tuple[list[Need], list[str]]] = []
    for rung, of_rung in needs.items():
        if groups and groups[-1][0] == of_rung:
            groups[-1][1].append(rung)
        else:
            groups.append((of_rung, [rung]))
    return groups


def _place(need: Need) -> str:
    return f"{need.place} @ {need.commit[:7]}" if need.commit else need.place


_COLOURS = {"cached": "green", "open": "green", "closed": "red", "fetched at the first run": "yellow"}
