"""Every rule catches what it is for, alone, and lets a project pass whose records agree with themselves."""

import collections
from pathlib import Path
from typing import Any

import pytest

from speedrun.project import Project
from speedrun.submission.rule import Severity
from speedrun.submission.rules import CHANGE_RULES, all_rules, rules_markdown
from speedrun.submission.validate import validate

NOTES_OF_THE_CLEAN_PROJECT = {
    ("evaluation-verified", "results/adamw/30m/speedrun_results.json"),
    ("evaluation-verified", "results/muonh/30m/speedrun_results.json"),
    ("preregistered", "results/muonh/30m/speedrun_results.json"),
    ("preregistered", "results/muonh/micro_1/speedrun_results.json"),
    ("preregistered", "results/muonh/micro_2/speedrun_results.json"),
}


def found(root: Path) -> dict[str, list[str]]:
    """Messages by rule, but for the notes that the clean project has too."""
    by_rule = collections.defaultdict(list)
    for finding in validate(Project(root)).findings:
        if (finding.rule, finding.path) not in NOTES_OF_THE_CLEAN_PROJECT or "registered after" in finding.message:
            by_rule[finding.rule].append(finding.message)
    return dict(by_rule)


def test_a_clean_project_passes(tree: Any) -> None:
    report = validate(Project(tree.root))
    assert {(f.rule, f.path) for f in report.findings} == NOTES_OF_THE_CLEAN_PROJECT
    assert (report.records, report.runs, report.errors) == (6, 10, [])


def test_fields_that_no_rule_knows_are_let_be(tree: Any) -> None:
    tree.edit(lambda info: info.update(from_the_future={"a": [1, None]}), at=None)
    tree.edit(lambda info: info["evaluation"].update(more=1.5), at=None)
    assert found(tree.root) == {}


def test_what_is_wrong_is_found_by_its_rule_alone(tree: Any, case: Any) -> None:
    rule, _, tamper = case
    tamper(tree)
    assert set(found(tree.root)) == {rule}


def test_every_rule_has_a_case(cases: list[Any]) -> None:
    with_a_case = {rule for rule, _, _ in cases}
    # Rules about a change as a whole are tested with git, in test_change.py.
    wanted = {rule.id for rule in all_rules()} - {rule.id for rule in CHANGE_RULES}
    assert wanted - with_a_case == set()
    assert len(cases) >= 40


def test_ids_are_unique_and_every_rule_says_what_it_checks() -> None:
    ids = [rule.id for rule in all_rules()]
    assert len(set(ids)) == len(ids)
    assert all(rule.what.endswith(".") and "|" not in rule.what for rule in all_rules())


def test_the_documents_table_is_the_tables() -> None:
    file = Path(__file__).parents[2] / "docs" / "rules.md"
    assert file.read_text() == rules_markdown(), "run `speedrun validate --rules > docs/rules.md`"


def test_a_bug_in_a_rule_refuses_and_does_not_crash(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: Any) -> Any:
        raise ZeroDivisionError("oops")

    from speedrun.submission import validate as module
    from speedrun.submission.rule import Rule

    monkeypatch.setattr(module, "RUN_RULES", (Rule("broken", Severity.NOTE, broken),))
    report = validate(Project(tree.root))
    assert {f.rule for f in report.errors} == {"rule-failed"}
    assert "broken could not be applied (ZeroDivisionError: 'oops')" in report.errors[0].message
