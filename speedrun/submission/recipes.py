"""What a candidate changes: its settings against its baseline's, field by field, over the rungs. No jax."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from speedrun.board.text import Sheet, markdown
from speedrun.records.preregistrations import differences
from speedrun.records.schema import RunInfo

Settings = Mapping[str, Any]
_NOT_THE_RECIPES = ("model", "type", "precision_policy")
"""Fields of a record's settings that are no choice of the recipe's."""


@dataclass(frozen=True)
class Changed:
    """One field, alike at some rungs."""

    field: str
    rungs: tuple[str, ...]
    baseline: Any
    candidate: Any


def settings_of(info: RunInfo) -> Settings:
    """The recipe of a record, as one nested mapping."""
    return settings(info.model_configuration, info.train_config)


def settings(model: Settings, train: Settings) -> Settings:
    """Model and training settings as one nested mapping."""
    own = {key: value for key, value in train.items() if key not in _NOT_THE_RECIPES}
    return {"model": model, **own}


def recipe_changes(pairs: Mapping[str, tuple[Settings, Settings]]) -> list[Changed]:
    """What differs at each rung, with equal differences put together.

    Args:
        pairs: (baseline's settings, candidate's settings) by rung.
    """
    rungs_of: dict[tuple[str, str, str], list[str]] = {}
    values: dict[tuple[str, str, str], tuple[Any, Any]] = {}
    for rung, (baseline, candidate) in pairs.items():
        for field, before, after in differences(baseline, candidate):
            if before is None and after is None:
                continue  # null in the one, and no such field in the other
            key = (field, json.dumps(before, sort_keys=True), json.dumps(after, sort_keys=True))
            rungs_of.setdefault(key, []).append(rung)
            values[key] = (before, after)
    changes = [Changed(key[0], tuple(rungs), *values[key]) for key, rungs in rungs_of.items()]
    return sorted(changes, key=lambda change: (change.field, change.rungs))


def changes_markdown(changes: Sequence[Changed], baseline: str, candidate: str, title: str, level: int) -> str:
    """The differences as a table."""
    rows = [
        (change.field, ", ".join(change.rungs), shown_value(change.baseline), shown_value(change.candidate))
        for change in changes
    ]
    before = [] if rows else [f"No setting differs from {baseline}'s."]
    return markdown(Sheet(title, ("field", "rungs", baseline, candidate), rows, before), level)


def shown_value(value: Any) -> str:
    """A setting as a table shows it; a dash where the other has no such field."""
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value, sort_keys=True)
