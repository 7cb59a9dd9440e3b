"""A pull request against its base, with real git: one candidate, nobody else's work touched."""

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.submission import rules_change
from speedrun.submission.change import candidate_of, read_change
from speedrun.submission.validate import validate

GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
WHO = ["-c", "user.name=T", "-c", "user.email=t@x.example", "-c", "init.defaultBranch=main"]


def git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *words], cwd=root, check=True, capture_output=True, text=True, env=os.environ | GIT
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, clean: Path, factory: Any) -> Path:
    """A repository with the baseline, a tutorial and a leaderboard on main, and muonh on a branch of its own."""
    root = tmp_path_factory.mktemp("repository") / "project"
    shutil.copytree(clean, root)
    tree = factory.Tree(root, random.Random(1))
    tree.put("docs/tutorial.md", "Welcome.\n")
    tree.put("speedrun/methods/part.py", "X = 1\n")
    muonh, file = tree.root.parent / "muonh", tree.root / "executor_steps" / "muonh.py"
    os.rename(tree.root / "results" / "muonh", muonh)
    text = file.read_text()
    file.unlink()
    tree.put("LEADERBOARD.md", board_of(tree.root))
    git(tree.root, "init", "-q")
    commit(tree)
    git(tree.root, "switch", "-q", "-c", "speedrun/muonh")
    os.rename(muonh, tree.root / "results" / "muonh")
    file.write_text(text)
    tree.put("LEADERBOARD.md", board_of(tree.root))
    commit(tree)
    return root


@pytest.fixture
def reviewed(tmp_path: Path, repository: Path, factory: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The repository, to spoil."""
    monkeypatch.setattr(rules_change, "generated_pages", lambda project: {"LEADERBOARD.md": board_of(project.root)})
    shutil.copytree(repository, tmp_path / "project")
    return factory.Tree(tmp_path / "project", random.Random(1))


def commit(tree: Any) -> None:
    git(tree.root, "add", "-A")
    git(tree.root, "commit", "-q", "-m", "x")


def board_of(root: Path) -> str:
    """A board that knows which candidates have records."""
    return "".join(f"{path.name}\n" for path in sorted((root / "results").iterdir()))


def refusals(tree: Any) -> set[tuple[str, str]]:
    return {(finding.rule, finding.path) for finding in validate(Project(tree.root), base="main").errors}


def test_a_candidate_with_its_records_and_the_leaderboard_is_all_right(reviewed: Any) -> None:
    assert refusals(reviewed) == set()


Spoil = Callable[[Any], Any]
SPOILS: list[tuple[str, str, str, Spoil]] = [
    ("own-paths", "docs/tutorial.md", "deleted tutorial", lambda t: (t.root / "docs/tutorial.md").unlink()),
    ("own-paths", "speedrun/methods/part.py", "others' part", lambda t: t.put("speedrun/methods/part.py", "X = 2\n")),
    ("own-paths", "x.sh", "script", lambda t: t.put("x.sh", "x")),
    ("own-paths", "speedrun/methods/y.py", "part nobody uses", lambda t: t.put("speedrun/methods/y.py", "Y = 1\n")),
    ("one-candidate", "", "another's record", lambda t: t.set("model_size", 252_144.0, of="adamw")),
    ("one-candidate", "", "another candidate", lambda t: t.put("executor_steps/x.py", "CANDIDATE = 1\n")),
    ("leaderboard", "LEADERBOARD.md", "board by hand", lambda t: t.put("LEADERBOARD.md", "muonh wins\n")),
    ("leaderboard", "LEADERBOARD.md", "board gone", lambda t: (t.root / "LEADERBOARD.md").unlink()),
]


@pytest.mark.parametrize(("rule", "path", "what", "spoil"), SPOILS, ids=[what for _, _, what, _ in SPOILS])
@pytest.mark.parametrize("committed", [True, False])
def test_what_a_submission_must_not_do(reviewed: Any, rule: str, path: str, what: str, spoil: Spoil, committed: bool):
    spoil(reviewed)
    if committed:
        commit(reviewed)
    found = refusals(reviewed)
    assert (rule, path) in found
    if what != "another's record":
        assert {found_rule for found_rule, _ in found} == {rule}


def test_a_new_part_that_the_candidate_uses_is_its_own(reviewed: Any) -> None:
    reviewed.put("speedrun/methods/fresh.py", "X = 1\n")
    file = reviewed.root / "executor_steps" / "muonh.py"
    file.write_text(file.read_text() + "from speedrun.methods import fresh\n")
    assert "own-paths" not in {rule for rule, _ in refusals(reviewed)}


def test_records_keep_their_authors_and_are_not_taken_away(reviewed: Any) -> None:
    git(reviewed.root, "switch", "-q", "-c", "next")
    git(reviewed.root, "branch", "-f", "main", "next")
    reviewed.sign(name="Mallory Mallet")
    assert refusals(reviewed) == {("same-authors", "results/muonh/micro_1/speedrun_results.json")}
    git(reviewed.root, "checkout", "-q", ".")
    git(reviewed.root, "rm", "-rq", "results/muonh/micro_2")
    assert refusals(reviewed) == {("records-kept", "results/muonh/micro_2/speedrun_results.json")}


def test_of_two_alike_the_one_that_the_change_brings_is_the_copy(reviewed: Any) -> None:
    """Even when it claims to be the older one."""
    link = reviewed.info("adamw")["wandb_run_link"]
    reviewed.set("wandb_run_link", link)
    reviewed.set("attempts 0 started", "2026-01-01 00:00:00 UTC")
    reviewed.set("run_completion_timestamp", "2026-01-01 09:00:00 UTC")
    (finding,) = [f for f in validate(Project(reviewed.root), base="main").errors if f.rule == "copied-link"]
    assert finding.path == "results/muonh/micro_1/speedrun_results.json"


def test_a_change_of_the_tool_alone_is_no_submission(reviewed: Any) -> None:
    git(reviewed.root, "switch", "-q", "main")
    git(reviewed.root, "switch", "-q", "-c", "tool")
    (reviewed.root / "docs" / "tutorial.md").unlink()
    reviewed.put("speedrun/new.py", "")
    assert refusals(reviewed) == set()


def test_what_main_did_meanwhile_is_not_held_against_the_branch(reviewed: Any) -> None:
    git(reviewed.root, "switch", "-q", "main")
    reviewed.put("docs/tutorial.md", "Welcome again.\n")
    commit(reviewed)
    git(reviewed.root, "switch", "-q", "speedrun/muonh")
    assert refusals(reviewed) == set()


def test_odd_file_names_in_a_change(reviewed: Any) -> None:
    for name in ("a;rm -rf x", "$(reboot).py", 'quote"s', "new\nline", "ünïcode"):
        reviewed.put(f"docs/{name}", "x")
    commit(reviewed)
    found = refusals(reviewed)
    assert {path for rule, path in found if rule == "own-paths"} == {
        f"docs/{name}" for name in ("a;rm -rf x", "$(reboot).py", 'quote"s', "new\nline", "ünïcode")
    }


@pytest.mark.parametrize("ref", ["nonsense", "--upload-pack=touch x", "main; touch x", "HEAD~99"])
def test_a_base_that_is_none_is_a_clear_error(reviewed: Any, ref: str) -> None:
    with pytest.raises(SpeedrunError, match="--base"):
        read_change(reviewed.root, ref)
    assert not (reviewed.root / "x").exists()


def test_a_shallow_clone_is_told_what_to_fetch(reviewed: Any, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{reviewed.root}", "clone")
    git(clone, "fetch", "-q", "--depth", "1", "origin", "main:main")
    with pytest.raises(SpeedrunError, match="fetch-depth: 0"):
        read_change(clone, "main")


def test_outside_a_repository(tree: Any) -> None:
    with pytest.raises(SpeedrunError, match="not a git repository"):
        validate(Project(tree.root), base="main")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("results/muonh/micro_1/x.json", "muonh"),
        ("executor_steps/muonh.py", "muonh"),
        ("preregistrations/muonh.md", "muonh"),
        ("results/marin/board.json", None),
        ("results/../x/y", None),
        ("executor_steps/deep/x.py", None),
        ("docs/muonh.md", None),
    ],
)
def test_whose_a_path_is(path: str, name: str | None) -> None:
    assert candidate_of(path) == name
