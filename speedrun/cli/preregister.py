"""``speedrun preregister``: what is promised before anything runs."""

from collections.abc import Sequence

import click

from speedrun.errors import SpeedrunError
from speedrun.project import Project, find_project


@click.command("preregister")
@click.argument("name")
@click.option("--rung", "rungs", multiple=True, help="Rung that will be run; may be repeated.")
@click.option("--seeds", default=3, show_default=True, help="How many seeds at each rung: 42, 43, ...")
@click.option("--hardware", default="cpu", show_default=True, help="What it will run on, such as h100x8.")
@click.option("--expected-gain", help="Gain in compute that you expect, such as 5%.")
@click.option("--smallest-gain", default="2%", show_default=True, help="The smallest gain that would be worth having.")
@click.option("--stopping", help="Your stopping rule, instead of the usual one.")
@click.option("--issue", type=click.IntRange(min=1), help="Number of the issue in which you announce it.")
@click.option("--replace", is_flag=True, help="Register anew; the earlier text stays in git's history.")
def command(
    name: str,
    rungs: Sequence[str],
    seeds: int,
    hardware: str,
    expected_gain: str | None,
    smallest_gain: str,
    stopping: str | None,
    issue: int | None,
    replace: bool,
) -> None:
    """Write preregistrations/NAME.md and print it, as the text of an issue.

    It holds hypothesis, what changes, regime, metric, decision rule with its power, stopping rule and cost, and the
    recipe's fingerprint: a later change shows in `validate` and on the board. When the issue has its number,
    `speedrun preregister NAME --issue N` notes it.
    """
    from speedrun.candidate import check_name
    from speedrun.records.preregistrations import preregistration_path, read_preregistration, with_issue
    from speedrun.records.store import write_bytes_atomically

    project = find_project()
    path = preregistration_path(project.root, check_name(name))
    there = read_preregistration(path)
    if there is not None and not replace:
        if issue is None:
            raise SpeedrunError(
                f"{path.relative_to(project.root)} was registered {there.plan.registered}. --issue N notes its issue; "
                "--replace registers anew"
            )
        write_bytes_atomically(path, with_issue(path.read_text(encoding="utf-8"), issue).encode())
        click.echo(f"{path.relative_to(project.root)} now names issue #{issue}", err=True)
        return
    text = _text(project, name, rungs, seeds, hardware, expected_gain, smallest_gain, stopping, issue)
    write_bytes_atomically(path, text.encode())
    click.echo(text)
    click.echo(f"Written to {path.relative_to(project.root)}. Commit it, and open an issue with this text.", err=True)


def _text(
    project: Project,
    name: str,
    rungs: Sequence[str],
    seeds: int,
    hardware: str,
    expected_gain: str | None,
    smallest_gain: str,
    stopping: str | None,
    issue: int | None,
) -> str:
    from speedrun.catalog import find_candidate
    from speedrun.cli.run import prepare_environment
    from speedrun.hardware import parse_hardware
    from speedrun.ladder import rungs_named
    from speedrun.submission.preregister import STOPPING_RULE, Terms, parse_gain, preregistration

    find_candidate(project, name)
    wanted = rungs_named(rungs)
    if not wanted:
        raise SpeedrunError("say with --rung which rungs will be run; it may be repeated")
    if len({rung.ladder for rung in wanted}) > 1:
        raise SpeedrunError("micro and standard rungs are two ladders: register them apart")
    if not 1 <= seeds <= 64:
        raise SpeedrunError(f"--seeds must be 1 to 64, got {seeds}")
    specs = parse_hardware(hardware)
    if len(specs) != 1:
        raise SpeedrunError(f"--hardware {hardware}: a run has one kind of hardware")
    terms = Terms(
        rungs=wanted,
        seeds=seeds,
        hardware=specs[0],
        expected_gain=parse_gain(expected_gain, "--expected-gain") if expected_gain else None,
        smallest_gain=parse_gain(smallest_gain, "--smallest-gain"),
        stopping=stopping or STOPPING_RULE,
    )
    prepare_environment(project)
    return preregistration(project, name, terms, issue)
