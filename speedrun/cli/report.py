"""``speedrun report``: the results, as a comment for the issue that announced them."""

from pathlib import Path

import click

from speedrun.errors import SpeedrunError
from speedrun.project import Project, find_project


@click.command("report")
@click.argument("name", required=False)
@click.option("--issue", type=click.IntRange(min=1), help="Number of the issue. [the preregistration's]")
@click.option("--yes", is_flag=True, help="Post it without asking, where `gh` is logged in.")
@click.option("--changed-since", metavar="REF", help="Instead of NAME: every candidate whose records changed since.")
@click.option("--out", type=click.Path(path_type=Path), help="With --changed-since: write ISSUE-NAME.md files here.")
def command(name: str | None, issue: int | None, yes: bool, changed_since: str | None, out: Path | None) -> None:
    """Print the results of candidate NAME as Markdown, and post them to the issue with `gh` where that is logged in.

    A result that is worse, or no evidence, is reported as such.
    """
    project = find_project()
    if changed_since is not None:
        _write_changed(project, changed_since, out)
        return
    if name is None:
        raise SpeedrunError("say whose results: `speedrun report NAME`")
    from speedrun.candidate import check_name
    from speedrun.records.preregistrations import preregistration_path, read_preregistration
    from speedrun.submission import github
    from speedrun.submission.issue_report import issue_report

    text = issue_report(project, check_name(name))
    click.echo(text)
    plan = read_preregistration(preregistration_path(project.root, name))
    issue = issue or (plan.issue if plan else None)
    if issue is None:
        click.echo("No issue is known: --issue N says where it goes.", err=True)
    elif not github.gh_is_ready():
        click.echo(f"Paste this into issue #{issue}; `gh` would post it, and is not logged in here.", err=True)
    else:
        repository = github.repository_for_issues(project.root)
        if not yes:
            click.confirm(f"Post this to issue #{issue} of {repository or 'this repository'}?", abort=True, err=True)
        github.comment_on_issue(repository, issue, text)
        click.echo(f"posted to issue #{issue}", err=True)


def _write_changed(project: Project, ref: str, out: Path | None) -> None:
    from speedrun.submission.change import read_change
    from speedrun.submission.issue_report import reports_of_change

    if out is None:
        raise SpeedrunError("--changed-since writes files: say where with --out DIR")
    comments = reports_of_change(project, read_change(project.root, ref))
    out.mkdir(parents=True, exist_ok=True)
    for file, text in comments.items():
        (out / file).write_text(text, encoding="utf-8")
        click.echo(file)
