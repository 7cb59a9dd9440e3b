"""``speedrun validate``: check records as data, offline. Never imports a candidate."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from speedrun.errors import SpeedrunError
from speedrun.project import Project, find_project

_SHOWN = 200


@click.command("validate")
@click.argument("paths", nargs=-1)
@click.option("--base", metavar="REF", help="Hold what changed since this git ref to the rules of a pull request.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@click.option("--rules", "as_rules", is_flag=True, help="Print the table of rules (docs/rules.md) and check nothing.")
def command(paths: Sequence[str], base: str | None, as_json: bool, as_rules: bool) -> None:
    """Check records, candidates and preregistrations: all of them, or what lies at PATHS.

    Everything is read as data: no candidate is imported, nothing is fetched. Exits with 1 when something is
    refused.
    """
    if as_rules:
        from speedrun.submission.rules import rules_markdown

        click.echo(rules_markdown(), nl=False)
        return
    from speedrun.submission.validate import validate

    project = find_project()
    report = validate(project, [_from_root(project, path) for path in paths], base=base)
    if as_json:
        content = {
            "ok": not report.errors,
            "records": report.records,
            "runs": report.runs,
            "findings": [finding.as_dict() for finding in report.findings],
        }
        click.echo(json.dumps(content, indent=2))
    else:
        from speedrun.submission.shown import findings_text

        click.echo(findings_text(report, _SHOWN))
    sys.exit(1 if report.errors else 0)


def _from_root(project: Project, path: str) -> str:
    """``path`` as given in the current folder, from the project's root."""
    whole = Path(path) if Path(path).is_absolute() else Path.cwd() / path
    try:
        return whole.resolve().relative_to(project.root.resolve()).as_posix()
    except (ValueError, OSError):
        raise SpeedrunError(f"{path} is not in the project {project.root}") from None
