"""Which pull request brought a record, told from a real repository's history."""

import json
import subprocess

import pytest

from speedrun.board.pull_requests import pull_requests, with_pull_requests
from speedrun.board.sheets import rung_sheet
from speedrun.errors import SpeedrunError
from speedrun.project import Project


@pytest.fixture
def history(writer):
    """A project under git: adamw committed outright, others by a merge, a squash, and a subject that pretends."""

    def git(*words: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", writer.project.root, *identity, *words], check=True, capture_output=True)

    def commit(subject: str) -> None:
        git("add", "-A")
        git("commit", "-q", "-m", subject)

    writer.project.root.mkdir(exist_ok=True)
    git("init", "-q", "-b", "main")
    git("remote", "add", "origin", "git@github.com:someone/speedrun.git")
    writer.ladder({"adamw": 1.0})
    commit("The baseline")
    git("checkout", "-q", "-b", "topic")
    writer.arm("merged", "micro_1", 1.3)
    commit("A record of mine (#999)")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "Merge pull request #12 from someone/topic", "topic")
    writer.arm("squashed", "micro_1", 1.2)
    commit("Add squashed at micro_1 (#34)")
    writer.arm("redone", "micro_1", 1.1)
    commit("Add redone (#56)")
    writer.arm("redone", "micro_1", 1.15)
    commit("Record it again, by hand")
    return writer


def arm_of(board, candidate: str):
    return next(arm for ladder in board.ladders for arm in ladder.arms if arm.candidate == candidate)


def test_merges_and_squashes_tell_their_number_and_the_last_change_counts(history) -> None:
    assert pull_requests(history.project) == {
        "results/merged/micro_1/speedrun_results.json": 12,
        "results/squashed/micro_1/speedrun_results.json": 34,
    }
    shown = with_pull_requests(history.project, history.board())
    assert arm_of(shown, "merged").pull_request_url == "https://github.com/someone/speedrun/pull/12"
    assert arm_of(shown, "redone").pull_request is None
    assert rung_sheet(shown.ladders[0], "micro_1").columns[-1] == "pull request"


def test_the_command_shows_it_and_the_written_page_does_not(history, speedrun) -> None:
    done = speedrun(history, "leaderboard", "--csv")
    assert "https://github.com/someone/speedrun/pull/34" in done.output
    arms = json.loads(speedrun(history, "leaderboard", "--json").output)["ladders"][0]["arms"]
    assert {arm["candidate"]: arm["pull_request"] for arm in arms}["merged"] == 12
    assert speedrun(history, "leaderboard", "--write").exit_code == 0
    assert "pull" not in (history.project.root / "LEADERBOARD.md").read_text()


def test_outside_a_repository_there_are_none(writer, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    writer.ladder({"adamw": 1.0})
    with pytest.raises(SpeedrunError):
        pull_requests(Project(writer.project.root))
    assert arm_of(with_pull_requests(writer.project, writer.board()), "adamw").pull_request is None
