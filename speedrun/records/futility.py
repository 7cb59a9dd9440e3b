"""Decisions to end a ladder early: ``futility.jsonl`` beside a record, a line a decision, never rewritten.

``speedrun run --stop-for-futility`` asks after each rung whether the gain that is claimed for the top rung can still be
shown (``speedrun.scoring.futility``).
"""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from speedrun.records import strict_json

FUTILITY_FILE = "futility.jsonl"


class Decision(BaseModel):
    """One answer."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    at: str
    """UTC, as records write it."""
    baseline: str
    after_rung: str
    """The largest rung that it knew of."""
    is_futile: bool
    claimed_speedup: float
    """S that is claimed at the top rung."""
    highest_speedup: float | None
    """The most that the rungs so far leave room for there; None where that is open."""
    reason: str


def keep_decision(folder: Path, decision: Decision) -> None:
    """Add a line to the file in ``folder``."""
    with open(folder / FUTILITY_FILE, "a", encoding="utf-8") as file:
        file.write(json.dumps(decision.model_dump(mode="json"), allow_nan=False) + "\n")


def last_decision(folder: Path) -> Decision | None:
    """The newest decision kept in ``folder``; None where there is none that can be read."""
    try:
        lines = (folder / FUTILITY_FILE).read_bytes().splitlines()
        return Decision.model_validate(strict_json.loads(lines[-1]))
    except (OSError, ValueError, IndexError, ValidationError):
        return None
