"""``speedrun export``: records in the shape of another repository."""

from pathlib import Path

import click

from speedrun.project import find_project


@click.command("export")
@click.argument("name")
@click.option("--format", "form", type=click.Choice(["marin"]), default="marin", show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("."), show_default=True, help="Folder to write to."
)
@click.option("--summary", is_flag=True, help="Add a summary of all rungs, with the learning-rate sweep of each.")
def command(name: str, form: str, out: Path, summary: bool) -> None:
    """Write the records of candidate NAME as Marin's repository lays them out: experiments/speedrun/NAME/RUNG/."""
    from speedrun.candidate import check_name
    from speedrun.submission.export import export_marin

    for path in export_marin(find_project(), check_name(name), out, summary=summary):
        click.echo(path)
