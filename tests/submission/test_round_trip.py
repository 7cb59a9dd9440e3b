"""The whole way, for real: a candidate is trained, submitted to a fork, reviewed as CI does, merged, and run again.

One test, since each part stands on the one before and training costs a minute.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "T",
    "GIT_AUTHOR_EMAIL": "t@x.example",
    "GIT_COMMITTER_NAME": "T",
    "GIT_COMMITTER_EMAIL": "t@x.example",
}


@pytest.fixture(autouse=True)
def _who(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for key, value in GIT.items():
        monkeypatch.setenv(key, value)
    # No `gh` of this computer's user takes part.
    monkeypatch.setenv("GH_TOKEN", "")
    monkeypatch.setenv("GH_CONFIG_DIR", os.devnull)
    yield


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_from_idea_to_merged_and_reproduced(trained: Any, tmp_path: Path) -> None:
    Cli = type(trained)
    # A project on GitHub's terms: an upstream that holds the baseline's real record, a fork, a user's clone.
    upstream, fork, home = tmp_path / "upstream.git", tmp_path / "fork.git", tmp_path / "home"
    shutil.copytree(trained.root, home)
    user = Cli(home)
    (home / ".gitignore").write_text(".speedrun/\n")
    user("leaderboard", "--write")
    git(home, "init", "-q", "-b", "main")
    git(home, "add", "-A")
    git(home, "commit", "-q", "-m", "the baseline")
    git(tmp_path, "clone", "-q", "--bare", str(home), str(upstream))
    git(tmp_path, "clone", "-q", "--bare", str(home), str(fork))
    git(home, "remote", "add", "upstream", str(upstream))
    git(home, "remote", "add", "origin", str(fork))

    # The idea, announced, checked, run.
    user("new", "quicker")
    user("preregister", "quicker", "--rung", "micro_1", "--seeds", "2", "--issue", "7")
    user("check", "quicker", "--rung", "micro_1", "--no-training")
    user("run", "quicker", "--rung", "micro_1", "--seeds", "2")
    (home / "notes.txt").write_text("half a thought")
    attempts = (home / "results" / "quicker" / "micro_1" / "attempts.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in attempts] == ["started", "started", "ended", "ended"] or len(
        attempts
    ) == 4

    # Nothing leaves the computer before it is asked to.
    shown = user("submit", "quicker", "--dry-run").stdout
    assert "[Speedrun] quicker: micro_1" in shown and "Nothing was pushed" in shown
    assert "speedrun/quicker" not in git(home, "ls-remote", "origin") + git(home, "branch")
    pushed = user("submit", "quicker", "--yes").stdout
    assert "pushed speedrun/quicker to origin" in pushed
    for words in (
        "Preregistered in #7",
        "micro_1: preregistered",
        "- [x] gate 1 passed at micro_1",
        "nothing to refuse",
    ):
        assert words in pushed
    assert (home / "notes.txt").read_text() == "half a thought"
    assert git(home, "status", "--porcelain").splitlines() == [
        *["?? executor_steps/quicker.py", "?? notes.txt", "?? preregistrations/", "?? results/quicker/"]
    ]

    # CI: the branch is fetched and validated against main.
    review = tmp_path / "review"
    git(tmp_path, "clone", "-q", str(upstream), str(review))
    git(review, "fetch", "-q", str(fork), "speedrun/quicker:review")
    git(review, "switch", "-q", "review")
    judged = Cli(review).json("validate", "--base", "origin/main")
    assert judged["ok"] and judged["records"] == 1
    assert [finding["rule"] for finding in judged["findings"]] == []

    # Merged: the leaderboard that the branch holds is what main's records make.
    board = (review / "LEADERBOARD.md").read_bytes()
    git(review, "switch", "-q", "main")
    git(review, "merge", "-q", "--no-ff", "--no-edit", "review")
    git(review, "push", "-q", "origin", "main")
    main = tmp_path / "main"
    git(tmp_path, "clone", "-q", str(upstream), str(main))
    Cli(main)("leaderboard", "--check")
    assert (main / "LEADERBOARD.md").read_bytes() == board and b"quicker" in board
    assert Cli(main).json("validate")["ok"]

    # After the merge: the comment for the issue, from main's content alone.
    Cli(main)("report", "--changed-since", "HEAD~1", "--out", str(tmp_path / "comments"))
    comment = (tmp_path / "comments" / "7-quicker.md").read_text()
    assert "Results of quicker: micro_1" in comment and "micro_1: preregistered" in comment

    # Somebody else runs it again.
    shutil.copytree(home / ".speedrun" / "downloads", main / ".speedrun" / "downloads")
    again = Cli(main)("reproduce", "quicker", "--rung", "micro_1", "--yes", timeout=1200)
    assert "reproduced" in again.stdout
    kept = json.loads((main / "results" / "quicker" / "micro_1" / "verification-42.json").read_text())
    # The same computer, the same seed: to many digits the same.
    assert kept["bits_per_byte"] == pytest.approx(kept["recorded_bits_per_byte"], rel=1e-6)
    assert Cli(main).json("validate")["ok"]
    rows = {row["candidate"]: row for row in Cli(main).json("leaderboard")["ladders"][0]["arms"]}
    assert {"reproduced", "preregistered"} <= set(rows["quicker"]["badges"])
    assert git(main, "worktree", "list").count("\n") == 0
