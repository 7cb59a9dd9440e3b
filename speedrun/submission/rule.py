"""What a rule is: an id, a severity, and a small pure function from a subject to its faults."""

import inspect
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

CLOSE = 1e-9
"""Relative difference that two figures may have which the same program worked out from the same numbers."""


class Severity(StrEnum):
    """What a fault means for the submission."""

    ERROR = "error"
    """Refused."""
    WARNING = "warning"
    """A reviewer must look at it."""
    NOTE = "note"
    """Nothing wrong, but readers should know: a badge."""


@dataclass(frozen=True)
class Fault:
    """One thing that a rule found."""

    field: str
    message: str
    path: str = ""
    """File, where it is not the subject's own."""


@dataclass(frozen=True)
class Rule[Subject]:
    """A row of the table. What it checks is said once: in the docstring of its function."""

    id: str
    severity: Severity
    check: Callable[[Subject], Iterable[Fault]]

    @property
    def what(self) -> str:
        """What it checks, in a sentence or two."""
        return " ".join((inspect.getdoc(self.check) or "").split("\n\n")[0].split())


@dataclass(frozen=True)
class Finding:
    """A fault with its rule and its place."""

    rule: str
    severity: Severity
    path: str
    field: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "path": self.path,
            "field": self.field,
            "message": self.message,
        }


def show(value: Any, limit: int = 80) -> str:
    """``value`` for a message: in one line, short, and without what could steer a terminal."""
    return f'"{plain(value, limit)}"' if isinstance(value, str) else plain(repr(value), limit)


def plain(text: str, limit: int = 1000) -> str:
    """``text`` in one line of at most about ``limit`` characters, with what cannot be seen written out."""
    shown = "".join(char if _harmless(char) else f"\\u{ord(char):04x}" for char in text[:limit])
    return shown if len(text) <= limit else f"{shown}... ({len(text)} characters)"


def _harmless(char: str) -> bool:
    return char.isprintable() and unicodedata.category(char) not in ("Cc", "Cf", "Co", "Cs")


def close(first: float, second: float, relative: float = CLOSE) -> bool:
    """Whether two figures agree."""
    return abs(first - second) <= relative * max(abs(first), abs(second))


def whole(value: Any) -> int | None:
    """``value`` if it is a whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
