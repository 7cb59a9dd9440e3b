"""Reading a step log: its attempts, its steps, and the times that are told from them.

See ``speedrun.steps.step_log`` for what writes it. Nothing here imports jax.
"""

import itertools
import json
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from speedrun.storage import list_names, read_bytes

STEP_LOG_FOLDER = "step_log"
ATTEMPT_VARIABLE = "SPEEDRUN_ATTEMPT"
"""Environment variable in which an engine tells an attempt its id, and how the ones before it ended (JSON)."""
_ATTEMPT_FILE = re.compile(r"attempt-(\d{4,})\.jsonl")


@dataclass(frozen=True)
class Step:
    """One training step as it was last trained."""

    step: int
    loss: float
    """Nats per token, as trained (with z-loss or auxiliary terms if the recipe has any)."""
    seconds: float
    """Wall time of the step, data loading and hooks excluded, compilation included where it happened."""
    tokens: int
    """Tokens trained on by the end of this step."""
    attempt: int


@dataclass(frozen=True)
class Attempt:
    """One process' part in a run."""

    number: int
    started: str
    hardware: str
    chips: int
    seconds: float
    """Sum of the durations of the steps that this attempt trained, replayed ones included."""
    first_step: int | None
    last_step: int | None
    wall_seconds: float | None = None
    """From the reservation of its hosts, or the start of its log where no cluster was asked, to its end. None when
    it was killed together with whoever started it."""
    lost_steps: int = 0
    """Steps that a later attempt had to train again."""
    cause: str | None = None
    """Why it ended before the run did, as far as the engine knew."""
    others_cpu_share: float | None = None
    """Share of its machine's processor time that other processes used. None when it was killed."""
    checkpoint_every: float | None = None
    """Seconds between its checkpoints."""


@dataclass(frozen=True)
class StepLog:
    """A run's steps, each once, in order, and its attempts."""

    steps: tuple[Step, ...]
    attempts: tuple[Attempt, ...]
    evaluated: dict[str, float]
    """Levanter's own bits per byte, by key, as last logged."""
    wandb_link: str | None
    rows: int
    """Step lines read, replayed ones included."""

    def missing(self, steps: int) -> list[int]:
        """Which of the steps 0 .. ``steps`` - 1 were never logged."""
        seen = {step.step for step in self.steps}
        return [step for step in range(steps) if step not in seen]

    @property
    def training_seconds(self) -> float:
        """Every step's duration once, first steps with their compilation included (upstream's meaning)."""
        return sum(step.seconds for step in self.steps)

    @property
    def spent_seconds(self) -> float:
        """Every duration that was ever logged, replayed steps included."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def compile_seconds(self) -> float:
        """What the first step of each attempt took above the median step: compilation, mostly."""
        return max(0.0, self.training_seconds - self.steady_seconds)

    @property
    def steady_seconds(self) -> float:
        """Time of all steps, had the first of each attempt taken as long as the median step."""
        if not self.steps:
            return 0.0
        median = statistics.median(step.seconds for step in self.steps)
        first = {attempt.first_step for attempt in self.attempts}
        return sum(min(step.seconds, median) if step.step in first else step.seconds for step in self.steps)

    def lines(self) -> list[dict[str, Any]]:
        """The log as it is kept beside a record: a line per step, each once."""
        return [
            {"step": s.step, "loss": s.loss, "seconds": s.seconds, "tokens": s.tokens, "attempt": s.attempt}
            for s in self.steps
        ]


def attempt_file(number: int) -> str:
    """File name of an attempt's part of the log."""
    return f"attempt-{number:04d}.jsonl"


def attempt_numbers(folder: str) -> list[int]:
    """Numbers of the attempts that have a file in ``folder``, ascending."""
    return sorted(int(match[1]) for name in list_names(folder) if (match := _ATTEMPT_FILE.fullmatch(name)))


def read_step_log(train_output: str) -> StepLog:
    """The step log of the run whose train step writes to ``train_output``.

    A line cut short by a kill is left out; so is anything that is not a line of the log.
    """
    return StepLogReader(train_output).read()


class StepLogReader:
    """Reads a step log that is being written: each ``read`` takes only what was added since the last one."""

    def __init__(self, train_output: str):
        self._folder = f"{train_output.rstrip('/')}/{STEP_LOG_FOLDER}"
        self._parts: dict[int, _Part] = {}
        self._steps: dict[int, Step] = {}
        self._evaluated: dict[str, float] = {}
        self._wandb_link: str | None = None

    def read(self) -> StepLog:
        """The log as it is now."""
        newest = max(self._parts, default=0)
        for number in attempt_numbers(self._folder):
            # An attempt writes no more once the next one has begun, and that one reads it to its end.
            if number >= newest:
                self._read_on(number, self._parts.setdefault(number, _Part()))
        ordered = tuple(self._steps[number] for number in sorted(self._steps))
        ended = {key: value for part in self._parts.values() for key, value in part.about.get("ended", {}).items()}
        kept = Counter(step.attempt for step in ordered)
        attempts = tuple(
            part.attempt(number, ended.get(part.about.get("id"), {}), lost_steps=len(part.steps) - kept[number])
            for number, part in sorted(self._parts.items())
        )
        rows = sum(part.rows for part in self._parts.values())
        return StepLog(ordered, attempts, dict(self._evaluated), self._wandb_link, rows)

    def _read_on(self, number: int, part: "_Part") -> None:
        added = read_bytes(f"{self._folder}/{attempt_file(number)}", part.read_bytes)
        whole = added[: added.rfind(b"\n") + 1]
        part.read_bytes += len(whole)
        for line in _parse(whole.decode("utf-8", errors="replace")):
            if "attempt" in line and "started" in line:
                part.about = part.about or line
            if "step" in line:
                step = _step(line, number)
                part.add(step)
                self._steps[step.step] = step
            if "wall_seconds" in line:
                part.wall_seconds = line["wall_seconds"]
                part.others_cpu_share = line.get("others_cpu_share")
            if "evaluated_at" in line:
                self._evaluated.update({key: value for key, value in line.items() if key != "evaluated_at"})
            self._wandb_link = line.get("wandb", self._wandb_link)


@dataclass
class _Part:
    """What has been read of one attempt's file."""

    read_bytes: int = 0
    rows: int = 0
    seconds: float = 0.0
    first_step: int | None = None
    last_step: int | None = None
    about: dict[str, Any] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    wall_seconds: float | None = None
    others_cpu_share: float | None = None

    def add(self, step: Step) -> None:
        self.rows += 1
        self.steps.add(step.step)
        self.seconds += step.seconds
        self.first_step = step.step if self.first_step is None else self.first_step
        self.last_step = step.step

    def attempt(self, number: int, ended: dict[str, Any], lost_steps: int) -> Attempt:
        return Attempt(
            number=number,
            started=self.about.get("started", ""),
            hardware=self.about.get("hardware", ""),
            chips=self.about.get("chips", 1),
            seconds=self.seconds,
            first_step=self.first_step,
            last_step=self.last_step,
            wall_seconds=ended.get("wall_seconds", self.wall_seconds),
            lost_steps=lost_steps,
            cause=ended.get("cause"),
            others_cpu_share=self.others_cpu_share,
            checkpoint_every=self.about.get("checkpoint_every"),
        )


_COMMIT_SECONDS = 60.0
"""A checkpoint that was due so long before an attempt's last step has been written, or was given up on."""


def checkpoint_told(log: StepLog) -> str | None:
    """Why there must be a checkpoint of the run, in words; None when there need not be one yet."""
    for attempt in log.attempts:
        if attempt.first_step:
            return f"attempt {attempt.number} went on from a checkpoint at step {attempt.first_step}"
        # Durations of steps are less than the time since the attempt began, by which checkpoints are due.
        if attempt.checkpoint_every is not None and attempt.seconds > 2 * attempt.checkpoint_every + _COMMIT_SECONDS:
            return (
                f"attempt {attempt.number} trained for {attempt.seconds:.0f} s to step {attempt.last_step}, with a "
                f"checkpoint every {attempt.checkpoint_every:g} s"
            )
    return None


SLOW_WINDOW_STEPS = 50
"""Steps over which throughput is told: fewer, and one slow read of data would look like a falling run."""
SLOW_SHARE = 0.10
"""A fall by more than this is flagged."""


def throughput_fall(steps: Sequence[Step]) -> float | None:
    """By what share the last attempt's throughput lies below what it was before; negative when it rose.

    Median tokens per second of its last 50 steps against that of the steps before them. Attempts are not
    mixed, since they may run elsewhere, and an attempt's first step, which compiles, is left out.

    Returns:
        None while there are fewer than 50 steps to compare with.
    """
    own = [step for step in steps if step.attempt == steps[-1].attempt]
    speeds = [
        (step.tokens - before.tokens) / step.seconds
        for before, step in itertools.pairwise(own)
        if step.seconds > 0 and step.step == before.step + 1
    ]
    if len(speeds) < 2 * SLOW_WINDOW_STEPS:
        return None
    earlier = statistics.median(speeds[:-SLOW_WINDOW_STEPS])
    return 1 - statistics.median(speeds[-SLOW_WINDOW_STEPS:]) / earlier if earlier > 0 else None


def _step(line: dict[str, Any], attempt: int) -> Step:
    return Step(line["step"], line["loss"], line["seconds"], line["tokens"], attempt)


def _parse(text: str) -> list[dict[str, Any]]:
    rows = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows
