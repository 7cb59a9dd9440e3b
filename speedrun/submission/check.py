"""Gate 1: does a candidate port? It builds, traces, shards and counts correctly at every rung, on a CPU.

Each line of the table is one question, one small function, and an answer with its reason. ``warn`` is for
what is worth knowing and stops nobody. Run in a process that simulates eight devices (``DEVICES``).
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from speedrun.candidate import Recipe
from speedrun.catalog import Loaded
from speedrun.errors import SpeedrunError, in_one_line
from speedrun.identity import canonical, computing_versions
from speedrun.ladder import Rung

DEVICES = 8
"""Simulated devices: what a rung's batch and length must divide by."""
FORMULA_TOLERANCE = 0.05
"""The config's own FLOPs formula may be this far from the trace before it is worth a warning."""

State = Literal["passed", "warn", "failed"]


@dataclass(frozen=True)
class Line:
    """One answer."""

    question: str
    state: State
    text: str


@dataclass(frozen=True)
class GroupRow:
    """One parameter, as the optimizer sees it."""

    path: str
    shape: tuple[int, ...]
    count: int
    group: str


@dataclass
class RungCheck:
    """What was found at one rung."""

    rung: str
    lines: list[Line]
    forward_flops_per_token: float | None = None
    """What counts against the budget."""
    groups: list[GroupRow] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(line.state != "failed" for line in self.lines)


@dataclass(frozen=True)
class CheckReport:
    """Gate 1 of a candidate."""

    candidate: str
    source_digest: str
    versions: dict[str, str]
    rungs: list[RungCheck]

    @property
    def passed(self) -> bool:
        """Whether the candidate passes gate 1 at every rung that was asked for."""
        return all(rung.passed for rung in self.rungs)

    def as_json(self) -> dict[str, Any]:
        """As ``results/<candidate>/check.json`` keeps it."""
        return {"schema_version": 1, "passed": self.passed, **asdict(self)}


class _Found(Exception):
    """A failed answer that makes the questions after it pointless."""


def check_rung(loaded: Loaded, rung: Rung) -> RungCheck:
    """Ask every question that needs no training. A question whose premise failed is not asked."""
    check = RungCheck(rung.name, [])

    def ask(question: str, answer: Callable[[], tuple[State, str]], *, premise: bool = False) -> None:
        try:
            state, text = answer()
        except SpeedrunError as error:
            state, text = "failed", str(error)
        check.lines.append(Line(question, state, text))
        if premise and state == "failed":
            raise _Found

    try:
        recipes: list[Recipe] = []
        ask("the recipe builds", lambda: _builds(loaded, rung, recipes), premise=True)
        recipe = recipes[0]
        ask("it reads the same from JSON", lambda: _round_trips(loaded, rung, recipe))
        ask("batch and length divide the mesh", lambda: _divides(recipe))
        ask(f"it traces and shards on {DEVICES} devices", lambda: _traces(recipe, rung), premise=True)
        ask("its FLOPs are counted", lambda: _counts(recipe, rung, check), premise=True)
        ask("it is within the budget", lambda: _within_budget(recipe, rung, check))
        ask("the optimizer covers its matrices", lambda: _covers(recipe, rung, check))
        ask("attention is what the config says", lambda: _attends(recipe, rung))
        if rung.name == "micro_1":
            ask("parameters are finite", lambda: _finite(recipe, rung))
    except _Found:
        pass
    return check


def report(loaded: Loaded, rungs: list[RungCheck]) -> CheckReport:
    """The report on ``rungs``."""
    return CheckReport(loaded.candidate.name, loaded.source_digest, computing_versions(), rungs)


def losses_line(losses: list[float]) -> Line:
    """Whether a short training run lowered the loss: the mean of its last steps against its first."""
    question = "a short run at micro_1 lowers the loss"
    if len(losses) < 10 or not all(map(math.isfinite, losses)):
        return Line(question, "failed", f"{len(losses)} steps with a finite loss")
    last = sum(losses[-5:]) / 5
    state: State = "passed" if last < losses[0] else "failed"
    return Line(question, state, f"{losses[0]:.3f} -> {last:.3f} nats in {len(losses)} steps")


def _builds(loaded: Loaded, rung: Rung, recipes: list[Recipe]) -> tuple[State, str]:
    recipes.append(loaded.recipe(rung))
    recipe = recipes[0]
    return "passed", f"{type(recipe.model).__name__}, {type(recipe.optimizer).__name__}"


def _round_trips(loaded: Loaded, rung: Rung, recipe: Recipe) -> tuple[State, str]:
    try:
        described = canonical(recipe)
        again = canonical(loaded.recipe(rung))
    except TypeError as error:
        return "failed", str(error)
    if json.loads(json.dumps(described)) != described:
        return "failed", "the recipe holds what JSON cannot"
    if described != again:
        return "failed", "building the recipe twice gives two recipes: something in it is random or depends on time"
    return "passed", ""


def _divides(recipe: Recipe) -> tuple[State, str]:
    from speedrun.cost.workload import largest_batch

    batch = largest_batch(recipe.batch_size)
    if recipe.sequence_length > recipe.model.max_seq_len:
        return "failed", f"length {recipe.sequence_length} exceeds the model's {recipe.model.max_seq_len}"
    if batch % DEVICES:
        return "warn", f"a batch of {batch} does not divide by {DEVICES} devices; Levanter pads it"
    return "passed", ""


def _traces(recipe: Recipe, rung: Rung) -> tuple[State, str]:
    import jax

    from speedrun.cost import abstract
    from speedrun.cost.workload import workload_of

    workload = workload_of(recipe, recipe.vocab_size(rung))
    devices = jax.devices()[:DEVICES]
    with abstract.trainer_for(workload, devices) as trainer:
        state, batch = abstract.abstract_state(trainer, workload), abstract.abstract_batch(workload, chips=len(devices))
        function, arrays = abstract.on_arrays(abstract.step_function(trainer), state, batch)
        try:
            jax.eval_shape(function, *arrays)
        except Exception as error:
            return "failed", in_one_line(error)
    return "passed", f"{len(devices)} devices"


def _counts(recipe: Recipe, rung: Rung, check: RungCheck) -> tuple[State, str]:
    from speedrun.cost.meters import measure
    from speedrun.cost.workload import workload_of

    meters = measure(workload_of(recipe, recipe.vocab_size(rung)))
    check.forward_flops_per_token = meters.charged
    text = f"{meters.charged / 1e6:,.2f} M forward FLOPs a token, by the {meters.charged_by}"
    if meters.traced.cannot_train:
        return "failed", meters.traced.cannot_train
    if meters.formula is not None and abs(meters.formula.over_trace) > FORMULA_TOLERANCE:
        return "warn", f"{text}. {meters.disagreement}"
    return "passed", f"{text}. {meters.disagreement}" if meters.disagreement else text


def _within_budget(recipe: Recipe, rung: Rung, check: RungCheck) -> tuple[State, str]:
    from speedrun.cost.budget import model_flops, with_steps

    assert check.forward_flops_per_token is not None
    filled = with_steps(recipe, rung, check.forward_flops_per_token)
    assert filled.steps is not None
    spent = model_flops(filled, check.forward_flops_per_token, filled.steps)
    return "passed", f"{filled.steps:,} steps, {spent / rung.budget_flops:.1%}"


def _covers(recipe: Recipe, rung: Rung, check: RungCheck) -> tuple[State, str]:
    from speedrun.cost.groups import matrices_left_out, optimizer_groups
    from speedrun.cost.workload import workload_of

    groups = optimizer_groups(workload_of(recipe, recipe.vocab_size(rung)))
    check.groups = [GroupRow(g.path, g.shape, g.count, g.group) for g in groups]
    names = sorted({parameter.group for parameter in groups})
    if names == [type(recipe.optimizer).__name__]:
        return "passed", "one rule for all parameters"
    hidden = [parameter for parameter in groups if parameter.is_matrix and not parameter.is_embedding]
    # All in one of several groups: whatever the group, the method is not in it.
    left_out = matrices_left_out(groups) if len(names) > 1 else hidden
    if hidden and len(left_out) == len(hidden):
        return "failed", f"the matrix optimizer covers no matrix: all {len(hidden)} are in {left_out[0].group!r}"
    if left_out:
        paths = ", ".join(parameter.path for parameter in left_out[:3])
        return "warn", f"{len(left_out)} of {len(hidden)} hidden matrices get the plain rule: {paths}"
    return "passed", f"all {len(hidden)} hidden matrices; groups {', '.join(names)}"


def _attends(recipe: Recipe, rung: Rung) -> tuple[State, str]:
    from speedrun.cost.attention import probe_attention, window_disagreements
    from speedrun.cost.conventions import linear_layers
    from speedrun.cost.workload import workload_of

    workload = workload_of(recipe, recipe.vocab_size(rung))
    spans = probe_attention(workload)
    if spans.sees_the_future:
        return "failed", "a position depends on a later one: the model sees what it is to predict"
    wrong = window_disagreements(workload, spans)
    if wrong:
        return "failed", "; ".join(wrong)
    if spans.windows is None:
        return "passed", "causal"
    linear = linear_layers(recipe.model)
    windows = [None if layer in linear else window for layer, window in enumerate(spans.windows)]
    text = f"windows {windows}" if any(windows) else "causal"
    return "passed", f"{text}; {len(linear)} of {len(windows)} layers keep a state instead" if linear else text


def _finite(recipe: Recipe, rung: Rung) -> tuple[State, str]:
    import equinox as eqx
    import haliax as hax
    import jax
    import jax.numpy as jnp

    model = recipe.model.build(hax.Axis("vocab", recipe.vocab_size(rung)), key=jax.random.PRNGKey(0))
    bad = sum(not bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
    return ("failed", f"{bad} arrays are not finite at initialisation") if bad else ("passed", "")
