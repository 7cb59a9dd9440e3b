"""Candidate files: listed without being run, and wrong ones named with file and line."""

from pathlib import Path

import pytest

from speedrun.catalog import list_candidates, load_candidate, load_rung
from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.project import Project, find_project

GOOD = '''"""A good one."""
from speedrun import Author, Candidate, reference
CANDIDATE = Candidate(name="{name}", authors=[Author("A")], hypothesis="h", recipe=reference.recipe)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Project:
    (tmp_path / "executor_steps").mkdir()
    return Project(tmp_path)


def write(project: Project, name: str, text: str) -> Path:
    path = project.candidates / f"{name}.py"
    path.write_text(text)
    return path


def test_listing_reads_text_and_runs_nothing(folder: Project, tmp_path: Path) -> None:
    marker = tmp_path / "was_run"
    write(folder, "evil", f'"""Looks nice."""\nopen({str(marker)!r}, "w")\nCANDIDATE = None\n')
    (listed,) = list_candidates(folder)
    assert (listed.name, listed.summary, listed.problem) == ("evil", "Looks nice.", "")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "no CANDIDATE"),
        ("CANDIDATE = 1\nCANDIDATE = 2\n", "two CANDIDATEs, on lines 1 and 2"),
        ("def f(:\n", "line 1"),
        ("CANDIDATE = 3\n", "not a speedrun.Candidate"),
        ("import nowhere_at_all\nCANDIDATE = 1\n", r"bad\.py:1: cannot be loaded: ModuleNotFoundError"),
        (GOOD.format(name="other"), "calls itself 'other'"),
        (GOOD.format(name="No Good"), "is no candidate name"),
    ],
)
def test_a_wrong_file_is_named_with_its_fault(folder: Project, text: str, message: str) -> None:
    path = write(folder, "bad", text)
    with pytest.raises(SpeedrunError, match=message) as raised:
        load_candidate(folder, "bad")
    assert str(path) in str(raised.value)


def test_a_recipe_that_raises_is_shown_with_its_own_line(folder: Project) -> None:
    path = write(
        folder,
        "half",
        'from speedrun import Author, Candidate\n\n\ndef recipe(rung):\n    return {"micro_1": 1}[rung.name]\n\n\n'
        'CANDIDATE = Candidate(name="half", authors=[Author("A")], hypothesis="h", recipe=recipe)\n',
    )
    loaded = load_candidate(folder, "half")
    with pytest.raises(SpeedrunError, match=rf"{path}:5: the recipe of half at 30m raised KeyError: '30m'"):
        loaded.recipe(load_rung("30m"))
    with pytest.raises(SpeedrunError, match="returned int, not a speedrun.Recipe"):
        loaded.recipe(load_rung("micro_1"))


def test_a_rung_that_is_not_declared_is_refused(folder: Project) -> None:
    text = GOOD.format(name="small").replace('hypothesis="h"', 'hypothesis="h", rungs=["micro_1"]')
    write(folder, "small", text)
    with pytest.raises(SpeedrunError, match="declares no recipe for 75m; it declares micro_1"):
        load_candidate(folder, "small").recipe(load_rung("75m"))


@pytest.mark.parametrize("name", ["../up", "a;rm -rf", "UPPER", "", "x" * 65, "-dash", "dot.dot"])
def test_unsafe_file_names_are_refused(folder: Project, name: str) -> None:
    with pytest.raises(SpeedrunError):
        load_candidate(folder, name)


def test_unknown_candidate_names_the_nearest(folder: Project) -> None:
    write(folder, "adamw", GOOD.format(name="adamw"))
    with pytest.raises(UnknownNameError, match="Did you mean 'adamw'"):
        load_candidate(folder, "adamW2")


def test_the_source_digest_is_that_of_the_text(folder: Project) -> None:
    path = write(folder, "good", GOOD.format(name="good"))
    before = load_candidate(folder, "good").source_digest
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_candidate(folder, "good").source_digest == before
    path.write_text(GOOD.format(name="good") + "# more\n")
    assert load_candidate(folder, "good").source_digest != before


def test_the_project_is_found_from_any_folder_below(folder: Project, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("SPEEDRUN_PROJECT", raising=False)
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find_project(tmp_path / "a" / "b").root == tmp_path
    with pytest.raises(SpeedrunError, match="no executor_steps/ folder"):
        find_project(Path("/"))


def test_a_relative_storage_prefix_is_made_absolute(folder: Project, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARIN_PREFIX", "some/where")
    assert folder.store == str(tmp_path / "some" / "where")
    monkeypatch.setenv("MARIN_PREFIX", "gs://bucket/x")
    assert folder.store == "gs://bucket/x"
    assert not folder.store_is_local
