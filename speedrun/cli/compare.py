"""``speedrun compare``: gate 2, with what gate 1 left."""

import json
from collections.abc import Sequence

import click

from speedrun.errors import SpeedrunError
from speedrun.project import find_project


@click.command("compare")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--against", metavar="NAME", help="What to compare with: a candidate, or marin:SUITE. [its baseline]")
@click.option("--stack", is_flag=True, help="Only the table of the stack: each step, the whole, and published gains.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As Markdown, for the pull request.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(names: Sequence[str], against: str | None, stack: bool, as_markdown: bool, as_json: bool) -> None:
    """Does candidate NAME beat its baseline, where, by how much, and how sure is that?

    Per rung and over each ladder. Several NAMEs are a stack of changes, in order: each is compared with the one
    before it, and the last with the base. marin:SUITE stands for a suite of Marin's public board, which compares
    by Levanter's own figure, never by the score.

    Exits with 1 when the last NAME is not shown to be better at the largest rung of its largest ladder.
    """
    if as_markdown and as_json:
        raise SpeedrunError("--markdown and --json exclude one another: choose one")
    if stack and len(names) < 2:
        raise SpeedrunError("--stack needs the names of at least two candidates, each built on the one before")
    project = find_project()
    from speedrun.board.pairs import report

    found = report(project, names, against)
    if as_json:
        click.echo(json.dumps(found.model_dump(mode="json"), indent=2))
    else:
        from speedrun.board.pair_sheets import report_sheets, stack_sheets

        sheets = stack_sheets(found) if stack else report_sheets(found)
        if as_markdown:
            from speedrun.board.text import markdown

            click.echo("\n".join(markdown(sheet, 3) for sheet in sheets), nl=False)
        else:
            from rich.console import Console

            from speedrun.cli.sheets import print_sheet

            console = Console()
            for sheet in sheets:
                print_sheet(console, sheet)
    if not (found.whole or found.steps)[-1].passes:
        raise click.exceptions.Exit(1)
