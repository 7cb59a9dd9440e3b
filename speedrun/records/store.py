"""Results files on disk: read with clear errors, written whole or not at all."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from speedrun.errors import SpeedrunError
from speedrun.identity import sha256_hex
from speedrun.records.gzip_text import pack
from speedrun.records.schema import SCHEMA_VERSION, ResultsFile, Run, RunInfo, StepLogInfo

RESULTS_FILE = "speedrun_results.json"
MAX_STEP_LOG_BYTES = 2_000_000
"""A step log beside a record may not be larger, compressed; a longer run's is thinned."""


def read_results(path: Path) -> ResultsFile:
    """The results file at ``path``.

    Raises:
        SpeedrunError: when it cannot be read, is not JSON, or lacks a field; the file is left as it is.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise SpeedrunError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SpeedrunError(
            f"{path} is not valid JSON ({error}): restore it (git checkout -- {path.name}), or move it away and "
            "run the same command again; what was trained is kept"
        ) from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise SpeedrunError(
            f"{path} has schema version {version}; this program knows up to {SCHEMA_VERSION}: update the program"
        )
    try:
        return ResultsFile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the top level"
        raise SpeedrunError(f"{path}: {where}: {first['msg']}") from None


def write_json_atomically(path: Path, content: Any) -> None:
    """Write ``content`` beside ``path`` and rename it over: readers see the old file or the new one.

    Raises:
        SpeedrunError: when the folder cannot be written or the disk is full; ``path`` is left as it was.
    """
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes_atomically(path, text.encode())


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """See ``write_json_atomically``; files that already hold ``content`` are not touched."""
    try:
        if path.is_file() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(beside, 0o644)
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        raise SpeedrunError(
            f"{path} cannot be written: {error.strerror}. Nothing was lost: mend it and run the same command again"
        ) from None


def publish_run(folder: Path, info: RunInfo, step_log_text: bytes, documents_text: bytes | None = None) -> Path:
    """Put ``info`` into ``folder``'s results file, in the place of an earlier run with the same seed.

    Runs of another recipe are dropped from the file: it holds one recipe's seeds. Safe with several
    processes at once. Returns the results file's path.

    Raises:
        SpeedrunError: when the existing file is damaged, or nothing can be written.
    """
    path = folder / RESULTS_FILE
    with _locked(folder):
        earlier = read_results(path).runs if path.exists() else []
        kept = [
            run
            for run in earlier
            if run.run_info.seed != info.seed and run.run_info.recipe_fingerprint == info.recipe_fingerprint
        ]
        write_bytes_atomically(folder / info.step_log.file, pack(step_log_text))
        if info.evaluation.documents_file is not None and documents_text is not None:
            write_bytes_atomically(folder / info.evaluation.documents_file.file, pack(documents_text))
        runs = sorted([*kept, Run(run_info=info)], key=lambda run: run.run_info.seed)
        results = ResultsFile(schema_version=SCHEMA_VERSION, runs=runs)
        write_json_atomically(path, results.model_dump(by_alias=True, mode="json"))
        infos = [run.run_info for run in runs]
        wanted = {info.step_log.file for info in infos}
        wanted |= {kept.file for info in infos if (kept := info.evaluation.documents_file) is not None}
        for stale in [*folder.glob("steps-*.jsonl.gz"), *folder.glob("documents-*.json.gz")]:
            if stale.name not in wanted:
                stale.unlink()
    return path


def step_log_text(lines: list[dict[str, Any]]) -> bytes:
    """A step log as it is kept beside a record, thinned evenly if it would be too large when compressed.

    The first and the last line always stay. Durations are rounded to 0.1 ms and losses to 1e-6.
    """
    every = 1
    while True:
        kept = [line for at, line in enumerate(lines) if at % every == 0 or at == len(lines) - 1]
        rows = [{**line, "loss": round(line["loss"], 6), "seconds": round(line["seconds"], 4)} for line in kept]
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()
        if len(pack(text)) <= MAX_STEP_LOG_BYTES:
            return text
        every *= 2


def step_log_info(seed: int, text: bytes, *, steps: int, complete: bool) -> StepLogInfo:
    """What a record says of its step log."""
    return StepLogInfo(file=f"steps-{seed}.jsonl.gz", sha256=sha256_hex(text), steps=steps, complete=complete)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that two processes merge into the file one after the other."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The lock is released by the kernel when its holder dies; the empty file may stay behind.
        with FileLock(folder / ".lock", timeout=60):
            yield
    except Timeout:
        raise SpeedrunError(f"another process has held {folder / '.lock'} for a minute: see what it does") from None
    except OSError as error:
        raise SpeedrunError(f"{folder} cannot be written: {error.strerror}") from None
