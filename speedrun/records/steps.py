"""Reading a step log: its attempts, its steps, and the times that are told from them.

See ``speedrun.steps.step_log`` for what writes it. Nothing here imports jax.
"""

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from speedrun.storage import list_names, read_bytes

STEP_LOG_FOLDER = "step_log"
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
    folder = f"{train_output.rstrip('/')}/{STEP_LOG_FOLDER}"
    steps: dict[int, Step] = {}
    attempts: list[Attempt] = []
    evaluated: dict[str, float] = {}
    wandb_link: str | None = None
    rows = 0
    for number in attempt_numbers(folder):
        lines = _parse(read_bytes(f"{folder}/{attempt_file(number)}").decode("utf-8", errors="replace"))
        about = next((line for line in lines if "attempt" in line and "started" in line), {})
        own = [_step(line, number) for line in lines if "step" in line]
        rows += len(own)
        steps.update({step.step: step for step in own})
        for line in lines:
            if "evaluated_at" in line:
                evaluated.update({key: value for key, value in line.items() if key != "evaluated_at"})
            wandb_link = line.get("wandb", wandb_link)
        attempts.append(_attempt(number, about, own))
    ordered = tuple(steps[number] for number in sorted(steps))
    return StepLog(ordered, tuple(attempts), evaluated, wandb_link, rows)


def _attempt(number: int, about: dict[str, Any], steps: Sequence[Step]) -> Attempt:
    return Attempt(
        number=number,
        started=about.get("started", ""),
        hardware=about.get("hardware", ""),
        chips=about.get("chips", 1),
        seconds=sum(step.seconds for step in steps),
        first_step=steps[0].step if steps else None,
        last_step=steps[-1].step if steps else None,
    )


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
