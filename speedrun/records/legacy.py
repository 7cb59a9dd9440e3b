"""Marin's public results, read into one table: its board, and the five ages of its result files.

They are other people's records, and so data: read, checked, never run. The table has the columns of
`speedrun.scoring.table.Run` that they fill (``protocol`` is "levanter": these figures compare with the one
that Levanter logs, never with the score), and with them ``run_name``, ``model_parameters``, ``total_tokens``,
``expected_hardware_flops`` (seconds x chips x peak, worked out here), ``author_name``,
``author_affiliation``, ``author_url``, ``completed`` (UTC), ``run_link``, ``source`` (whose file), ``age`` (of
its shape), ``flags`` (names from `FLAGS`) and ``ranked``. What is not on record is null.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec, parse_hardware
from speedrun.records.legacy_rows import BOARD, FLAGS, UNREADABLE, Flag, Row, make_row, make_table, number

__all__ = ["FLAGS", "Flag", "PublicBoard", "combine", "read_board", "read_results_file", "read_results_tree"]


@dataclass(frozen=True)
class PublicBoard:
    """Marin's board at one moment."""

    runs: pd.DataFrame
    targets: dict[str, float]
    """Bits per byte to be reached, by name."""
    as_of: date | None
    """The day on which it was copied; None where the file does not say."""
    source: str

    def age_in_days(self, today: date) -> int | None:
        """How old the copy is."""
        return None if self.as_of is None else (today - self.as_of).days


def read_board(path: Path) -> PublicBoard:
    """The board from ``results/marin/board.json``, or from upstream's own ``runs.json``.

    Raises:
        SpeedrunError: if the file is missing or is neither.
    """
    content = _load(path)
    header: Mapping[str, Any] = content if isinstance(content, dict) else {}
    rows = header.get("runs", content)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SpeedrunError(f"{path} is no board: it should hold a list of runs")
    source = str(header.get("source", path))
    try:
        as_of = date.fromisoformat(header["as_of"]) if "as_of" in header else None
        targets = {str(target["name"]): float(target["target_bpb"]) for target in header.get("targets", [])}
    except (TypeError, KeyError, ValueError) as problem:
        raise SpeedrunError(f"{path}: as_of should be a day and targets a list of names and target_bpb") from problem
    return PublicBoard(make_table(_board_row(row, source) for row in rows), targets, as_of, source)


def read_results_file(path: Path, run_name: str) -> pd.DataFrame:
    """The runs of one of upstream's result files, of any age; a file that cannot be read gives a flagged row.

    Args:
        run_name: what the run is called, such as ``muon_llama_scaling/300m``: the file does not say.
    """
    return make_table(_file_rows(path, run_name))


def read_results_tree(root: Path) -> pd.DataFrame:
    """All ``speedrun_results.json`` under ``root``, each named by its folder."""
    paths = sorted(root.rglob("speedrun_results.json"))
    return make_table(row for path in paths for row in _file_rows(path, path.parent.relative_to(root).as_posix()))


def combine(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Several of these tables as one, with runs that stand in more than one of them flagged."""
    rows = pd.concat(tables, ignore_index=True).to_dict("records")
    return make_table({str(column): value for column, value in row.items()} for row in rows)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise SpeedrunError(f"{path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise SpeedrunError(f"{path} is no JSON: {problem}") from problem


# From each shape to one set of fields, with the figures as written.


def _board_row(row: Mapping[str, Any], source: str) -> Row:
    return make_row(
        run_name=str(row.get("run_name")),
        source=source,
        age=BOARD,
        bits_per_byte=row.get("eval_paloma_c4_en_bpb"),
        model_flops=row.get("model_flops"),
        hardware_flops=row.get("training_hardware_flops"),
        time=row.get("training_time"),
        parameters=row.get("model_size"),
        author=row.get("author"),
        completed=row.get("run_completion_timestamp"),
        run_link=row.get("wandb_link"),
    )


def _file_rows(path: Path, run_name: str) -> list[Row]:
    try:
        content = _load(path)
    except SpeedrunError:
        content = None
    runs = content.get("runs") if isinstance(content, dict) else None
    if not isinstance(runs, list) or not runs:
        return [make_row(run_name=run_name, source=str(path), age=UNREADABLE)]
    return [_file_row(run if isinstance(run, dict) else {}, str(path), run_name) for run in runs]


def _file_row(run: Mapping[str, Any], source: str, run_name: str) -> Row:
    if isinstance(run.get("run_info"), dict):
        return _run_info_row(run["run_info"], source, run_name)
    stats, about = _dict(run, "run_stats"), _dict(run, "run_related_info")
    if not stats:
        return make_row(run_name=run_name, source=source, age=UNREADABLE)
    hardware = _dict(about, "hardware_config")
    # April 2025. Both FLOPs figures had other names; the estimate made before the run is the model's.
    return make_row(
        run_name=run_name,
        source=source,
        age="1: FLOPs as text" if "final_flops_estimate" in stats else "2: run_stats",
        bits_per_byte=stats.get("eval/paloma/c4_en/bpb"),
        model_flops=stats.get("pre_run_flops_estimate"),
        hardware_flops=stats.get("total_training_flops", stats.get("final_flops_estimate")),
        time=stats.get("training_time_in_minutes"),
        time_is_in_minutes=True,
        parameters=about.get("num_parameters"),
        tokens=about.get("total_tokens"),
        expected_tokens=_expected_tokens(about),
        hardware=_spec(hardware.get("device_type")),
        completed=about.get("run_completion_timestamp"),
        run_link=about.get("wandb_run_link", about.get("wandb_run_id")),
        six_n_d=True,
    )


def _run_info_row(info: Mapping[str, Any], source: str, run_name: str) -> Row:
    resources = _dict(info, "resources")
    if isinstance(resources.get("device"), dict):
        age = "5: resources.device"
    elif "device_flops" in info:
        age = "4: chips on record"
    else:
        age = "3: run_info"
    return make_row(
        run_name=run_name,
        source=source,
        age=age,
        bits_per_byte=info.get("eval/paloma/c4_en/bpb"),
        model_flops=info.get("model_flops"),
        hardware_flops=info.get("training_hardware_flops"),
        time=info.get("training_time"),
        parameters=info.get("model_size"),
        tokens=info.get("total_tokens"),
        expected_tokens=_expected_tokens(info),
        hardware=_hardware(resources),
        author=info.get("author"),
        completed=info.get("run_completion_timestamp"),
        run_link=info.get("wandb_run_link"),
    )


def _dict(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = of.get(key)
    return value if isinstance(value, dict) else {}


def _hardware(resources: Mapping[str, Any]) -> HardwareSpec | None:
    device = _dict(resources, "device")
    if device:
        count = device.get("count") if device.get("kind") == "gpu" else None
        return _spec(device.get("variant"), count)
    if "tpu_type" in resources:
        return _spec(resources["tpu_type"])
    return _spec(resources.get("accelerator_type"), resources.get("gpu_count"))


def _spec(name: Any, count: Any = None) -> HardwareSpec | None:
    """The hardware of this name, or None. "A100" does not say how much memory; both kinds have one peak."""
    for each in (name, f"{name}-80g"):
        try:
            return parse_hardware(f"{each}" if count is None else f"{each}x{count}")[0]
        except SpeedrunError:
            continue
    return None


def _expected_tokens(info: Mapping[str, Any]) -> float | None:
    """Batch x steps x length; the batch may be a schedule, a list of {start, value}."""
    train, model = _dict(info, "train_config"), _dict(info, "model_config")
    steps: Any = train.get("num_train_steps")
    length: Any = train.get("train_seq_len") or model.get("seq_len") or model.get("max_seq_len")
    batch = train.get("train_batch_size")
    schedule = batch if isinstance(batch, list) else [{"start": 0, "value": batch}]
    try:
        starts = [float(stage["start"]) for stage in schedule]
        sizes = [float(stage["value"]) for stage in schedule]
        ends = [*starts[1:], float(steps)]
        sequences = sum((end - start) * size for start, end, size in zip(starts, ends, sizes, strict=True))
        return number(sequences * float(length))
    except (TypeError, KeyError, ValueError, OverflowError):
        return None
