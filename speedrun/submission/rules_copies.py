"""Rules over all records at once: nothing that only one run can have stands in two of them.

Which of two is the copy cannot be told from the files alone. Records that the change under review leaves as
they were count as originals; among others, the one that was completed first.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from speedrun.records.schema import RunInfo
from speedrun.submission.rule import Fault, Rule, Severity, close, show

NEAR_SCORE = 1e-5
NEAR_TIME = 1e-4


@dataclass(frozen=True)
class Sketch:
    """What is compared of one run; the rest is forgotten, so that many records fit."""

    path: str
    """Of the results file."""
    index: int
    candidate: str
    rung: str
    seed: int
    recipe_fingerprint: str
    run_link: str | None
    bits_per_byte: float
    nats: float
    training_time: float
    steady_time: float
    moments: tuple[str, ...]
    """When its attempts started, and when it was completed."""
    step_log_sha256: str
    credit: tuple[tuple[str, str], ...]
    """(name, affiliation) of each author."""
    is_original: bool

    def __str__(self) -> str:
        name = self.credit[0][0] if self.credit else "nobody"
        return f"{self.candidate} at {self.rung}, seed {self.seed}, by {show(name)}"

    def fault(self, field: str, message: str) -> Fault:
        """A fault of this run."""
        return Fault(f"runs[{self.index}].run_info.{field}", message, self.path)


def sketch(info: RunInfo, *, path: str, index: int, candidate: str, is_original: bool) -> Sketch:
    """What is compared of ``info``."""
    return Sketch(
        path=path,
        index=index,
        candidate=candidate,
        rung=info.rung,
        seed=info.seed,
        recipe_fingerprint=info.recipe_fingerprint,
        run_link=info.wandb_run_link,
        bits_per_byte=info.bits_per_byte,
        nats=info.evaluation.nats,
        training_time=info.training_time,
        steady_time=info.steady_time,
        moments=(*(attempt.started for attempt in info.attempts), info.run_completion_timestamp),
        step_log_sha256=info.step_log.sha256,
        credit=tuple((author.name, author.affiliation) for author in info.authors),
        is_original=is_original,
    )


def in_order(sketches: Sequence[Sketch]) -> list[Sketch]:
    """Originals first: what stood there before the change, then by completion."""
    return sorted(sketches, key=lambda each: (not each.is_original, each.moments[-1], each.path, each.index))


def _repeats(sketches: Sequence[Sketch], of: Callable[[Sketch], Hashable | None]) -> Iterator[tuple[Sketch, Sketch]]:
    """(a later run, the first one of another folder with the same key), for runs that have a key."""
    first: dict[Hashable, Sketch] = {}
    for each in in_order(sketches):
        key = of(each)
        if key is not None:
            original = first.setdefault(key, each)
            if original.path != each.path:
                yield each, original


def copied_link(sketches: Sequence[Sketch]) -> Iterator[Fault]:
    """A run's link stands in one record only."""
    for each, original in _repeats(sketches, lambda run: run.run_link):
        yield each.fault("wandb_run_link", f"it is the run of {original}")


def copied_score(sketches: Sequence[Sketch]) -> Iterator[Fault]:
    """No two runs score the same to the last digit, unless they are the same recipe and seed run twice."""
    for each, original in _repeats(sketches, lambda run: (run.bits_per_byte, run.nats)):
        if not _same_computation(each, original):
            yield each.fault("bits_per_byte", f"{each.bits_per_byte!r} is to the last digit that of {original}")


def copied_times(sketches: Sequence[Sketch]) -> Iterator[Fault]:
    """No two runs took the same time to the microsecond."""
    for each, original in _repeats(sketches, lambda run: (run.training_time, run.steady_time)):
        yield each.fault("training_time", f"{each.training_time!r} s is to the last digit that of {original}")


def copied_log(sketches: Sequence[Sketch]) -> Iterator[Fault]:
    """No two runs have the same step log."""
    for each, original in _repeats(sketches, lambda run: run.step_log_sha256):
        yield each.fault("step_log.sha256", f"it is the step log of {original}")


def copied_moments(sketches: Sequence[Sketch]) -> Iterator[Fault]:
    """No two runs started and were completed in the same seconds."""
    for each, original in _repeats(sketches, lambda run: run.moments if len(run.moments) > 1 else None):
        yield each.fault("run_completion_timestamp", f"it started and was completed with {original}")


def near_copy(sketches: Sequence[Sketch]) -> Iterator[Fault]:
    """No run is within 0.001 % of another's score and 0.01 % of its time: figures that were copied and then
    touched."""
    cells: dict[tuple[str, int, int], Sketch] = {}
    for each in in_order(sketches):
        if each.bits_per_byte <= 0 or each.training_time <= 0:
            continue
        # Cells as wide as the tolerance: whatever is near lies in this one or in one beside it.
        score = math.floor(math.log(each.bits_per_byte) / NEAR_SCORE)
        time = math.floor(math.log(each.training_time) / NEAR_TIME)
        for ahead, aside in product((-1, 0, 1), (-1, 0, 1)):
            other = cells.get((each.rung, score + ahead, time + aside))
            if other is not None and _is_near(each, other):
                yield each.fault("bits_per_byte", f"score and time are within a hair of those of {other}")
                break
        cells.setdefault((each.rung, score, time), each)


def same_recipe(sketches: Sequence[Sketch]) -> Iterator[Fault]:
    """No two candidates have the same recipe at a rung: there they are one method under two names."""
    for each, original in _repeats(sketches, lambda run: (run.rung, run.recipe_fingerprint)):
        if each.candidate != original.candidate:
            yield each.fault("recipe_fingerprint", f"it computes the same as {original.candidate} at {each.rung}")


def names_swapped(sketches: Sequence[Sketch]) -> Iterator[Fault]:
    """Nobody's name and affiliation stand the other way round in another record."""
    seen: dict[tuple[str, str], Sketch] = {}
    for each in in_order(sketches):
        for name, affiliation in each.credit:
            other = seen.get((affiliation, name)) if name != affiliation else None
            if other is not None:
                yield each.fault("authors", f"name and affiliation are the other way round in {other}")
            seen.setdefault((name, affiliation), each)


def _is_near(one: Sketch, other: Sketch) -> bool:
    return (
        one.path != other.path
        and one.bits_per_byte != other.bits_per_byte
        and one.training_time != other.training_time
        and close(one.bits_per_byte, other.bits_per_byte, NEAR_SCORE)
        and close(one.training_time, other.training_time, NEAR_TIME)
        and not _same_computation(one, other)
    )


def _same_computation(one: Sketch, other: Sketch) -> bool:
    """Whether it was computed twice: the same recipe and seed, in times of its own."""
    same = (one.recipe_fingerprint, one.seed) == (other.recipe_fingerprint, other.seed)
    return same and one.training_time != other.training_time


COPY_RULES: tuple[Rule[Sequence[Sketch]], ...] = (
    Rule("copied-link", Severity.ERROR, copied_link),
    Rule("copied-score", Severity.ERROR, copied_score),
    Rule("copied-times", Severity.ERROR, copied_times),
    Rule("copied-step-log", Severity.ERROR, copied_log),
    Rule("copied-moments", Severity.ERROR, copied_moments),
    Rule("near-copy", Severity.WARNING, near_copy),
    Rule("same-recipe", Severity.WARNING, same_recipe),
    Rule("names-swapped", Severity.ERROR, names_swapped),
)
