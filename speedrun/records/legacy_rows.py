"""One row of a public result, and what is wrong with it.

What cannot be right is flagged on its row, never dropped. `FLAGS` says what each flag means, and whether it
keeps a row off the ranking.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from speedrun.hardware import MOST_MFU, HardwareSpec, hardware_flops
from speedrun.ladder import LEAST_ANYWHERE

PROTOCOL = "levanter"
"""How all of these were measured: Levanter's own bits per byte on Paloma C4-EN."""

CLOSE = 0.01
"""Relative difference that counts as agreement between a time, a chip count and a FLOPs figure."""

BOARD, UNREADABLE = "board", "unreadable"
"""Ages of rows that don't come from a result file that could be read."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Flag:
    """What may be wrong with a row."""

    meaning: str
    keeps_off_ranking: bool


FLAGS: dict[str, Flag] = {
    "unreadable": Flag("the file could not be read, or has no run in it", True),
    "no_score": Flag("there is no bits-per-byte figure", True),
    "impossible_score": Flag(f"a score under {LEAST_ANYWHERE} bits per byte, which no model reaches", True),
    "no_model_flops": Flag("model FLOPs are not on record", True),
    "other_flops_convention": Flag("model FLOPs were estimated as 6 N D then: they compare with no later row", True),
    "number_as_string": Flag("a figure was written as text, and with fewer digits", False),
    "minutes_are_seconds": Flag("a time labelled minutes that agrees with its FLOPs only in seconds; read so", False),
    "chips_doubled": Flag("hardware FLOPs are twice time x chips x peak: cores of a TPU counted as chips", False),
    "hardware_flops_mismatch": Flag("hardware FLOPs are not time x chips x peak of the hardware named", True),
    "hardware_unknown": Flag("the hardware named is unknown, so its FLOPs could not be checked", False),
    "impossible_mfu": Flag(f"model FLOPs above {MOST_MFU:.0%} of hardware FLOPs", True),
    "tokens_mismatch": Flag("tokens are not batch x steps x length", True),
    "duplicate_run": Flag("the same training run stands in another row", True),
}


def number(value: Any) -> float | None:
    """A finite number, also where it was written as text; else None."""
    if isinstance(value, bool):
        return None
    try:
        read = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def make_row(
    *,
    run_name: str,
    source: str,
    age: str,
    bits_per_byte: Any = None,
    model_flops: Any = None,
    six_n_d: bool = False,
    hardware_flops: Any = None,
    time: Any = None,
    time_is_in_minutes: bool = False,
    parameters: Any = None,
    tokens: Any = None,
    expected_tokens: float | None = None,
    hardware: HardwareSpec | None = None,
    author: Any = None,
    completed: Any = None,
    run_link: Any = None,
) -> Row:
    """A row from what a file holds, figures still as written there; flagged, but for duplicates.

    Args:
        six_n_d: whether ``model_flops`` is the estimate 6 N D.
        time: seconds, or minutes if so labelled.
        expected_tokens: batch x steps x length, where the file tells.
    """
    figures = {
        "bits_per_byte": bits_per_byte,
        "model_flops": model_flops,
        "hardware_flops": hardware_flops,
        "training_time_seconds": time,
        "model_parameters": parameters,
        "total_tokens": tokens,
    }
    candidate, rung = _candidate_and_rung(run_name)
    credit: Mapping[str, Any] = author if isinstance(author, dict) else {"name": author}
    row: Row = {
        "candidate": candidate,
        "rung": rung,
        "seed": None,
        "protocol": PROTOCOL,
        "run_name": run_name,
        **{name: number(value) for name, value in figures.items()},
        "hardware": None if hardware is None else str(hardware),
        "author_name": credit.get("name"),
        "author_affiliation": credit.get("affiliation"),
        "author_url": credit.get("url"),
        "completed": pd.to_datetime(str(completed), utc=True, errors="coerce"),
        "run_link": run_link if isinstance(run_link, str) else None,
        "source": source,
        "age": age,
    }
    flags = ["unreadable"] if age == UNREADABLE else []
    if any(isinstance(value, str) for value in figures.values()):
        flags.append("number_as_string")
    if six_n_d:
        flags.append("other_flops_convention")
    if time_is_in_minutes:
        flags += _read_minutes(row, hardware)
    row["expected_hardware_flops"] = _expected_flops(row["training_time_seconds"], hardware)
    if hardware is None and age not in (BOARD, UNREADABLE):
        flags.append("hardware_unknown")
    if expected_tokens and row["total_tokens"] not in (None, expected_tokens):
        flags.append("tokens_mismatch")
    row["flags"] = (*flags, *(name for name, holds in _CHECKS.items() if holds(row)))
    return row


def _candidate_and_rung(run_name: str) -> tuple[str, str]:
    """``muon/300m`` is candidate muon at 300m. A name without folders is its own candidate, at the size it names."""
    folder, _, leaf = run_name.rpartition("/")
    if folder:
        return folder, leaf.lower().replace(".", "_")
    size = re.search(r"(?<![a-z0-9])\d+([._]\d+)?[mb](?![a-z0-9])", run_name.lower())
    return run_name, size[0].replace(".", "_") if size else "unknown"


def _expected_flops(seconds: float | None, hardware: HardwareSpec | None) -> float | None:
    if seconds is None or seconds < 0 or hardware is None:
        return None
    return number(hardware_flops(seconds, hardware))


def _read_minutes(row: Row, hardware: HardwareSpec | None) -> list[str]:
    """Turns a time labelled minutes into seconds, unless its FLOPs show that it is in seconds already."""
    labelled = row["training_time_seconds"]
    if labelled is None:
        return []
    if _close(row["hardware_flops"], _expected_flops(labelled, hardware)):
        return ["minutes_are_seconds"]
    row["training_time_seconds"] = number(labelled * 60)
    return []


def _close(one: float | None, other: float | None, factor: float = 1) -> bool:
    return one is not None and other is not None and abs(one - factor * other) <= CLOSE * abs(factor * other)


def _hardware_flops_mismatch(row: Mapping[str, Any]) -> bool:
    recorded, expected = row["hardware_flops"], row["expected_hardware_flops"]
    if recorded is None or expected is None:
        return False
    return not any(_close(recorded, expected, times) for times in (1, 2))


def _impossible_mfu(row: Mapping[str, Any]) -> bool:
    model, hardware = row["model_flops"], row["hardware_flops"]
    return model is not None and hardware is not None and model > MOST_MFU * hardware


_CHECKS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "no_score": lambda row: row["bits_per_byte"] is None,
    "impossible_score": lambda row: row["bits_per_byte"] is not None and row["bits_per_byte"] < LEAST_ANYWHERE,
    "no_model_flops": lambda row: row["model_flops"] is None or row["model_flops"] <= 0,
    "chips_doubled": lambda row: _close(row["hardware_flops"], row["expected_hardware_flops"], 2),
    "hardware_flops_mismatch": _hardware_flops_mismatch,
    "impossible_mfu": _impossible_mfu,
}


def make_table(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as a table, in their order: with duplicates flagged, and ``ranked`` worked out from the flags."""
    rows = [{**row, "flags": tuple(flag for flag in row["flags"] if flag != "duplicate_run")} for row in rows]
    seen: set[str] = set()
    for row in sorted(rows, key=_most_trusted_first):
        run = row["run_link"].rstrip("/").rpartition("/")[2] if isinstance(row["run_link"], str) else ""
        if run in seen:
            row["flags"] = (*row["flags"], "duplicate_run")
        if run:
            seen.add(run)
    for row in rows:
        row["ranked"] = not any(FLAGS[flag].keeps_off_ranking for flag in row["flags"])
    return pd.DataFrame(rows)


def _most_trusted_first(row: Row) -> tuple[int, int, str]:
    """Of rows that share a run, the one with the fewest flags stays; then the one with the most specific name."""
    return len(row["flags"]), -row["run_name"].count("/"), row["run_name"]
