"""What pull requests and issues say: the records' figures, bad news by its name, strangers' text without effect."""

import re
import shutil
from typing import Any

import pytest

from speedrun.board.pairs import report
from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.records.preregistrations import read_preregistration
from speedrun.submission.change import Change
from speedrun.submission.issue_report import headline, issue_report, reports_of_change
from speedrun.submission.pull_request import Gate, body_of, gate_one_of, runs_of, title_of
from speedrun.submission.recipes import Changed, recipe_changes
from speedrun.submission.validate import validate

PASSED = Gate(True, "gate 1 passed at micro_1, micro_2, 30m")
RUNGS = ["micro_1", "micro_2", "30m"]


def body(tree: Any, gate: Gate = PASSED) -> str:
    project = Project(tree.root)
    return body_of(project, "muonh", RUNGS, validate(project, ["results/muonh"]), gate, "(the dry run's table)")


def moved(tree: Any, by: float) -> None:
    """Move both scores at both micro rungs."""
    for rung in ("micro_1", "micro_2"):
        tree.edit(lambda info: info.update(bits_per_byte=info["bits_per_byte"] + by), at=None, rung=rung)


def test_title_and_parts_of_a_pull_request(tree: Any) -> None:
    text = body(tree)
    assert title_of("muonh", RUNGS) == "[Speedrun] muonh: micro_1, micro_2, 30m"
    for part in (
        "Hypothesis",
        "What changed against adamw",
        "Dry run",
        "Results",
        "Reproduce",
        "Environment",
        "Checklist",
    ):
        assert f"## {part}" in text
    for info in (tree.info("muonh"), tree.info("muonh", at=1), tree.info("muonh", "30m")):
        assert f"| {info['seed']} | {info['bits_per_byte']:.4f} |" in text
    assert "speedrun reproduce muonh --rung 30m" in text
    assert "(the dry run's table)" in text
    assert "micro_1: 2 attempts on record, 2 finished, 1 recipes tried." in text


def test_the_checklist_is_what_was_found(tree: Any) -> None:
    text = body(tree)
    assert "- [x] `speedrun validate` finds nothing to refuse (0 errors, 0 warnings)" in text
    assert "- [x] gate 1 passed" in text
    assert "- [ ] 3 seeds or more at every rung" in text
    assert "- [x] adamw has records at the same rungs" in text
    assert "- [ ] preregistered before the first run, and not changed since" in text
    tree.preregister()
    tree.set("git_dirty", True)
    (tree.folder("muonh") / "attempts.jsonl").unlink()
    text = body(tree, Gate(False, "gate 1 fails at 30m"))
    assert "(0 errors, 1 warnings)" in text and "there is no attempts.jsonl" in text.replace("\\", "")
    assert "- [ ] gate 1 fails at 30m" in text
    assert "- [x] preregistered before the first run, and not changed since" in text
    assert "- [ ] recorded from a clean tree" in text
    assert "Preregistered in #7" in text


def test_a_strangers_text_does_nothing_in_markdown(tree: Any) -> None:
    tree.set("description", "<img src=x onerror=alert(1)> [x](javascript:y) | # @everyone `", at=None)
    tree.set("resources hardware", "cpu|`<b>", at=None)
    text = body(tree) + issue_report(Project(tree.root), "muonh")
    # Every character that Markdown or HTML would take is written so that it is shown and does nothing.
    assert re.search(r"(?<!\\)<(img|b>)", text) is None and r"\[x](javascript:y)" in text
    assert r"\| \# @everyone \`" in text
    assert "@everyone" not in issue_report(Project(tree.root), "muonh")


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (-0.4, "**muonh is better than adamw** at"),
        (+0.6, "**A negative result: muonh is worse than adamw** at"),
        (+0.0, "**No evidence that muonh differs from adamw** at"),
    ],
)
def test_a_result_is_called_what_it_is(tree: Any, by: float, words: str) -> None:
    if by == 0.0:
        for rung in ("micro_1", "micro_2"):
            scores = [tree.info("adamw", rung, at)["bits_per_byte"] for at in range(2)]
            for at, score in enumerate(reversed(scores)):
                tree.set("bits_per_byte", score, rung=rung, at=at)
    moved(tree, by)
    pairs = {pair.ladder: pair for pair in report(Project(tree.root), ["muonh"], None).steps}
    text = headline(pairs["micro"], None)
    assert text.startswith(words) and text.endswith("The micro rungs claim nothing about scale.")
    assert text in issue_report(Project(tree.root), "muonh")


def test_a_report_says_what_was_promised_and_is_not_there(tree: Any) -> None:
    tree.preregister()
    shutil.rmtree(tree.folder("muonh", "30m"))
    text = issue_report(Project(tree.root), "muonh")
    assert "Promised and not there yet: 30m." in text
    assert "micro_1: preregistered" in text


def test_losses_along_the_way_are_those_of_the_step_logs(tree: Any) -> None:
    rows = tree.log_rows("muonh", "30m")
    last = [row["loss"] for row in rows][-(len(rows) // 20) :]
    line = next(
        row for row in issue_report(Project(tree.root), "muonh").splitlines() if row.startswith("| 30m | muonh |")
    )
    assert line.split("|")[-2].strip() == f"{sum(last) / len(last):.3f}"


def test_after_a_merge_only_changed_records_with_an_issue_are_reported(tree: Any) -> None:
    project = Project(tree.root)
    change = Change(
        tree.root, "x", {"results/muonh/30m/x": "A", "executor_steps/adamw.py": "M"}, frozenset({"muonh", "adamw"})
    )
    assert reports_of_change(project, change) == {}
    tree.preregister()
    assert list(reports_of_change(project, change)) == ["7-muonh.md"]
    plan = read_preregistration(tree.root / "preregistrations" / "muonh.md")
    assert plan is not None and plan.issue == 7


def test_a_candidate_without_a_record_is_a_clear_error(tree: Any) -> None:
    with pytest.raises(SpeedrunError, match="nobody has no record"):
        issue_report(Project(tree.root), "nobody")


def test_what_changed_is_put_together_over_rungs() -> None:
    pairs = {
        "micro_1": ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}, "n": None}),
        "micro_2": ({"a": 1, "b": {"c": 2}}, {"a": 5, "b": {"c": 3}, "n": None}),
    }
    assert recipe_changes(pairs) == [
        Changed("a", ("micro_2",), 1, 5),
        Changed("b.c", ("micro_1", "micro_2"), 2, 3),
    ]


def check(info: Any, rungs: list[str], **more: Any) -> dict[str, Any]:
    return {"source_digest": info.source_digest, "rungs": lines(rungs, {"question": "q", "state": "passed"})} | more


def lines(rungs: list[str], *each: dict[str, str]) -> list[dict[str, Any]]:
    return [{"rung": rung, "lines": list(each)} for rung in rungs]


def test_gate_one_must_be_of_this_source_and_these_rungs(tree: Any) -> None:
    info = runs_of(Project(tree.root), "muonh")["micro_1"][0]
    assert gate_one_of(check(info, RUNGS), info, RUNGS).passed
    for wrong, words in (
        (None, "no result of gate 1"),
        ("passed", "no result of gate 1"),
        (check(info, RUNGS, source_digest="0" * 64), "another text"),
        (check(info, ["micro_1"]), "not been checked at micro_2, 30m"),
        (check(info, []) | {"rungs": {"micro_1": "passed"}}, "not been checked at"),
        (check(info, []) | {"rungs": lines(RUNGS)}, "fails at"),
        (check(info, []) | {"rungs": lines(RUNGS, {"state": "failed"})}, "fails at"),
    ):
        gate = gate_one_of(wrong, info, RUNGS)
        assert not gate.passed and words in gate.text
