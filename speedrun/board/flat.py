"""The board as flat rows, for a spreadsheet."""

from collections.abc import Iterator
from typing import Any

from speedrun.board.model import Board, Figure

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


def flat_rows(board: Board) -> Iterator[dict[str, Any]]:
    """One row for each candidate and rung of our own ladders, one column a figure."""
    for ladder in board.ladders:
        for arm in ladder.arms:
            row: dict[str, Any] = {"ladder": ladder.name}
            for name, value in arm:
                if isinstance(value, Figure):
                    row |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
                elif name == "authors":
                    row[name] = _text("; ".join(author.name for author in value))
                elif name == "runs":
                    row["seeds"] = sum(not run.flags for run in value)
                elif name == "metrics":
                    row |= {_text(metric.name): metric.value for metric in value}
                elif name == "badges":
                    row[name] = ", ".join(value)
                else:
                    row[name] = _text(value) if isinstance(value, str) else value
            yield row


def _text(value: str) -> str:
    """Text of a record, which a spreadsheet must not run."""
    return f"'{value}" if value.startswith(_FORMULA) else value
