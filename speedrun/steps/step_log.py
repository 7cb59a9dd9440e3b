"""The step log: what each training step took, in an append-only file of the run's own.

W&B's history is sampled and its summary covers the last attempt alone, so times are taken from here.
Each attempt at a run writes ``step_log/attempt-0001.jsonl``, ``-0002`` and so on: first a line about the
attempt, and how those that the engine started before it ended; then a line a step. A line is written when
the step is done, so that a process killed at any moment loses at most the line that it was writing. A step
that is trained again after a resume is logged again; the reader keeps the last.
"""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
from levanter.checkpoint import Checkpointer, CheckpointerConfig
from levanter.tracker.tracker import NoopTracker, Tracker, TrackerConfig
from rigging.filesystem.storage_path import StoragePath, prefix_join

from speedrun.processors import ProcessorUse
from speedrun.records.schema import utc_now
from speedrun.records.steps import ATTEMPT_VARIABLE, STEP_LOG_FOLDER, attempt_file, attempt_numbers

REMOTE_FLUSH_SECONDS = 15.0
"""Objects in a bucket cannot be appended to; they are written anew, about this often, and with each checkpoint."""


class StepLogError(BaseException):
    """The step log could not be written.

    Not an ``Exception``: Levanter's composite tracker swallows those, and training would go on for days
    with nothing to show.
    """


class StepLogTracker(Tracker):
    """Writes a line per training step once its loss and its duration are both known."""

    name = "speedrun_step_log"

    def __init__(self, folder: str, about: Mapping[str, Any]):
        self._is_remote = "://" in folder
        number = max(attempt_numbers(folder), default=0) + 1
        self._path = prefix_join(folder, attempt_file(number))
        self._pending: dict[str, Any] = {}
        self._pending_step: int | None = None
        self._remote_lines: list[str] = []
        self._flushed_at = time.monotonic()
        self._saved_at_flush = LoggedCheckpointerConfig.saved
        StoragePath(folder).mkdirs()
        told = json.loads(os.environ.get(ATTEMPT_VARIABLE, "{}"))
        self._began = told.get("began", time.time())
        self._processors = ProcessorUse.now()
        self._write({"attempt": number, "started": utc_now(), **about, **told})

    def log(self, metrics: Mapping[str, Any], *, step: int | None, commit: bool | None = None) -> None:
        if step is None:
            return
        if self._pending_step is None:
            self._write_wandb_link()
        if step != self._pending_step:
            self._pending, self._pending_step = {}, step
        if "train/loss" in metrics:
            self._pending["loss"] = float(metrics["train/loss"])
        if "throughput/duration" in metrics:
            self._pending["seconds"] = float(metrics["throughput/duration"])
            self._pending["tokens"] = int(metrics["throughput/total_tokens"])
        if {"loss", "seconds"} <= self._pending.keys():
            self._write({"step": int(step), **self._pending})
            self._pending = {}
        evaluated = {key: float(value) for key, value in metrics.items() if key.endswith("/bpb")}
        if evaluated:
            self._write({"evaluated_at": int(step), **evaluated})

    def _write_wandb_link(self) -> None:
        run = getattr(sys.modules.get("wandb"), "run", None)
        if run is not None and getattr(run, "url", None):
            self._write({"wandb": run.url})

    def log_hyperparameters(self, hparams: dict[str, Any]) -> None:
        pass

    def log_summary(self, metrics: Mapping[str, Any]) -> None:
        pass

    def log_artifact(self, artifact_path: Any, *, name: str | None = None, type: str | None = None) -> None:
        pass

    def finish(self) -> None:
        others = ProcessorUse.now().others_share_since(self._processors)
        self._write({"wall_seconds": time.time() - self._began, "others_cpu_share": others})
        if self._is_remote:
            self._flush_remote()

    def _write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row, separators=(",", ":")) + "\n"
        try:
            if self._is_remote:
                self._remote_lines.append(line)
                has_checkpoint = LoggedCheckpointerConfig.saved > self._saved_at_flush
                if has_checkpoint or time.monotonic() - self._flushed_at > REMOTE_FLUSH_SECONDS:
                    self._flush_remote()
            else:
                # Opened for each line: nothing is buffered in this process when it is killed.
                with open(self._path, "a", encoding="utf-8") as file:
                    file.write(line)
        except OSError as error:
            raise StepLogError(f"the step log cannot be written: {error}") from error

    def _flush_remote(self) -> None:
        StoragePath(self._path).write_text("".join(self._remote_lines))
        self._flushed_at = time.monotonic()
        self._saved_at_flush = LoggedCheckpointerConfig.saved


@dataclass
class LoggedCheckpointerConfig(CheckpointerConfig):
    """Levanter's checkpoints, none of which is ahead of the step log for long.

    A run that resumes from a checkpoint does not train its steps again: what the log had not kept of them would be
    lost for good. Levanter begins a checkpoint just before the line of its step is written.
    """

    saved: ClassVar[int] = 0
    """Checkpoints that this process has begun to write."""

    def create(self, run_id: Any) -> Checkpointer:
        checkpointer = super().create(run_id)
        save = checkpointer.save_checkpoint

        def save_and_count(*args: Any, **more: Any) -> None:
            save(*args, **more)
            LoggedCheckpointerConfig.saved += 1

        checkpointer.save_checkpoint = save_and_count  # type: ignore[method-assign]
        return checkpointer


@TrackerConfig.register_subclass("speedrun_step_log")
@dataclass
class StepLogConfig(TrackerConfig):
    """Levanter tracker configuration of the step log."""

    output_path: str = ""
    """The train step's output path; the log stands in ``step_log/`` below it."""
    about: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What to say of each attempt, such as its hardware."""

    def init(self, run_id: str | None) -> Tracker:
        if jax.process_index() != 0:
            return NoopTracker()
        return StepLogTracker(prefix_join(self.output_path, STEP_LOG_FOLDER), self.about)
