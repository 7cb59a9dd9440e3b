"""Which parts of speedrun/methods a candidate uses, told from text alone."""

from pathlib import Path

import pytest

from speedrun.errors import SpeedrunError
from speedrun.identity import methods_used, source_digest
from speedrun.project import Project
from speedrun.submission.subjects import World
from speedrun.submission.tree import entries

PACKAGE = {
    "methods/__init__.py": "raise SystemExit('never imported')\n",
    "methods/gates.py": "from speedrun.methods import scale\nVALUE = 1\n",
    "methods/scale.py": "import math\n",
    "methods/unused.py": "",
    "methods/attention/__init__.py": "from .spans import span\n",
    "methods/attention/spans.py": "from ..scale import x\n",
    "methods/attention/other.py": "",
    "ladder.py": "from speedrun.methods import unused\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in PACKAGE.items():
        path = tmp_path / "speedrun" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "speedrun"


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import speedrun.methods.scale", {"scale.py"}),
        ("from speedrun.methods.scale import x as y", {"scale.py"}),
        ("from speedrun.methods import gates", {"gates.py", "scale.py"}),
        ("from speedrun.methods.gates import VALUE", {"gates.py", "scale.py"}),
        ("def recipe(rung):\n    from speedrun.methods import scale", {"scale.py"}),
        ("from speedrun.methods.attention import span", {"attention/__init__.py", "attention/spans.py", "scale.py"}),
        (
            "import speedrun.methods.attention.other",
            {"attention/__init__.py", "attention/other.py", "attention/spans.py", "scale.py"},
        ),
        ("from speedrun.methods import NAME", {"__init__.py"}),
        ("from speedrun import reference, Recipe\nimport math", set()),
        ("from speedrun.methods_of_mine import x", set()),
        ("x = 'import speedrun.methods.scale'", set()),
        ("from . import scale", set()),
    ],
)
def test_imports_are_followed_wherever_they_stand(package: Path, source: str, used: set[str]) -> None:
    candidate = package.parent / "executor_steps" / "mine.py"
    candidate.parent.mkdir()
    candidate.write_text(source)
    found = {path.relative_to(package / "methods").as_posix() for path in methods_used(candidate, package)}
    assert found == used


def test_parts_that_import_one_another_end(package: Path) -> None:
    (package / "methods" / "scale.py").write_text("from speedrun.methods import gates\n")
    candidate = package.parent / "mine.py"
    candidate.write_text("from speedrun.methods import gates\n")
    assert [path.name for path in methods_used(candidate, package)] == ["gates.py", "scale.py"]
    # A part's own digest covers what it uses, and itself once.
    assert [path.name for path in methods_used(package / "methods" / "gates.py", package)] == ["scale.py"]


@pytest.mark.parametrize("source", [b"def (:", b"\0", b"(" * 5000])
def test_what_is_no_python_is_a_clear_error(package: Path, source: bytes) -> None:
    candidate = package.parent / "mine.py"
    candidate.write_bytes(source)
    with pytest.raises(SpeedrunError, match="mine.py cannot be read as Python"):
        methods_used(candidate, package)


def test_a_record_is_held_against_the_digest_of_file_and_parts(package: Path) -> None:
    candidate = package.parent / "executor_steps" / "mine.py"
    candidate.parent.mkdir()
    candidate.write_text("from speedrun.methods import gates\nCANDIDATE = 1\n")
    root = package.parent
    parts = [package / "methods" / "gates.py", package / "methods" / "scale.py"]
    world = World(root, {entry.path: entry for entry in entries(root)})
    assert world.candidate("mine").digest == source_digest(candidate, parts)


def test_the_repositorys_own_candidates_are_digested_alike_when_loaded_and_when_read() -> None:
    from speedrun.catalog import load_candidate

    root = Path(__file__).parents[1]
    world = World(root, {entry.path: entry for entry in entries(root)})
    assert world.candidate("adamw").digest == load_candidate(Project(root), "adamw").source_digest
