"""Reading somebody else's results: a board, a result file of any age, or a folder of them."""

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from speedrun.errors import SpeedrunError
from speedrun.records.legacy import read_board, read_results_file, read_results_tree
from speedrun.records.legacy_rows import number

KEPT = {
    "run_name": str,
    "results_filepath": str,
    "author": dict,
    "model_size": float,
    "training_hardware_flops": float,
    "training_time": float,
    "model_flops": float,
    "eval_paloma_c4_en_bpb": float,
    "wandb_link": str,
    "run_completion_timestamp": str,
}
"""What is kept of a board's row: figures, credit and links, no descriptions."""
_CREDIT = ("name", "affiliation", "url")


def read_any(path: Path, name: str) -> pd.DataFrame:
    """The table (`speedrun.records.legacy`) of whatever lies at ``path``; ``name`` is what its user calls it.

    Raises:
        SpeedrunError: for a path that is not there, or a file that holds no results.
    """
    if path.is_dir():
        runs = read_results_tree(path)
        if runs.empty:
            raise SpeedrunError(f"there is no speedrun_results.json in {name} or below it")
        return runs
    if _is_board(path, name):
        return read_board(path).runs
    return read_results_file(path, path.parent.name if path.stem == "speedrun_results" else path.stem)


def board_content(path: Path, source: str, day: date) -> dict[str, Any] | None:
    """A board as the project keeps it (results/marin/board.json); None for anything else.

    Targets are kept where the file has them.
    """
    if path.is_dir() or not _is_board(path, source):
        return None
    content = _load(path, source)
    header: Mapping[str, Any] = content if isinstance(content, dict) else {}
    rows = header.get("runs", content)
    return {
        "as_of": str(header.get("as_of", day.isoformat())),
        "source": str(header.get("source", source)),
        "targets": header.get("targets", []),
        "runs": [_kept(row) for row in rows],
    }


def _is_board(path: Path, name: str) -> bool:
    content = _load(path, name)
    rows = content.get("runs", None) if isinstance(content, dict) else content
    return isinstance(rows, list) and bool(rows) and all(isinstance(row, dict) and "run_name" in row for row in rows)


def _load(path: Path, name: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise SpeedrunError(f"{name} cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise SpeedrunError(f"{name} is no JSON: {problem}") from None


def _kept(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(row.get(key), kind) for key, kind in KEPT.items() if key in row}


def _plain(value: Any, kind: type) -> Any:
    if kind is dict:
        credit = value if isinstance(value, dict) else {"name": value}
        return {key: str(credit[key]) for key in _CREDIT if credit.get(key)}
    if kind is float:
        # A number stays as it was written, a text with a number in it too: it is flagged on reading.
        return value if number(value) is not None else None
    return value if isinstance(value, str) else None
