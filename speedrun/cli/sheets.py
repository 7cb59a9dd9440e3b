"""Tables of the board on a terminal, where text from records is text and no markup."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from speedrun.board.text import Cell, Sheet, plain

WIDE = 180
"""Columns of a terminal from which every column of a table is shown."""


def print_sheet(console: Console, sheet: Sheet, most: int | None = None) -> None:
    """One table with its notes. A column that is empty throughout is left out.

    Args:
        most: rows that are shown; all by default.
    """
    console.print(Text(sheet.title, style="bold"))
    for paragraph in sheet.before:
        console.print(Text(paragraph))
    shown = sheet.brief if sheet.brief and console.width < WIDE else sheet.columns
    kept = [
        at
        for at, column in enumerate(sheet.columns)
        if column in shown and any(_text(row[at]) not in ("", "–") for row in sheet.rows)
    ]
    if sheet.rows:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for at in kept:
            table.add_column(sheet.columns[at], no_wrap=True, overflow="ellipsis")
        for row in sheet.rows[:most]:
            table.add_row(*(Text(_text(row[at])) for at in kept))
        console.print(table)
        if most is not None and len(sheet.rows) > most:
            console.print(Text(f"... and {len(sheet.rows) - most} more: --rung shows all of a rung", style="dim"))
    for note in sheet.after[:most]:
        console.print(Text(plain(note, 500), style="dim"))
    console.print()


def _text(cell: Cell) -> str:
    return plain(cell if isinstance(cell, str) else cell.text, 80)
