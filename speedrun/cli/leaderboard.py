"""``speedrun leaderboard``: the board on a terminal, as data, or as LEADERBOARD.md."""

import csv
import json
import sys
from pathlib import Path

import click

from speedrun.errors import SpeedrunError
from speedrun.project import find_project

MOST = 20
"""Rows of a table that the whole board shows."""


@click.command("leaderboard")
@click.option("--rung", help="Just this rung, ours or one of Marin's historic board.")
@click.option("--public", is_flag=True, help="Marin's historic board, scored anew.")
@click.option("--write", is_flag=True, help="Write LEADERBOARD.md and docs/candidates.md.")
@click.option("--check", is_flag=True, help="Exit with 1 when a page is not what the records make it.")
@click.option("--json", "as_json", is_flag=True, help="Everything, machine-readable.")
@click.option("--csv", "as_csv", is_flag=True, help="One line for each candidate and rung.")
def command(rung: str | None, public: bool, write: bool, check: bool, as_json: bool, as_csv: bool) -> None:
    """Who is ahead at each rung, over each ladder, and by how much."""
    from speedrun.board.build import board
    from speedrun.board.markdown import pages
    from speedrun.board.sheets import ladder_sheets, public_sheets, sheets_of_rung

    if sum((write, check, as_json, as_csv)) > 1:
        raise SpeedrunError("--write, --check, --json and --csv exclude one another: choose one")
    project = find_project()
    shown = board(project)
    if not (check or write):
        from speedrun.board.pull_requests import with_pull_requests

        shown = with_pull_requests(project, shown)
    if as_json:
        click.echo(json.dumps(shown.model_dump(mode="json"), indent=2))
        return
    if as_csv:
        _write_csv(shown, rung)
        return
    if check:
        made = pages(project, shown).items()
        stale = [file for file, text in made if _text_of(project.root / file) != text]
        for file in stale:
            click.echo(f"{file} is not what the records make it: run `speedrun leaderboard --write`", err=True)
        if stale:
            raise click.exceptions.Exit(1)
        return
    if write:
        from speedrun.records.store import write_bytes_atomically

        for file, text in pages(project, shown).items():
            write_bytes_atomically(project.root / file, text.encode())
            click.echo(f"wrote {file}")
        return
    from rich.console import Console

    from speedrun.cli.sheets import print_sheet

    console = Console()
    if rung is not None:
        sheets = sheets_of_rung(shown, rung)
    elif public:
        if shown.public is None:
            raise SpeedrunError("results/marin/board.json is missing: `speedrun import` makes it from a runs.json")
        sheets = list(public_sheets(shown.public))
    else:
        sheets = list(ladder_sheets(shown))
    if not sheets:
        console.print("There are no records here yet: `speedrun run adamw --rung micro_2` makes the first.")
    for sheet in sheets:
        print_sheet(console, sheet, None if rung else MOST)


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _write_csv(shown, rung: str | None) -> None:
    from speedrun.board.flat import flat_rows

    rows = [row for row in flat_rows(shown) if rung in (None, row["rung"])]
    if rows:
        writer = csv.DictWriter(sys.stdout, rows[0])
        writer.writeheader()
        writer.writerows(rows)
