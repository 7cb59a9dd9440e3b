"""The step log beside a record, read as a stranger's data: unpacked up to a limit, and as columns."""

import json
from dataclasses import dataclass, field
from typing import Any, NoReturn

from speedrun.identity import sha256_hex
from speedrun.records.gzip_text import unpack

_COLUMNS = ("step", "loss", "seconds", "tokens", "attempt")
_WHOLE = ("step", "tokens", "attempt")
_HUGE = 1e18


@dataclass
class StepLogFile:
    """A step log, column by column; ``problem`` says why there is none."""

    problem: str = ""
    sha256: str = ""
    """Of the text."""
    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    attempt: list[int] = field(default_factory=list)


def parse_step_log(content: bytes) -> StepLogFile:
    """The step log that ``content``, a gzip file, holds."""
    try:
        text = unpack(content)
    except ValueError as error:
        return StepLogFile(str(error))
    log = StepLogFile(sha256=sha256_hex(text))
    lines = text.removesuffix(b"\n").split(b"\n")
    try:
        rows = json.loads(b"[" + b",".join(lines) + b"]", parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        log.problem = f"a line of it is no JSON ({error})"
        return log
    if len(rows) != len(lines):
        log.problem = "it does not hold one step a line"
        return log
    columns = _columns(rows)
    if columns is None:
        log.problem = next(f"line {at}: {fault}" for at, row in enumerate(rows, start=1) if (fault := _fault(row)))
        return log
    for name, column in columns.items():
        setattr(log, name, column)
    return log


def _columns(rows: list[Any]) -> dict[str, list[Any]] | None:
    """The columns, or None if any row has a fault; column by column, since logs are long and nearly all are right."""
    columns: dict[str, list[Any]] = {}
    for name in _COLUMNS:
        try:
            column = [row[name] for row in rows]
        except (TypeError, KeyError, IndexError):
            return None
        if not set(map(type, column)) <= ({int} if name in _WHOLE else {int, float}):
            return None
        if not -_HUGE < min(column) <= max(column) < _HUGE:
            return None
        columns[name] = column
    return columns


def _fault(row: Any) -> str:
    """What is wrong with a row, in words."""
    if type(row) is not dict:
        return "it is no object"
    for name in _COLUMNS:
        value: Any = row.get(name)
        kind = type(value)
        if kind is not int and (kind is not float or name in _WHOLE):
            return f"{name} is no {'whole number' if name in _WHOLE else 'number'}"
        if not -_HUGE < value < _HUGE:
            return f"{name} is out of any range"
    return ""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
