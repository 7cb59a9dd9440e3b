"""Watching runs from outside their steps: what a progress display or ``status`` needs to know.

Everything is read from the files that the steps leave, so that it is the same whichever engine runs them,
and whoever asks.
"""

import functools
import json
from dataclasses import dataclass, field

from speedrun.engines.locks import Holder
from speedrun.engines.manifest import Manifest, StepState, driver_of, step_states
from speedrun.records.steps import SLOW_SHARE, Step, StepLogReader, throughput_fall
from speedrun.storage import read_bytes

_RECENT_STEPS = 20
_FALL_STEPS = 1000
"""So many of the last steps tell whether throughput falls: it is worked out anew at each look."""


@dataclass(frozen=True)
class RunProgress:
    """How far one run is."""

    states: dict[str, tuple[StepState, Holder | None]]
    """State and holder of each step of the DAG, by label, in order."""
    last: Step | None
    """The last training step that was logged."""
    tokens_per_second: float | None
    """Over the last steps."""
    steps_total: int
    evaluated: tuple[int, int] | None
    """(windows scored, windows in all) while evaluating."""
    driver: Holder | None
    """The process that started the run, unless it is gone."""
    attempts: int
    """Processes that have trained at it."""
    spent_seconds: float
    """Training time of all attempts, replayed steps included."""
    fall: float | None
    """`throughput_fall` of its steps."""
    fetched: dict[str, tuple[int, int]] = field(default_factory=dict)
    """(bytes here, bytes in all) of the downloads that are going on, by label."""

    @property
    def is_slowing(self) -> bool:
        """Whether throughput has fallen within the attempt by more than a tenth."""
        return self.fall is not None and self.fall > SLOW_SHARE

    @property
    def now(self) -> str:
        """Label of the step that is being worked on, or the one that stopped the run; "" when all is done."""
        for label, (state, _) in self.states.items():
            if state in ("running", "held", "failed", "stopped"):
                return label
        return next((label for label, (state, _) in self.states.items() if state == "waiting"), "")

    @property
    def is_done(self) -> bool:
        """Whether the record has been made."""
        return self.states["record"][0] == "done"

    def eta_seconds(self) -> float | None:
        """Seconds of training left at the present speed."""
        if self.last is None or not self.tokens_per_second:
            return None
        per_step = self.last.tokens / (self.last.step + 1)
        return (self.steps_total - self.last.step - 1) * per_step / self.tokens_per_second


def look_at(manifest: Manifest) -> RunProgress:
    """The progress of a run, read anew."""
    states = step_states(manifest.addresses)
    finished: tuple[StepState, None] = ("done", None)
    if states["record"][0] == "done":
        # Inputs of a finished run may have been cleared away; they are not asked for.
        for label in states:
            states[label] = finished
    last, speed, fall = None, None, None
    attempts, spent = 0, 0.0
    if states["train"][0] != "waiting":
        log = _reader(manifest.addresses["train"]).read()
        attempts, spent = len(log.attempts), log.spent_seconds
        fall = throughput_fall(log.steps[-_FALL_STEPS:]) if log.steps else None
        steps = log.steps
        recent = steps[-_RECENT_STEPS:]
        if recent:
            last = recent[-1]
        if len(recent) > 1:
            seconds = sum(step.seconds for step in recent[1:])
            speed = (recent[-1].tokens - recent[0].tokens) / seconds if seconds > 0 else None
    under_way = {
        label: _progress(manifest, label) for label, (state, _) in states.items() if state in ("running", "held")
    }
    evaluated = under_way.pop("evaluate", None)
    fetched = {label: progress for label, progress in under_way.items() if progress is not None}
    driver = driver_of(manifest)
    return RunProgress(states, last, speed, manifest.steps_total, evaluated, driver, attempts, spent, fall, fetched)


@functools.cache
def _reader(train_output: str) -> StepLogReader:
    """One reader a run, so that a display that looks twice a second reads each line once."""
    return StepLogReader(train_output)


def _progress(manifest: Manifest, label: str) -> tuple[int, int] | None:
    """(done, total) of a step that says so: windows of an evaluation, bytes of a download."""
    try:
        content = json.loads(read_bytes(f"{manifest.addresses[label]}/progress.json"))
        return content["done"], content["total"]
    except (FileNotFoundError, ValueError, KeyError):
        return None
