"""Packing a submission, with a real upstream and a real fork: exactly its files, and nobody's work in the way."""

import hashlib
import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.submission.package import Remotes, find_remotes, packed, push
from speedrun.submission.validate import validate

REMOTES = Remotes("upstream", "origin")


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def _who(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git knows nobody's home, and a name."""
    for key, value in {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "T",
        "GIT_AUTHOR_EMAIL": "t@x.example",
        "GIT_COMMITTER_NAME": "T",
        "GIT_COMMITTER_EMAIL": "t@x.example",
    }.items():
        monkeypatch.setenv(key, value)


@pytest.fixture
def forked(tmp_path: Path, clean: Path, factory: Any) -> Any:
    """A user's clone of their fork, with muonh in the tree, uncommitted, beside half-done work of another kind."""
    upstream, fork, root = tmp_path / "upstream.git", tmp_path / "fork.git", tmp_path / "project"
    shutil.copytree(clean, root)
    tree = factory.Tree(root, random.Random(1))
    aside = tmp_path / "aside"
    aside.mkdir()
    os.rename(root / "results" / "muonh", aside / "muonh")
    os.rename(root / "executor_steps" / "muonh.py", aside / "muonh.py")
    tree.put("docs/tutorial.md", "Welcome.\n")
    tree.put(".gitignore", ".speedrun/\n*.gz\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", "all so far")
    git(tmp_path, "clone", "-q", "--bare", str(root), str(upstream))
    git(tmp_path, "clone", "-q", "--bare", str(root), str(fork))
    git(root, "remote", "add", "upstream", str(upstream))
    git(root, "remote", "add", "origin", str(fork))
    os.rename(aside / "muonh", root / "results" / "muonh")
    os.rename(aside / "muonh.py", root / "executor_steps" / "muonh.py")
    tree.put("docs/tutorial.md", "Half a sentence\n")
    tree.put("notes.txt", "mine\n")
    tree.put("results/adamw/micro_1/speedrun_results.json", "being edited\n")
    tree.put("results/muonh/micro_1/.lock", "")
    return tree


def submit(tree: Any, rungs: tuple[str, ...] = (), title: str = "[Speedrun] muonh") -> str:
    """Pack and push; the commit."""
    project = Project(tree.root)
    with packed(project, "muonh", rungs, REMOTES, title) as package:
        push(project, package, REMOTES)
        return package.commit


def changed(root: Path, commit: str) -> set[str]:
    return set(git(root, "diff", "--name-only", "upstream/main", commit).splitlines())


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def upstream_gains(tree: Any, tmp_path: Path, name: str) -> None:
    """Somebody else's candidate is merged upstream, leaderboard and all."""
    other = tmp_path / f"other-{name}"
    git(tmp_path, "clone", "-q", str(tmp_path / "upstream.git"), str(other))
    shutil.copytree(tree.root / "results" / "muonh", other / "results" / name)
    (other / "executor_steps" / f"{name}.py").write_text("CANDIDATE = 1\n")
    for file in (other / "results" / name).rglob("speedrun_results.json"):
        content = json.loads(file.read_text())
        for run in content["runs"]:
            run["run_info"]["candidate"] = name
            run["run_info"]["bits_per_byte"] += 0.1
            run["run_info"]["step_log"]["sha256"] = _digest(name, file, run["run_info"]["seed"])
            run["run_info"]["wandb_run_link"] = None
        file.write_text(json.dumps(content))
    from speedrun.submission.leaderboard import generated_pages

    for path, text in generated_pages(Project(other)).items():
        (other / path).write_text(text)
    git(other, "add", "-A", "-f")
    git(other, "commit", "-q", "-m", name)
    git(other, "push", "-q")


RECORD = ("speedrun_results.json", "attempts.jsonl", "steps-42.jsonl.gz", "documents-42.json.gz")
OWN = {
    "LEADERBOARD.md",
    "docs/candidates.md",
    "executor_steps/muonh.py",
    *(f"results/muonh/{rung}/{file}" for rung in ("micro_1", "micro_2", "30m") for file in RECORD),
    *(f"results/muonh/{rung}/steps-43.jsonl.gz" for rung in ("micro_1", "micro_2")),
    *(f"results/muonh/{rung}/documents-43.json.gz" for rung in ("micro_1", "micro_2")),
}


def test_exactly_the_candidates_files_are_committed(forked: Any) -> None:
    commit = submit(forked)
    assert changed(forked.root, commit) == OWN
    # Ignored or not: a record without its step logs would be none.
    assert git(forked.root, "ls-remote", "origin", "refs/heads/speedrun/muonh").split()[0] == commit
    assert git(forked.root, "rev-parse", "speedrun/muonh") == commit


def test_the_users_tree_and_branches_are_left_alone(forked: Any) -> None:
    before = git(forked.root, "status", "--porcelain"), git(forked.root, "rev-parse", "HEAD")
    submit(forked)
    assert (git(forked.root, "status", "--porcelain"), git(forked.root, "rev-parse", "HEAD")) == before
    assert (forked.root / "docs" / "tutorial.md").read_text() == "Half a sentence\n"
    assert git(forked.root, "worktree", "list").count("\n") == 0
    assert git(forked.root, "symbolic-ref", "HEAD") == "refs/heads/main"


def test_it_works_while_the_user_stands_on_the_branch_itself(forked: Any) -> None:
    submit(forked)
    git(forked.root, "stash", "-q", "-u")
    git(forked.root, "switch", "-q", "speedrun/muonh")
    forked.set("description", "Better still.", at=None)
    commit = submit(forked)
    assert git(forked.root, "ls-remote", "origin", "refs/heads/speedrun/muonh").split()[0] == commit
    # What is checked out is not moved under the user.
    assert git(forked.root, "rev-parse", "HEAD") != commit
    assert git(forked.root, "status", "--porcelain") == "M results/muonh/micro_1/speedrun_results.json"


def test_the_branch_passes_validation_as_ci_runs_it(forked: Any, tmp_path: Path) -> None:
    submit(forked)
    review = tmp_path / "review"
    git(tmp_path, "clone", "-q", str(tmp_path / "fork.git"), str(review))
    git(review, "switch", "-q", "speedrun/muonh")
    assert validate(Project(review), base="origin/main").errors == []


def test_one_rung_only(forked: Any) -> None:
    files = changed(forked.root, submit(forked, ("micro_2",)))
    assert {path for path in files if path.startswith("results")} == {p for p in OWN if "/micro_2/" in p}


def test_a_second_submission_goes_on_from_the_first(forked: Any) -> None:
    first = submit(forked)
    forked.set("description", "Better still.", at=None)
    (forked.folder("muonh", "micro_2") / "steps-43.jsonl.gz").unlink()
    second = submit(forked)
    assert git(forked.root, "rev-parse", f"{second}^") == first
    assert changed(forked.root, second) == OWN - {"results/muonh/micro_2/steps-43.jsonl.gz"}
    assert submit(forked) == second, "nothing changed, nothing is committed"


def test_a_conflict_in_the_leaderboard_is_mended_by_making_it_anew(forked: Any, tmp_path: Path) -> None:
    from speedrun.submission.leaderboard import generated_pages

    first = submit(forked)
    upstream_gains(forked, tmp_path, "zeta")
    second = submit(forked)
    assert git(forked.root, "merge-base", first, second) == first, "the branch is never rewritten"
    assert git(forked.root, "merge-base", "upstream/main", second) == git(forked.root, "rev-parse", "upstream/main")
    assert changed(forked.root, second) == OWN
    review = tmp_path / "review"
    git(tmp_path, "clone", "-q", "-b", "speedrun/muonh", str(tmp_path / "fork.git"), str(review))
    board = (review / "LEADERBOARD.md").read_text()
    assert board == generated_pages(Project(review))["LEADERBOARD.md"]
    assert "zeta" in board and "muonh" in board and "<<<<" not in board


def test_after_a_squash_merge_the_next_submission_still_works(forked: Any, tmp_path: Path) -> None:
    submit(forked)
    main = tmp_path / "maintainer"
    git(tmp_path, "clone", "-q", str(tmp_path / "upstream.git"), str(main))
    git(main, "fetch", "-q", str(tmp_path / "fork.git"), "speedrun/muonh")
    git(main, "merge", "-q", "--squash", "FETCH_HEAD")
    git(main, "commit", "-q", "-m", "[Speedrun] muonh (#1)")
    git(main, "push", "-q")
    forked.set("description", "Better still.", at=None)
    record = "results/muonh/micro_1/speedrun_results.json"
    assert changed(forked.root, submit(forked)) - {"LEADERBOARD.md"} == {record}


def test_hooks_of_the_users_do_not_touch_the_record(forked: Any) -> None:
    for hook in ("pre-commit", "commit-msg", "post-commit", "prepare-commit-msg"):
        path = forked.root / ".git" / "hooks" / hook
        path.write_text("#!/bin/sh\nexit 1\n")
        path.chmod(0o755)
    assert changed(forked.root, submit(forked)) == OWN


@pytest.mark.parametrize("upstream, fork", [("nowhere", None), (None, "nowhere")])
def test_a_remote_that_is_none_is_a_clear_error(forked: Any, upstream: str | None, fork: str | None) -> None:
    with pytest.raises(SpeedrunError, match="git knows no remote 'nowhere'"):
        find_remotes(forked.root, upstream, fork)
    assert find_remotes(forked.root, None, None) == REMOTES


def test_a_fork_that_refuses_leaves_no_worktree_behind(forked: Any, tmp_path: Path) -> None:
    hook = tmp_path / "fork.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(SpeedrunError, match="git push"):
        submit(forked)
    assert git(forked.root, "worktree", "list").count("\n") == 0
    assert "speedrun/muonh" not in git(forked.root, "branch", "--list", "speedrun/*")
