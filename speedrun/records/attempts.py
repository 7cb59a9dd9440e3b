"""Every attempt that was ever started at a candidate, so that the best of many can be told from the only one.

``results/<candidate>/<rung>/attempts.jsonl`` gets a line when a run is started and another when it ends,
trials with other settings included. A start without an end was killed, or still runs. The file is appended
to and never rewritten; somebody who deletes lines of it is not found out by it (docs/reviewing.md).
"""

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from speedrun.errors import SpeedrunError
from speedrun.records import strict_json
from speedrun.records.schema import utc_now

ATTEMPTS_FILE = "attempts.jsonl"
End = Literal["finished", "failed", "interrupted"]


class AttemptStarted(BaseModel):
    """A run was started."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    event: Literal["started"] = "started"
    attempt: str
    """Of no meaning; the line that tells the end has the same."""
    at: str
    """UTC, as records write it."""
    rung: str
    seed: int
    recipe_fingerprint: str
    run_key: str
    hardware: str
    overrides: dict[str, Any]
    """Fields of the recipe set on the command line; empty for the candidate as written."""


class AttemptEnded(BaseModel):
    """It ended by itself."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    event: Literal["ended"] = "ended"
    attempt: str
    at: str
    how: End
    bits_per_byte: float | None = None


@dataclass(frozen=True)
class Attempted:
    """One attempt as the file tells it."""

    start: AttemptStarted
    end: AttemptEnded | None

    @property
    def how(self) -> str:
        """How it ended, in a word."""
        return self.end.how if self.end else "no end on record"


def read_attempts(path: Path) -> list[Attempted]:
    """The attempts in the file at ``path``, oldest first; none when there is no file.

    Raises:
        SpeedrunError: for a line that is no attempt.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SpeedrunError(f"{path} cannot be read: {error.strerror}") from None
    return parse_attempts(text, str(path))


def parse_attempts(text: bytes, name: str) -> list[Attempted]:
    """See ``read_attempts``; ``name`` is what errors call the file."""
    started: dict[str, AttemptStarted] = {}
    ended: dict[str, AttemptEnded] = {}
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = strict_json.loads(line)
            if isinstance(row, dict) and row.get("event") == "ended":
                end = AttemptEnded.model_validate(row)
                ended[end.attempt] = end
            else:
                start = AttemptStarted.model_validate(row)
                started[start.attempt] = start
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise SpeedrunError(f"{name}, line {number}: {where}: {first['msg']}") from None
        except ValueError as error:
            raise SpeedrunError(f"{name}, line {number}: {error}") from None
    return [Attempted(start, ended.get(attempt)) for attempt, start in started.items()]


@dataclass
class AttemptsLog:
    """Notes the attempts of one command: each as started on entry, each as ended at the latest on exit.

    Used as a context manager around the runs; what has no end when it is left by an exception failed, or was
    interrupted.
    """

    noted: dict[str, tuple[Path, str]] = field(default_factory=dict)
    """(folder, attempt) of what was started, by run key."""
    ended: set[str] = field(default_factory=set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        how: End = "interrupted" if kind is not None and issubclass(kind, KeyboardInterrupt) else "failed"
        for key in self.noted:
            self.end(key, how)

    def start(
        self,
        folder: Path,
        *,
        run_key: str,
        rung: str,
        seed: int,
        recipe_fingerprint: str,
        hardware: str,
        overrides: Mapping[str, Any],
    ) -> None:
        """Note that the run ``run_key`` is started, if that has not been noted yet.

        Raises:
            SpeedrunError: when it cannot be written.
        """
        if run_key in self.noted:
            return
        attempt = uuid.uuid4().hex[:12]
        line = AttemptStarted(
            attempt=attempt,
            at=utc_now(),
            rung=rung,
            seed=seed,
            recipe_fingerprint=recipe_fingerprint,
            run_key=run_key,
            hardware=hardware,
            overrides=dict(overrides),
        )
        _append(folder, line)
        self.noted[run_key] = (folder, attempt)

    def end(self, run_key: str, how: End, bits_per_byte: float | None = None) -> None:
        """Note how the run ended; one that was not noted as started, or has ended, is left alone."""
        if run_key in self.noted and run_key not in self.ended:
            self.ended.add(run_key)
            folder, attempt = self.noted[run_key]
            _append(folder, AttemptEnded(attempt=attempt, at=utc_now(), how=how, bits_per_byte=bits_per_byte))


def runs_on_record(attempts: Sequence[Attempted]) -> set[tuple[str, int]]:
    """(recipe fingerprint, seed) of everything that was started."""
    return {(attempt.start.recipe_fingerprint, attempt.start.seed) for attempt in attempts}


def _append(folder: Path, line: BaseModel) -> None:
    """One write of one line: whole and in order also when several processes append at once."""
    path = folder / ATTEMPTS_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, (line.model_dump_json(exclude_none=True) + "\n").encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise SpeedrunError(
            f"{path} cannot be written: {error.strerror}. Mend it and run the same command again"
        ) from None
