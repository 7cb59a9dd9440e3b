"""``speedrun reproduce``: run a record again, and write down what came of it."""

import json
import sys
from collections.abc import Sequence

import click

from speedrun.errors import SpeedrunError
from speedrun.project import find_project


@click.command("reproduce")
@click.argument("name")
@click.option("--rung", required=True, help="Rung of the record.")
@click.option("--seed", type=int, help="Seed to run again. [the record's first]")
@click.option("--hardware", help="As in `speedrun run`.")
@click.option("--keep-env", "keep", multiple=True, metavar="NAME", help="Let the run see this environment variable.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(
    name: str, rung: str, seed: int | None, hardware: str | None, keep: Sequence[str], yes: bool, as_json: bool
) -> None:
    """Run NAME's record at a rung again, and compare.

    It runs the code of HEAD in a clean worktree, with another home and none of your credentials. That is no wall:
    for somebody whom you don't know, do it in a container. What comes of it is written to
    results/NAME/RUNG/verification-SEED.json, which the board shows as a badge. Exits with 1 when it differs.
    """
    from speedrun.candidate import check_name
    from speedrun.ladder import rungs_named
    from speedrun.records.store import write_json_atomically
    from speedrun.records.verifications import verification_file
    from speedrun.submission.people import git_name
    from speedrun.submission.reproduce import command_of, find_case, run_again, verification_of
    from speedrun.submission.rule import plain
    from speedrun.submission.validate import validate

    project = find_project()
    rungs_named([rung])
    case = find_case(project, check_name(name), rung, seed)
    folder = project.results / name / rung
    errors = validate(project, [folder.relative_to(project.root).as_posix()]).errors
    if errors:
        raise SpeedrunError(
            f"`speedrun validate` refuses the record: {plain(errors[0].message)}. Nothing has been run."
        )
    authors = ", ".join(f"{plain(author.name, 60)} ({plain(author.affiliation, 60)})" for author in case.info.authors)
    click.echo(
        f"This runs code of {authors} on this computer:\n"
        + "".join(f"  {file}\n" for file in case.files)
        + f"as it is in commit {case.commit[:12]} (`git show {case.commit[:12]}:{case.files[0]}`), with\n"
        f"  speedrun {' '.join(plain(word) for word in command_of(case, hardware)[3:])}\n"
        "in a clean worktree, without your credentials. A container is safer.",
        err=True,
    )
    if not yes:
        click.confirm("Run it?", abort=True, err=True)
    again = run_again(project, case, hardware=hardware, keep=keep)
    verification = verification_of(project, case.info, again, verified_by=git_name(project.root))
    path = folder / verification_file(case.info.seed)
    write_json_atomically(path, verification.model_dump(mode="json"))
    if as_json:
        click.echo(json.dumps(verification.model_dump(mode="json"), indent=2))
    else:
        difference = verification.bits_per_byte - verification.recorded_bits_per_byte
        click.echo(
            f"{name} at {rung}, seed {case.info.seed}: {verification.bits_per_byte:.4f} bits per byte here, "
            f"{verification.recorded_bits_per_byte:.4f} on record ({difference:+.4f}; {verification.tolerance:.4f} is "
            f"within the noise): {verification.verdict}"
        )
        for text in verification.differences:
            click.echo(f"  {plain(text)}")
        click.echo(f"written to {path.relative_to(project.root)}")
    sys.exit(0 if verification.verdict == "reproduced" else 1)
