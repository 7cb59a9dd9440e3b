"""What a record says of the tree that it was made from."""

import os
import subprocess
from pathlib import Path

import pytest

from speedrun.steps.record import git_state


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    (tmp_path / "results").mkdir()
    for name in ("results/attempts.jsonl", "code.py"):
        (tmp_path / name).write_text("x\n")
    who = ["-c", "user.name=T", "-c", "user.email=t@x.example"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_what_runs_write_leaves_the_tree_clean_and_a_changed_source_does_not(repository: Path) -> None:
    (repository / "results" / "attempts.jsonl").write_text("x\ny\n")
    (repository / "new.txt").write_text("untracked")
    commit, dirty = git_state(repository)
    assert commit is not None and len(commit) == 40 and dirty is False
    (repository / "code.py").write_text("y\n")
    assert git_state(repository) == (commit, True)


def test_outside_a_repository_nothing_is_said(tmp_path: Path) -> None:
    assert git_state(tmp_path) == (None, None)
