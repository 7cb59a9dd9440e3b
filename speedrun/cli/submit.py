"""``speedrun submit``: a candidate and its records as a pull request."""

from collections.abc import Sequence

import click

from speedrun.errors import SpeedrunError
from speedrun.project import Project, find_project


@click.command("submit")
@click.argument("name")
@click.option("--rung", "rungs", multiple=True, help="Rung to submit; may be repeated. [all that have a record]")
@click.option("--dry-run", is_flag=True, help="Show what would be pushed, and push nothing.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--upstream", help="Remote whose main it goes to. [upstream, else origin]")
@click.option("--fork", help="Remote to push to. [origin]")
def command(name: str, rungs: Sequence[str], dry_run: bool, yes: bool, upstream: str | None, fork: str | None) -> None:
    """Pack candidate NAME as a pull request: its file, its records, its preregistration, the leaderboard.

    Everything happens in a worktree of its own, on top of the upstream main; your tree is only read. The pull request
    is opened with `gh` where that is logged in; else its address is printed. Called again, it brings the same branch
    up to date. Exits with 1 when the submission would be refused.
    """
    from speedrun.candidate import check_name
    from speedrun.catalog import find_candidate
    from speedrun.submission import github
    from speedrun.submission.package import find_remotes, packed, push
    from speedrun.submission.pull_request import body_of, dry_run_markdown, runs_of, title_of

    project = find_project()
    submitted = _rungs(project, check_name(name), rungs)
    runs = runs_of(project, name)
    if not any(info.overrides for info in runs[submitted[0]]):
        find_candidate(project, name)
    remotes = find_remotes(project.root, upstream, fork)
    title = title_of(name, submitted)
    click.echo(f"packing {name} on top of {remotes.upstream}/main", err=True)
    with packed(project, name, rungs, remotes, title) as package:
        report, gate = _checked(Project(package.tree), package.base, name, submitted)
        click.echo("pricing it for the pull request", err=True)
        hardware = str(runs[submitted[0]][0].resources.get("hardware"))
        table = dry_run_markdown(project, name, submitted, hardware)
        body = body_of(Project(package.tree), name, submitted, report, gate, table)
        click.echo(f"{title}\n\n{body}\nBranch {package.branch}, against {remotes.upstream}/main:\n{package.files}")
        if report.errors or not gate.passed:
            _refuse(report, gate.text, gate.passed)
        if dry_run:
            click.echo(f"\nNothing was pushed. Without --dry-run, this goes to {remotes.fork}.")
            return
        if not yes:
            click.confirm(f"\nPush this to {remotes.fork}?", abort=True)
        push(project, package, remotes)
    click.echo(f"pushed {package.branch} to {remotes.fork}")
    to, at = (github.repository_of(project.root, remote) for remote in (remotes.upstream, remotes.fork))
    if to is not None and at is not None and github.gh_is_ready():
        click.echo(github.open_pull_request(to, at, package.branch, title, body))
        return
    from speedrun.records.store import write_bytes_atomically

    kept = project.work / "submit" / f"{name}.md"
    write_bytes_atomically(kept, body.encode())
    if to is None or at is None:
        click.echo(f"Open a pull request from {package.branch}; its text is in {kept.relative_to(project.root)}.")
        return
    address, has_body = github.compare_address(to, at, package.branch, title, body)
    click.echo(f"Open the pull request here:\n{address}")
    if not has_body:
        click.echo(f"Its text is too long for an address: paste {kept.relative_to(project.root)}.")


def _rungs(project: Project, name: str, rungs: Sequence[str]) -> list[str]:
    """Rungs that are submitted, in ladder order.

    Raises:
        SpeedrunError: for a rung without a record, or a candidate without any.
    """
    from speedrun.ladder import rungs_named
    from speedrun.submission.pull_request import runs_of

    recorded = list(runs_of(project, name))
    wanted = [rung.name for rung in rungs_named(rungs)] or recorded
    missing = [rung for rung in wanted if rung not in recorded]
    if missing or not wanted:
        where = f" at {', '.join(missing)}" if missing else ""
        raise SpeedrunError(f"{name} has no record{where}: `speedrun run {name} --rung ...` makes one")
    return wanted


def _checked(project: Project, base: str, name: str, rungs: Sequence[str]):
    """(what validation finds in the packed tree, gate 1's result)."""
    from speedrun.records import strict_json
    from speedrun.submission.pull_request import gate_one_of, runs_of
    from speedrun.submission.validate import validate

    report = validate(project, base=base)
    try:
        check = strict_json.loads((project.results / name / "check.json").read_bytes())
    except (OSError, ValueError):
        check = None
    return report, gate_one_of(check, runs_of(project, name)[rungs[0]][0], rungs)


def _refuse(report, gate: str, passed: bool) -> None:
    from speedrun.submission.shown import findings_text

    if report.errors:
        click.echo("\n" + findings_text(report, 30), err=True)
    if not passed:
        click.echo(gate, err=True)
    click.echo("Nothing was pushed.", err=True)
    raise click.exceptions.Exit(1)
