"""Rules about model FLOPs: tokens, the budget, and whether the count can be checked."""

from collections.abc import Iterator

from speedrun.cost.conventions import training_flops
from speedrun.submission.implied import LLAMA, forward_flops_per_token, model_type, parameters, steps, tokens_after
from speedrun.submission.rule import CLOSE, Fault, Rule, Severity, close, show
from speedrun.submission.subjects import RunCase

COUNTED_CLOSE = 1e-6
"""Relative difference between FLOPs per token on record and those that are counted again."""


def recipe_on_record(run: RunCase) -> Iterator[Fault]:
    """The recipe's batch (a number, or a schedule that begins at step 0), sequence length and steps are on record."""
    count = steps(run.info)
    if count is None:
        yield Fault("train_config.steps", f"{show(run.info.train_config.get('steps'))} is no number of steps")
    elif tokens_after(run.info, count) is None:
        yield Fault("train_config", "batch_size and sequence_length do not say how many tokens a step has")


def tokens(run: RunCase) -> Iterator[Fault]:
    """Tokens are the batch schedule's sum of sequences, times the length."""
    count = steps(run.info)
    expected = None if count is None else tokens_after(run.info, count)
    if expected is not None and expected != run.info.total_tokens:
        yield Fault("total_tokens", f"{run.info.total_tokens:,}; batch, length and steps make it {expected:,}")


def model_flops(run: RunCase) -> Iterator[Fault]:
    """Model FLOPs are three times the forward FLOPs per token, times the tokens."""
    info = run.info
    expected = training_flops(info.model_flops_per_token, info.total_tokens)
    if not close(info.model_flops, expected):
        yield Fault("model_flops", f"{info.model_flops:.6g}; FLOPs per token and tokens make it {expected:.6g}")


def flops_per_token(run: RunCase) -> Iterator[Fault]:
    """FLOPs per token are what Marin's convention gives for the recorded model; where the convention does not cover it,
    or a trace contradicts it, what ``speedrun check`` counted. A plain Llama's are the convention's."""
    recorded, by_convention = run.info.model_flops_per_token, forward_flops_per_token(run.info)
    counted = None if model_type(run.info) == LLAMA else counted_flops_per_token(run)
    known = [value for value in (by_convention, counted) if value is not None]
    if known and not any(close(recorded, value, COUNTED_CLOSE) for value in known):
        said = [f"by Marin's convention the model has {by_convention:.8g}"] if by_convention is not None else []
        said += [f"`speedrun check` counted {counted:.8g}"] if counted is not None else []
        yield Fault("model_flops_per_token", f"{recorded:.8g}; {', and '.join(said)}")


def flops_verified(run: RunCase) -> Iterator[Fault]:
    """Whether the FLOPs can be checked: by the convention, or by what ``speedrun check --json`` counted."""
    # Seeds share their recipe: once a record is enough.
    if run.index == 0 and forward_flops_per_token(run.info) is None and counted_flops_per_token(run) is None:
        kind = show(model_type(run.info))
        yield Fault("model_flops_per_token", f"FLOPs unverified: no formula for {kind}, and no check.json")


def counted_flops_per_token(run: RunCase) -> float | None:
    """Forward FLOPs per token that ``speedrun check`` counted for the rung, if its result is kept here and is of this
    recipe."""
    result = run.world.check_result(run.folder.candidate)
    rungs = result.get("rungs") if isinstance(result, dict) else None
    if not isinstance(rungs, list) or result.get("source_digest") != run.info.source_digest:
        return None
    for rung in rungs:
        if isinstance(rung, dict) and rung.get("rung") == run.info.rung:
            value = rung.get("forward_flops_per_token")
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return float(value)
    return None


def rung_budget(run: RunCase) -> Iterator[Fault]:
    """The budget on record is the rung's."""
    if not close(run.info.budget_flops, run.rung.budget_flops):
        yield Fault("budget_flops", f"{run.info.budget_flops:.6g}; the ladder gives {run.rung.budget_flops:.6g}")


def within_budget(run: RunCase) -> Iterator[Fault]:
    """Model FLOPs are within the rung's budget."""
    budget = run.rung.budget_flops
    if run.info.model_flops > budget * (1 + CLOSE):
        yield Fault("model_flops", f"{run.info.model_flops:.6g} is over the budget of {budget:.6g}")


def positive(run: RunCase) -> Iterator[Fault]:
    """Counts and FLOPs are positive."""
    for name in ("model_size", "total_tokens", "model_flops", "model_flops_per_token"):
        if getattr(run.info, name) <= 0:
            yield Fault(name, f"{getattr(run.info, name)} is not positive")


def model_size(run: RunCase) -> Iterator[Fault]:
    """The number of parameters is that of the recorded model, where it is a plain Llama."""
    expected = parameters(run.info)
    if expected is not None and expected != run.info.model_size:
        yield Fault("model_size", f"{run.info.model_size:,}; the recorded model has {expected:,} parameters")


def flops_meters(run: RunCase) -> Iterator[Fault]:
    """The FLOPs that were charged are one meter's on record, no figure is negative, and no part of the parameters is
    larger than the whole."""
    info, flops = run.info, run.info.flops
    if flops is not None:
        meters = (flops.convention_forward_flops_per_token, flops.traced_forward_flops_per_token)
        known = [value for value in meters if value is not None]
        if known and not any(close(info.model_flops_per_token, value, COUNTED_CLOSE) for value in known):
            said = " or ".join(f"{value:.8g}" for value in known)
            yield Fault("flops", f"charged are {info.model_flops_per_token:.8g}; the meters on record say {said}")
        figures = (*meters, flops.causal_forward_flops_per_token, flops.optimizer_flops_per_step)
        if any(value is not None and value < 0 for value in figures):
            yield Fault("flops", "a figure is negative")
    for name in ("non_embedding_parameters", "active_parameters"):
        value = getattr(info, name)
        if value is not None and not 0 <= value <= info.model_size:
            yield Fault(name, f"{value:,} of {info.model_size:,} parameters")


FLOPS_RULES: tuple[Rule[RunCase], ...] = (
    Rule("recipe-on-record", Severity.ERROR, recipe_on_record),
    Rule("positive", Severity.ERROR, positive),
    Rule("tokens", Severity.ERROR, tokens),
    Rule("model-flops", Severity.ERROR, model_flops),
    Rule("flops-per-token", Severity.ERROR, flops_per_token),
    Rule("flops-verified", Severity.NOTE, flops_verified),
    Rule("flops-meters", Severity.ERROR, flops_meters),
    Rule("rung-budget", Severity.ERROR, rung_budget),
    Rule("within-budget", Severity.ERROR, within_budget),
    Rule("model-size", Severity.ERROR, model_size),
)
