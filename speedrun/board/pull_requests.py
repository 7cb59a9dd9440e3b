"""Which pull request brought a record, from the history of the repository: no network, and nobody's word for it.

It is that of the last commit on the main line that changed the record's results file: GitHub writes the number into the
subject of every merge and squash. LEADERBOARD.md does without, for it is written before there is a number, and must be
the same in a clone without history.
"""

import re

from speedrun.board.model import ArmRow, Board
from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.records.store import RESULTS_FILE
from speedrun.submission.git import git
from speedrun.submission.github import repository_for_issues

_SUBJECT = re.compile(r"Merge pull request #(\d{1,9}) from |.* \(#(\d{1,9})\)$")
_COMMIT = "\x01"
"""Begins a commit in git's answer; no path that is looked at holds it."""


def with_pull_requests(project: Project, board: Board) -> Board:
    """``board`` with the pull requests of its records, as far as the history tells."""
    try:
        numbers = pull_requests(project)
        repository = repository_for_issues(project.root) if numbers else None
    except SpeedrunError:
        return board  # no git, or no repository
    where = f"https://github.com/{repository}/pull/" if repository else ""

    def linked(arm: ArmRow) -> ArmRow:
        number = numbers.get(arm.record)
        if number is None:
            return arm
        return arm.model_copy(update={"pull_request": number, "pull_request_url": where and f"{where}{number}"})

    ladders = [ladder.model_copy(update={"arms": [linked(arm) for arm in ladder.arms]}) for ladder in board.ladders]
    return board.model_copy(update={"ladders": ladders})


def pull_requests(project: Project) -> dict[str, int]:
    """The number by the path of the results file, from the project's root.

    Raises:
        SpeedrunError: outside a repository, or without git.
    """
    log = ("log", "--first-parent", "--diff-merges=first-parent", "--name-only", "--relative", f"--format={_COMMIT}%s")
    found: dict[str, int | None] = {}
    number = None
    for line in git(project.root, "-c", "core.quotePath=false", *log, "--", project.results.name).splitlines():
        if line.startswith(_COMMIT):
            matched = _SUBJECT.match(line[1:])
            number = int(matched[1] or matched[2]) if matched else None
        elif line.endswith(f"/{RESULTS_FILE}"):
            found.setdefault(line, number)  # newest first
    return {path: number for path, number in found.items() if number is not None}
