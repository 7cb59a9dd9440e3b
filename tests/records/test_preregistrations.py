"""Preregistration files: sealed, read as data, and a later change shown field by field."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedrun.errors import SpeedrunError
from speedrun.records.preregistrations import (
    differences,
    parse_preregistration,
    read_preregistration,
    sealed,
    with_issue,
)
from speedrun.records.schema import RunInfo

PLAN = {
    "schema_version": 1,
    "candidate": "c",
    "baseline": "adamw",
    "registered": "2026-01-01 00:00:00 UTC",
    "source_digest": "3" * 64,
    "expected_gain": None,
    "smallest_gain": 0.02,
    "hardware": "cpu",
    "rungs": {
        "micro_1": {
            "recipe_fingerprint": "4" * 64,
            "model_settings": {"hidden_dim": 48},
            "train_settings": {"batch_size": 8, "optimizer": {"learning_rate": 0.01}},
            "versions": {"jax": "1"},
            "tokens": 10,
            "model_flops": 30.0,
            "seeds": [42],
        }
    },
}


def text(issue: int | None = None, plan: Any = PLAN) -> str:
    return sealed("Preregistration: c", f"It will win.\n\n```json\n{json.dumps(plan)}\n```", issue)


def run(example: dict[str, Any], **more: Any) -> RunInfo:
    settings = {"model_config": {"hidden_dim": 48}, "train_config": PLAN["rungs"]["micro_1"]["train_settings"]}
    attempt = {"number": 1, "started": "2026-01-02 00:00:00 UTC", "hardware": "cpu", "num_chips": 1, "seconds": 1.0}
    attempts = [attempt | {"first_step": 0, "last_step": 1}]
    return RunInfo.model_validate(example | settings | {"attempts": attempts, "versions": {"jax": "1"}} | more)


def test_what_was_written_is_read_and_intact() -> None:
    found = parse_preregistration(text(12).encode(), "x")
    assert (found.issue, found.intact, found.plan.rungs["micro_1"].seeds) == (12, True, [42])


def test_an_edit_breaks_the_seal_and_the_issues_number_does_not() -> None:
    assert not parse_preregistration(text().replace("win", "lose").encode(), "x").intact
    numbered = parse_preregistration(with_issue(text(), 7).encode(), "x")
    assert (numbered.issue, numbered.intact) == (7, True)
    assert parse_preregistration(with_issue(text(7), 8).encode(), "x").issue == 8


def test_a_checkout_with_other_line_ends_is_intact() -> None:
    assert parse_preregistration(text().replace("\n", "\r\n").encode(), "x").intact


def test_how_a_run_stands_to_it(example: dict[str, Any]) -> None:
    found = parse_preregistration(text().encode(), "x")
    assert found.status(run(example)) == "preregistered"
    assert found.status(run(example, recipe_fingerprint="5" * 64)) == "changed since"
    assert found.status(run(example, rung="micro_2")) == "not preregistered"
    late = json.loads(json.dumps(PLAN)) | {"registered": "2026-01-03 00:00:00 UTC"}
    assert parse_preregistration(text(plan=late).encode(), "x").status(run(example)) == "registered after"


def test_a_change_shows_field_by_field(example: dict[str, Any]) -> None:
    found = parse_preregistration(text().encode(), "x")
    changed = {"batch_size": 8, "optimizer": {"learning_rate": 0.02}, "z_loss_weight": 1e-4}
    info = run(example, train_config=changed, versions={"jax": "2"})
    assert sorted(found.changes(info)) == [
        ("optimizer.learning_rate", 0.01, 0.02),
        ("versions.jax", "1", "2"),
        ("z_loss_weight", None, 1e-4),
    ]


@pytest.mark.parametrize(
    "content",
    [b"", b"# We will win\n", b"\xff", text().replace("```json", "```").encode(), text(plan={}).encode()],
)
def test_what_is_none_is_a_clear_error(content: bytes) -> None:
    with pytest.raises(SpeedrunError, match="^x"):
        parse_preregistration(content, "x")


def test_none_where_there_is_no_file(tmp_path: Path) -> None:
    assert read_preregistration(tmp_path / "no.md") is None


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(content: str) -> None:
    for candidate in (content, text().replace("It will win.", content)):
        try:
            parse_preregistration(candidate.encode(errors="replace"), "x")
        except SpeedrunError as error:
            assert str(error).startswith("x")


def test_differences_are_empty_exactly_where_nothing_differs() -> None:
    assert differences({"a": {"b": 1, "c": {}}}, {"a": {"b": 1, "c": {}}}) == []
    assert differences({"a": {"b": 1}}, {"a": 2, "d": None}) == [("a.b", 1, None), ("a", None, 2), ("d", None, None)]
