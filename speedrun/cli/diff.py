"""``speedrun diff``: what one candidate changes against another."""

import json
from collections.abc import Sequence

import click

from speedrun.errors import SpeedrunError
from speedrun.ladder import LADDER, rungs_named
from speedrun.project import find_project


@click.command("diff")
@click.argument("first")
@click.argument("second")
@click.option("--rung", "rungs", multiple=True, help="Rung to look at; may be repeated. [all that both declare]")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(first: str, second: str, rungs: Sequence[str], as_json: bool) -> None:
    """What candidate SECOND changes against FIRST: every field of the recipe that differs, and its own lines."""
    project = find_project()
    wanted = [rung.name for rung in rungs_named(rungs)]
    from speedrun.catalog import load_candidate, own_lines
    from speedrun.submission.recipes import recipe_changes, settings, shown_value

    loaded = load_candidate(project, first), load_candidate(project, second)
    both = wanted or [rung for rung in LADDER if all(rung in each.candidate.rungs for each in loaded)]
    if not both:
        raise SpeedrunError(f"{first} and {second} declare no rung in common")
    # What a recipe looks like on record; marin is imported for it (seconds).
    from speedrun.steps.record import settings_on_record

    def settings_at(rung: str) -> tuple:
        one, two = (settings(*settings_on_record(each.recipe(LADDER[rung]))) for each in loaded)
        return one, two

    changes = recipe_changes({rung: settings_at(rung) for rung in both})
    lines = {each.candidate.name: own_lines(each.path.read_bytes()) for each in loaded}
    if as_json:
        shown = [{"field": c.field, "rungs": c.rungs, "first": c.baseline, "second": c.candidate} for c in changes]
        click.echo(json.dumps({"rungs": both, "changes": shown, "own_lines": lines}, indent=2))
        return
    for change in changes:
        where = "" if list(change.rungs) == both else f"   at {', '.join(change.rungs)}"
        click.echo(f"{change.field}: {shown_value(change.baseline)} -> {shown_value(change.candidate)}{where}")
    if not changes:
        click.echo(f"No setting differs from {first}'s.")
    click.echo("own lines: " + ", ".join(f"{name} {count}" for name, count in lines.items()))
