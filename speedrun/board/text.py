"""Figures as people read them, and tables that become Markdown or a terminal's.

Text from records is written as text wherever it goes: Markdown, HTML and a terminal's markup have no effect.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from speedrun.board.model import Figure

LONGEST = 60
"""Characters of a name that a table shows."""
_MARKDOWN = re.compile(r"[\\`*\[<>|~#]|(?<!\w)_|_(?!\w)")


@dataclass(frozen=True)
class Link:
    """Text that leads somewhere: a path of the project or an http address."""

    text: str
    target: str


Cell = str | Link


@dataclass(frozen=True)
class Sheet:
    """A table with what must be said about it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    before: Sequence[str] = ()
    """Paragraphs above it."""
    after: Sequence[str] = ()
    """Notes below it."""
    brief: Sequence[str] = ()
    """The columns that a narrow terminal shows; all if not given."""


def plain(text: str, longest: int = LONGEST) -> str:
    """``text`` in one line, without characters that cannot be seen, cut to ``longest``."""
    if len(text) <= longest and text.isascii() and text.isprintable():
        return " ".join(text.split())  # nearly all text, ten times as fast
    shown = "".join(char if unicodedata.category(char)[0] not in "CZ" else " " for char in text[: 4 * longest])
    shown = " ".join(shown.split())
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def bits(figure: Figure) -> str:
    """Bits per byte with the half width of the interval: ``2.6050 ± 0.0026``."""
    if figure.value is None:
        return "–"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.4f}"
    return f"{figure.value:.4f} ± {(figure.high - figure.low) / 2:.4f}"


def ratio(figure: Figure) -> str:
    """A speedup with its interval: ``1.31 [1.27, 1.35]``."""
    if figure.value is None:
        return "–"
    low, high = ("" if end is None else f"{end:.2f}" for end in (figure.low, figure.high))
    if not low and not high:
        return f"{figure.value:.2f} [?]"
    return f"{figure.value:.2f} [{low or '0'}, {high or '∞'}]"


def slope(figure: Figure) -> str:
    """A slope with its sign: ``+0.021 [-0.002, +0.044]``."""
    if figure.value is None:
        return "–"
    low, high = ("" if end is None else f"{end:+.3f}" for end in (figure.low, figure.high))
    return f"{figure.value:+.3f} [{low or '-∞'}, {high or '∞'}]" if low or high else f"{figure.value:+.3f} [?]"


def scientific(value: float | None) -> str:
    """``1.08e17``."""
    if value is None:
        return "–"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def seconds(value: float | None) -> str:
    """``37 s``, ``12.4 min`` or ``15.1 h``."""
    if value is None:
        return "–"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def count(value: float | None) -> str:
    """``33.8 M``."""
    if value is None:
        return "–"
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.0f}"


def percent(value: float | None, digits: int = 1) -> str:
    """``98.7 %``."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def escape(text: str) -> str:
    """``text`` for Markdown, in which it has no effect."""
    return _MARKDOWN.sub(r"\\\g<0>", plain(text, 10_000).replace("&", "&amp;"))


def markdown(sheet: Sheet, level: int = 2) -> str:
    """The sheet as Markdown."""
    parts = [f"{'#' * level} {escape(sheet.title)}", *map(escape, sheet.before)]
    if sheet.rows:
        head = f"| {' | '.join(map(escape, sheet.columns))} |\n|{'---|' * len(sheet.columns)}"
        parts.append("\n".join([head, *(f"| {' | '.join(map(_cell, row))} |" for row in sheet.rows)]))
    if sheet.after:
        parts.append("\n".join(f"- {escape(note)}" for note in sheet.after))
    return "\n\n".join(parts) + "\n"


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return escape(plain(cell, 200))
    target = safe_target(cell.target)
    return f"[{escape(plain(cell.text))}]({target})" if target else escape(plain(cell.text))


def safe_target(target: str) -> str:
    """A link's target if it is an http address or a path of the project, without anything that ends it early."""
    if not re.fullmatch(r"(https?://[^\s<>()\"'\\`]+|[\w./-]+)", target, re.ASCII) or len(target) > 500:
        return ""
    return target
