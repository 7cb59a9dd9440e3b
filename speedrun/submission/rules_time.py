"""Rules about time: seconds that add up, and moments in their order."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from speedrun.submission.implied import steps
from speedrun.submission.rule import CLOSE, Fault, Rule, Severity, close, show
from speedrun.submission.subjects import RunCase

EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)
"""No record of this kind is older."""
CLOCK_SLACK = timedelta(seconds=2)
"""Moments are written in whole seconds."""
CLOCK_DRIFT = 0.01
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC")


def moment(text: str) -> datetime | None:
    """The moment that a record's "YYYY-MM-DD HH:MM:SS UTC" means; None when it means none."""
    match = _MOMENT.fullmatch(text)
    try:
        return datetime.fromisoformat(match[1]).replace(tzinfo=UTC) if match else None
    except ValueError:
        return None


def durations(run: RunCase) -> Iterator[Fault]:
    """Times are positive, training is compilation and steady time together, and the time spent is the attempts', no
    less than the training's."""
    info = run.info
    for name in ("training_time", "steady_time", "spent_time"):
        if getattr(info, name) <= 0:
            yield Fault(name, f"{getattr(info, name)} s is not positive")
    if info.compile_time < 0 or not close(info.training_time, info.compile_time + info.steady_time, 1e-6):
        parts = f"{info.compile_time:.6g} s of compilation and {info.steady_time:.6g} s of steady time"
        yield Fault("compile_time", f"{parts} do not make {info.training_time:.6g} s of training")
    attempts = sum(attempt.seconds for attempt in info.attempts)
    if info.attempts and not close(info.spent_time, attempts, 1e-6):
        yield Fault("spent_time", f"{info.spent_time:.6g} s; the attempts took {attempts:.6g} s")
    elif info.spent_time < info.training_time * (1 - CLOSE):
        yield Fault("spent_time", f"{info.spent_time:.6g} s, less than the {info.training_time:.6g} s of training")


def throughput(run: RunCase) -> Iterator[Fault]:
    """Tokens per second are the tokens over the steady time."""
    info = run.info
    expected = info.total_tokens / info.steady_time if info.steady_time > 0 else None
    if expected is not None and (info.tokens_per_second is None or not close(info.tokens_per_second, expected)):
        yield Fault("tokens_per_second", f"{show(info.tokens_per_second)}; tokens and time make it {expected:.8g}")


def _moments(run: RunCase) -> list[tuple[str, str]]:
    started = [(f"attempts[{at}].started", attempt.started) for at, attempt in enumerate(run.info.attempts)]
    return [*started, ("run_completion_timestamp", run.info.run_completion_timestamp)]


def timestamps(run: RunCase) -> Iterator[Fault]:
    """Moments are real, written as "YYYY-MM-DD HH:MM:SS UTC", and neither in the future nor before there were such
    records."""
    for name, text in _moments(run):
        when = moment(text)
        if when is None:
            yield Fault(name, f'{show(text)} is no moment of the form "2026-01-31 23:59:59 UTC"')
        elif when < EARLIEST:
            yield Fault(name, f"{text} is before there were such records")
        elif when > run.world.now + timedelta(days=1):
            yield Fault(name, f"{text} is in the future")


def time_order(run: RunCase) -> Iterator[Fault]:
    """Attempts start one after another, and the record is complete after the last has started."""
    known = [(name, when) for name, text in _moments(run) if (when := moment(text)) is not None]
    for (_, before), (name, after) in pairwise(known):
        if after < before:
            yield Fault(name, f"{after:%Y-%m-%d %H:%M:%S} UTC is before {before:%Y-%m-%d %H:%M:%S} UTC")


def wall_clock(run: RunCase) -> Iterator[Fault]:
    """No attempt's steps took longer than there was time until the next one, or until the record was complete."""
    moments = [moment(text) for _, text in _moments(run)]
    for at, attempt in enumerate(run.info.attempts):
        start, end = moments[at], moments[at + 1]
        if start is None or end is None or end < start:
            continue
        there_was = (end - start + CLOCK_SLACK).total_seconds() * (1 + CLOCK_DRIFT)
        if attempt.seconds > there_was:
            yield Fault(
                f"attempts[{at}].seconds",
                f"{attempt.seconds:.6g} s of steps between moments {(end - start).total_seconds():.0f} s apart",
            )


def attempts(run: RunCase) -> Iterator[Fault]:
    """Attempts are numbered from 1 and together train every step: the first begins at step 0, none leaves a gap, and
    the last ends at the recipe's last step."""
    listed, count = run.info.attempts, steps(run.info)
    if [attempt.number for attempt in listed] != list(range(1, len(listed) + 1)) or not listed:
        yield Fault("attempts", f"they are numbered {show([attempt.number for attempt in listed])}, not 1, 2, ...")
        return
    reached = -1
    for at, attempt in enumerate(listed):
        first, last = attempt.first_step, attempt.last_step
        if first is None and last is None:
            continue
        if first is None or last is None or first < 0 or last < first:
            yield Fault(f"attempts[{at}]", f"steps {first} to {last} are none")
            return
        if first > reached + 1:
            yield Fault(f"attempts[{at}].first_step", f"it begins at {first}; only {reached + 1} steps were done")
            return
        reached = last
    if count is not None and reached != count - 1:
        yield Fault("attempts", f"the last step trained is {reached}; the recipe's is {count - 1}")


TIME_RULES: tuple[Rule[RunCase], ...] = (
    Rule("durations", Severity.ERROR, durations),
    Rule("throughput", Severity.ERROR, throughput),
    Rule("timestamps", Severity.ERROR, timestamps),
    Rule("time-order", Severity.ERROR, time_order),
    Rule("wall-clock", Severity.ERROR, wall_clock),
    Rule("attempts", Severity.ERROR, attempts),
)
