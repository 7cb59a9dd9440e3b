"""Submissions that are made to hurt: nothing is run, nothing outside the tree is read, nothing ends in a traceback."""

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedrun.project import Project
from speedrun.submission.shown import findings_text
from speedrun.submission.validate import RULE_FAILED, Report, validate


def refused(report: Report) -> bool:
    """Whether it was refused by a rule, and not by a rule's own breakdown."""
    assert [finding for finding in report.findings if finding.rule == RULE_FAILED] == []
    return bool(report.errors)


def test_validating_runs_nothing_of_a_candidate(tree: Any) -> None:
    marker = tree.root / "marker"
    code = f"open({str(marker)!r}, 'w').write('x')\nCANDIDATE = 1\n"
    tree.put("executor_steps/muonh.py", code)
    tree.put("executor_steps/__init__.py", code)
    tree.put("speedrun/methods/__init__.py", code)
    tree.put("speedrun/methods/part.py", code)
    tree.put("executor_steps/adamw.py", "import speedrun.methods.part\n" + code)
    assert refused(validate(Project(tree.root)))
    done = subprocess.run(
        [sys.executable, "-m", "speedrun", "validate"],
        env=os.environ | {"SPEEDRUN_PROJECT": str(tree.root)},
        cwd=tree.root.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert not marker.exists()


def test_a_folder_linked_from_elsewhere_is_not_entered(tree: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.rename(tree.folder("adamw").parent, elsewhere / "adamw")
    (tree.root / "results" / "adamw").symlink_to(elsewhere / "adamw")
    report = validate(Project(tree.root))
    assert {(f.rule, f.path) for f in report.errors} == {("plain-file", "results/adamw")}
    assert report.records == 3


def test_the_whole_results_folder_as_a_link(tree: Any, tmp_path: Path) -> None:
    os.rename(tree.root / "results", tmp_path / "elsewhere")
    (tree.root / "results").symlink_to(tmp_path / "elsewhere")
    report = validate(Project(tree.root))
    assert {(f.rule, f.path) for f in report.errors} == {("plain-file", "results")}


def test_a_pipe_is_not_waited_for(tree: Any) -> None:
    path = tree.folder("muonh") / "attempts.jsonl"
    path.unlink()
    os.mkfifo(path)
    assert "plain-file" in {f.rule for f in validate(Project(tree.root)).errors}


@pytest.mark.parametrize(
    "name", ["..", "../../x", "a;rm -rf", "$(reboot)", "-rf", "Mu\u202eonh", "x" * 200, "muonh\n", "."]
)
def test_names_that_are_none(tree: Any, name: str) -> None:
    tree.set("candidate", name, at=None)
    assert "place" in {f.rule for f in validate(Project(tree.root)).errors}
    folder = tree.root / "results" / name
    if "/" not in name and name not in (".", ".."):
        os.rename(tree.root / "results" / "muonh", folder)
        report = validate(Project(tree.root))
        assert "file-name" in {f.rule for f in report.errors}
        text = findings_text(report, 100)
        assert all(character.isprintable() or character == "\n" for character in text)


def test_a_name_that_is_no_unicode_can_be_reported(tree: Any) -> None:
    os.mkdir(os.fsencode(tree.root / "results") + b"/\xff\xfe")
    report = validate(Project(tree.root))
    assert refused(report)
    findings_text(report, 100).encode("utf-8")
    json.dumps([finding.as_dict() for finding in report.findings]).encode("utf-8")


def test_strings_of_megabytes_are_refused_unread(tree: Any) -> None:
    tree.set("description", "x" * 5_000_000)
    report = validate(Project(tree.root))
    assert [f.rule for f in report.errors if f.path.endswith("/muonh/micro_1/speedrun_results.json")] == ["file-size"]


def test_a_step_log_that_unpacks_without_end(tree: Any) -> None:
    bomb = gzip.compress(b"[" * 100_000_000)
    assert len(bomb) < 2_000_000
    tree.put("results/muonh/micro_1/steps-42.jsonl.gz", bomb)
    (error,) = validate(Project(tree.root)).errors
    assert (error.rule, "unpacks to more than" in error.message) == ("step-log", True)


@pytest.mark.parametrize("field", ["hardware", "accelerator"])
def test_an_endless_name_of_hardware_costs_no_time(tree: Any, field: str) -> None:
    tree.set(f"resources {field}", "h100x" * 100_000)
    assert refused(validate(Project(tree.root)))


@pytest.mark.parametrize("content", [b"null", b"[]", b"3", b'"x"', b"\xff\xfe", b"", b'{"schema_version": 1}', b"{}"])
def test_results_that_are_something_else(tree: Any, content: bytes) -> None:
    tree.put("results/muonh/micro_1/speedrun_results.json", content)
    assert refused(validate(Project(tree.root)))


@pytest.mark.parametrize("source", [b"\0", b"(" * 100_000, b"-" * 100_000 + b"1", b"\xff", b"a" + b".b" * 60_000])
def test_candidates_that_are_no_python(tree: Any, source: bytes) -> None:
    tree.put("executor_steps/muonh.py", source)
    assert "candidate-file" in {f.rule for f in validate(Project(tree.root)).errors}


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, child in children for place in places(child, (*way, key)))]


numbers = st.one_of(st.integers(-(2**63), 2**63), st.floats(allow_nan=True), st.sampled_from([0, -1, 1e308, 5e-324]))
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=20), st.sampled_from(["cpu", "h100x8", "micro_1"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, factory: Any) -> Any:
    """A project with one record on an accelerator."""
    tree = factory.make_tree(tmp_path_factory.mktemp("small") / "project")
    tree.add("muonh", "micro_1", hardware="h100x8")
    return tree


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_of_a_record_is_judged_without_a_traceback(small: Any, data: st.DataObject) -> None:
    content = small.content("muonh")
    original = json.loads(json.dumps(content))
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(places(content)[1:]))
        owner = content
        for key in way:
            owner = owner[key]
        if data.draw(st.booleans()):
            owner[last] = data.draw(anything)
        else:
            del owner[last]
        if not places(content)[1:]:
            break
    path = small.folder("muonh") / "speedrun_results.json"
    try:
        path.write_text(json.dumps(content))
        report = validate(Project(small.root))
        refused(report)
        findings_text(report, 50)
    finally:
        small.write("muonh", "micro_1", original)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cut=st.binary(max_size=12), seed=st.integers(0, 10**6))
def test_any_bytes_in_any_file_are_judged_without_a_traceback(small: Any, cut: bytes, seed: int) -> None:
    rng = random.Random(seed)
    files = sorted(path for path in small.root.rglob("*") if path.is_file())
    path = rng.choice(files)
    before = path.read_bytes()
    at = rng.randrange(len(before) + 1)
    try:
        path.write_bytes(before[:at] + cut + before[at + rng.randrange(40) :])
        refused(validate(Project(small.root)))
    finally:
        path.write_bytes(before)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(anything, max_size=4), column=st.sampled_from(["step", "loss", "seconds", "tokens", "attempt"]))
def test_any_step_log_is_judged_without_a_traceback(small: Any, rows: list[Any], column: str) -> None:
    before = (small.folder("muonh") / "steps-42.jsonl.gz").read_bytes()
    content = small.content("muonh")
    try:
        good = small.log_rows()
        for at, value in enumerate(rows):
            good[at * 3][column] = value
        small.relog(good)
        refused(validate(Project(small.root)))
    finally:
        (small.folder("muonh") / "steps-42.jsonl.gz").write_bytes(before)
        small.write("muonh", "micro_1", content)
