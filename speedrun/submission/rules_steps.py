"""Rules about the step log: it is the one on record, whole and in order, and its figures are the record's."""

from collections.abc import Iterator

from speedrun.records.store import MAX_STEP_LOG_BYTES
from speedrun.submission.implied import batch_schedule, sequence_length, steps, tokens_after
from speedrun.submission.rule import CLOSE, Fault, Rule, Severity, show
from speedrun.submission.rules_hardware import ROUNDING_SECONDS
from speedrun.submission.step_log_file import StepLogFile
from speedrun.submission.subjects import RunCase


def _path(run: RunCase) -> str:
    return f"{run.folder.path}/steps-{run.info.seed}.jsonl.gz"


def step_log(run: RunCase) -> Iterator[Fault]:
    """The step log is there, under its name, and can be read: gzip of a line a step, each with step, loss, seconds,
    tokens and attempt."""
    name = f"steps-{run.info.seed}.jsonl.gz"
    if run.info.step_log.file != name:
        yield Fault("step_log.file", f"{show(run.info.step_log.file)}; it is called {name}")
    if run.log.problem:
        yield Fault("", run.log.problem, _path(run))


def digest(run: RunCase) -> Iterator[Fault]:
    """The step log's text has the digest that the record holds."""
    if run.log.sha256 and run.log.sha256 != run.info.step_log.sha256:
        yield Fault("step_log.sha256", f"{show(run.info.step_log.sha256)}; the file's text has {run.log.sha256}")


def length(run: RunCase) -> Iterator[Fault]:
    """The step log has every step of the recipe, or, where that would be too large a file, evenly spaced ones with
    the first and the last."""
    info, log, count = run.info, run.log, steps(run.info)
    if count is None:
        return
    if info.step_log.steps != count or not info.step_log.complete:
        yield Fault("step_log.steps", f"{info.step_log.steps} of the recipe's {count} steps were logged")
    if log.step and len(log.step) != count:
        entry = run.world.entries[_path(run)]
        if entry.size * 4 < MAX_STEP_LOG_BYTES:
            yield Fault("", f"it has {len(log.step):,} lines for {count:,} steps", _path(run))
        elif not _evenly_spaced(log, count):
            yield Fault("", "its steps are not evenly spaced from the first to the last", _path(run))


def _evenly_spaced(log: StepLogFile, count: int) -> bool:
    every = log.step[1] - log.step[0] if len(log.step) > 1 else count
    return log.step[-1] == count - 1 and log.step[:-1] == list(range(0, count - 1, every))[: len(log.step) - 1]


def order(run: RunCase) -> Iterator[Fault]:
    """Steps rise from 0 and tokens with them; seconds are positive."""
    log = run.log
    if not log.step:
        return
    if log.step[0] != 0:
        yield Fault("", f"it begins with step {log.step[0]}", _path(run))
    for name, column in (("step", log.step), ("tokens", log.tokens)):
        if any(after <= before for before, after in zip(column, column[1:], strict=False)):
            yield Fault("", f"{name} does not rise from line to line", _path(run))
    if min(log.seconds) <= 0:
        yield Fault("", f"step {log.step[log.seconds.index(min(log.seconds))]} took no time", _path(run))


def tokens(run: RunCase) -> Iterator[Fault]:
    """Each line's tokens are those of all steps up to it, by the batch schedule."""
    log, schedule, width = run.log, batch_schedule(run.info), sequence_length(run.info)
    if schedule is None or width is None:
        return
    constant = schedule[0][1] * width if len(schedule) == 1 else None
    for step, said in zip(log.step, log.tokens, strict=True):
        right = (step + 1) * constant if constant is not None else tokens_after(run.info, step + 1)
        if said != right:
            yield Fault("", f"step {step} ends at {said:,} tokens; the batch schedule makes it {right:,}", _path(run))
            return


def times(run: RunCase) -> Iterator[Fault]:
    """The seconds of all steps are the training time, and those of each attempt no more than the attempt's."""
    log, info = run.log, run.info
    if len(log.step) != info.step_log.steps:
        return
    slack = ROUNDING_SECONDS * len(log.step)
    total = sum(log.seconds)
    if abs(total - info.training_time) > slack + CLOSE * total:
        yield Fault("training_time", f"{info.training_time:.6g} s; the step log's seconds make {total:.6g} s")
    spent = dict.fromkeys(log.attempt, 0.0)
    for attempt, seconds in zip(log.attempt, log.seconds, strict=True):
        spent[attempt] += seconds
    of = {attempt.number: attempt.seconds for attempt in info.attempts}
    for attempt, seconds in spent.items():
        if attempt not in of:
            yield Fault("attempts", f"the step log has steps of attempt {attempt}, which is not listed")
        elif seconds > of[attempt] + slack:
            yield Fault("attempts", f"attempt {attempt} took {of[attempt]:.6g} s; its steps took {seconds:.6g} s")


STEP_RULES: tuple[Rule[RunCase], ...] = (
    Rule("step-log", Severity.ERROR, step_log),
    Rule("step-log-digest", Severity.ERROR, digest),
    Rule("step-log-length", Severity.ERROR, length),
    Rule("step-log-order", Severity.ERROR, order),
    Rule("step-log-tokens", Severity.ERROR, tokens),
    Rule("step-log-times", Severity.ERROR, times),
)
