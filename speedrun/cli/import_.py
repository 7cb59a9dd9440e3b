"""``speedrun import``: Marin's public results, flagged where they cannot be right."""

import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speedrun.errors import SpeedrunError
from speedrun.project import find_project

if TYPE_CHECKING:
    import pandas as pd

MOST_BYTES = 50_000_000
"""A larger file is no board."""
TIMEOUT_SECONDS = 30


@click.command("import")
@click.argument("source", metavar="FILE|FOLDER|URL")
@click.option("--write", is_flag=True, help="Make a board's figures the project's: results/marin/board.json.")
@click.option("--as-of", metavar="YYYY-MM-DD", help="The day of the figures. [today]")
@click.option("--json", "as_json", is_flag=True, help="Every row, machine-readable.")
@click.option("--csv", "as_csv", is_flag=True, help="Every row, for a spreadsheet.")
def command(source: str, write: bool, as_of: str | None, as_json: bool, as_csv: bool) -> None:
    """Read Marin's public results: a board (runs.json), a result file of any age, or a folder of them.

    Shows what was read, and what is wrong with which row. Only figures, credit and links are kept of a board.
    """
    day = _day(as_of)
    from speedrun.board.importing import board_content, read_any

    if source.startswith(("http://", "https://")):
        with tempfile.TemporaryDirectory() as folder:
            path = _download(source, Path(folder))
            runs, content = read_any(path, source), board_content(path, source, day)
    else:
        path = Path(source)
        runs, content = read_any(path, source), board_content(path, source, day)
    if as_json:
        click.echo(runs.to_json(orient="records", indent=1, date_format="iso"))
    elif as_csv:
        click.echo(runs.to_csv(index=False), nl=False)
    else:
        _print(runs)
    if write:
        _write(content)


def _day(text: str | None) -> date:
    try:
        return date.fromisoformat(text) if text else datetime.now(UTC).date()
    except ValueError:
        raise SpeedrunError(f"--as-of {text!r} is no day: write it as 2025-12-21") from None


def _download(url: str, folder: Path) -> Path:
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url, headers={"User-Agent": "marin-speedrun"}), timeout=TIMEOUT_SECONDS) as reply:
            content = reply.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise SpeedrunError(f"{url} cannot be fetched: {error}. Download it and give the file instead") from None
    if len(content) > MOST_BYTES:
        raise SpeedrunError(f"{url} is larger than {MOST_BYTES / 1e6:.0f} MB: that is no board")
    path = folder / "download.json"
    path.write_bytes(content)
    return path


def _write(content: Mapping[str, Any] | None) -> None:
    from speedrun.board.public import board_file
    from speedrun.records.store import write_bytes_atomically

    if content is None:
        raise SpeedrunError("only a board can be written; result files are compared where they are")
    path = board_file(find_project())
    # A row a line, so that a later import shows as a difference of rows.
    runs = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in content["runs"])
    head = json.dumps({key: value for key, value in content.items() if key != "runs"}, indent=1, ensure_ascii=False)
    write_bytes_atomically(path, f'{head[:-2]},\n "runs": [\n{runs}\n ]\n}}\n'.encode())
    click.echo(f"wrote {path}")


def _print(runs: "pd.DataFrame") -> None:
    from rich.console import Console

    from speedrun.board.text import Sheet, plain, scientific, seconds
    from speedrun.cli.sheets import print_sheet
    from speedrun.records.legacy import FLAGS

    rows = [
        (
            row["run_name"],
            "–" if row["bits_per_byte"] is None else f"{row['bits_per_byte']:.4f}",
            scientific(row["model_flops"]),
            scientific(row["hardware_flops"]),
            seconds(row["training_time_seconds"]),
            plain(str(row["author_name"] or ""), 30),
            ", ".join(row["flags"]),
            "yes" if row["ranked"] else "no",
        )
        for row in runs.astype(object).where(runs.notna(), None).to_dict("records")
    ]
    columns = ("run", "bits per byte", "model FLOPs", "hardware FLOPs", "time", "author", "flags", "ranked")
    used = {flag for flags in runs["flags"] for flag in flags}
    notes = [f"{flag}: {FLAGS[flag].meaning}." for flag in FLAGS if flag in used]
    ranked = int(runs["ranked"].sum())
    title = f"{len(rows)} runs, of which {ranked} can be ranked"
    print_sheet(Console(), Sheet(title, columns, rows, (), notes, ("run", "bits per byte", "flags", "ranked")))
