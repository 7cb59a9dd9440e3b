"""Preregistration: hypothesis, metric and decision rule, written down before anything runs.

The recipe's fingerprint needs the candidate and marin's steps (seconds to import); everything else is told from
records and text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from speedrun.candidate import Candidate
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec
from speedrun.identity import computing_versions
from speedrun.ladder import Rung
from speedrun.project import Project
from speedrun.records.preregistrations import Plan, PlannedRung, sealed
from speedrun.records.schema import utc_now
from speedrun.submission.recipes import Changed, changes_markdown, recipe_changes, settings

if TYPE_CHECKING:
    from speedrun.steps.dag import RunDag

FIRST_SEED = 42
STOPPING_RULE = (
    "Every seed listed above is run to its last step, and none is added after a result was seen. A run ends early only "
    "when its loss is no longer finite, which counts as a failed run and is listed; one that a machine interrupts goes "
    "on from its checkpoint. All results are reported, whatever they are."
)


@dataclass(frozen=True)
class Terms:
    """What the author promises beyond the recipe."""

    rungs: Sequence[Rung]
    seeds: int
    hardware: HardwareSpec
    expected_gain: float | None
    """Speedup minus 1."""
    smallest_gain: float
    """Speedup minus 1."""
    stopping: str = STOPPING_RULE


def parse_gain(text: str, option: str) -> float:
    """A gain in compute: ``5%`` or ``0.05``.

    Raises:
        SpeedrunError: for anything else, or a gain that is not positive.
    """
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 100:
        raise SpeedrunError(f"{option} {text}: write a gain in compute such as 5% or 0.05")
    return value


def preregistration(project: Project, name: str, terms: Terms, issue: int | None) -> str:
    """The text of preregistrations/NAME.md. Imports the candidate, levanter and marin.

    Raises:
        SpeedrunError: for a candidate or a rung that cannot be built.
    """
    from speedrun.catalog import load_candidate
    from speedrun.steps.dag import build_dag
    from speedrun.steps.record import settings_on_record

    loaded = load_candidate(project, name)
    against = load_candidate(project, loaded.candidate.baseline)
    planned: dict[str, PlannedRung] = {}
    pairs: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    for rung in terms.rungs:
        dag = build_dag(project, loaded, rung, FIRST_SEED, terms.hardware)
        model_settings, train_settings = settings_on_record(dag.recipe)
        planned[rung.name] = _planned(dag, terms, model_settings, train_settings)
        baseline = build_dag(project, against, rung, FIRST_SEED, terms.hardware)
        pairs[rung.name] = (settings(*settings_on_record(baseline.recipe)), settings(model_settings, train_settings))
    plan = Plan(
        candidate=name,
        baseline=loaded.candidate.baseline,
        registered=utc_now(),
        source_digest=loaded.source_digest,
        expected_gain=terms.expected_gain,
        smallest_gain=terms.smallest_gain,
        hardware=str(terms.hardware),
        rungs=planned,
    )
    body = _body(project, loaded.candidate, plan, terms, recipe_changes(pairs))
    return sealed(f"Preregistration: {name}", body, issue)


def _planned(dag: "RunDag", terms: Terms, model: dict[str, Any], train: dict[str, Any]) -> PlannedRung:
    from speedrun.cost.budget import charged_flops_per_token, model_flops, tokens_trained

    assert dag.recipe.steps is not None
    per_token = charged_flops_per_token(dag.recipe, dag.data.vocab_size)
    return PlannedRung(
        recipe_fingerprint=dag.identity.fingerprint,
        model_settings=model,
        train_settings=train,
        versions=computing_versions(),
        tokens=tokens_trained(dag.recipe, dag.recipe.steps),
        model_flops=model_flops(dag.recipe, per_token, dag.recipe.steps),
        seeds=list(range(FIRST_SEED, FIRST_SEED + terms.seeds)),
    )


def _body(project: Project, candidate: Candidate, plan: Plan, terms: Terms, changes: Sequence[Changed]) -> str:
    from speedrun.board.text import Sheet, count, escape, markdown, percent, scientific
    from speedrun.submission.power_plan import cost_sheet, power_sheet

    authors = ", ".join(escape(author.name) for author in candidate.authors)
    regime = [
        (rung, count(at.tokens), scientific(at.model_flops), percent(at.model_flops / budget.budget_flops), _seeds(at))
        for (rung, at), budget in zip(plan.rungs.items(), terms.rungs, strict=True)
    ]
    expected = "none named" if plan.expected_gain is None else f"a speedup of {1 + plan.expected_gain:.3g}"
    parts = [
        f"Registered {plan.registered} by {authors}.",
        f"## Hypothesis\n\n{escape(candidate.hypothesis)}",
        changes_markdown(changes, plan.baseline, plan.candidate, f"What changes against {plan.baseline}", 2),
        markdown(Sheet("Regime", ("rung", "tokens", "model FLOPs", "of budget", "seeds"), regime)),
        f"Hardware: {plan.hardware}.",
        "## Metric\n\nBits per byte of the rung's evaluation texts (docs/scoring.md, protocol 1), mean over the seeds, "
        f"and the speedup that it means against {plan.baseline} at equal loss.",
        f"## Gain\n\nExpected: {expected}. The smallest worth having: a speedup of {1 + plan.smallest_gain:.3g}.",
        f"## Decision rule\n\n{_rule(plan, terms.rungs[-1].name)}",
        markdown(power_sheet(project, plan), 3),
        f"## Stopping rule\n\n{terms.stopping}",
        markdown(cost_sheet(project, plan, terms.hardware)),
        "## The same as data\n\nA later change of the recipe shows against this, field by field.",
        f"```json\n{json.dumps(plan.model_dump(mode='json'), indent=1, sort_keys=True)}\n```",
    ]
    return "\n\n".join(part.strip("\n") for part in parts)


def _rule(plan: Plan, top: str) -> str:
    from speedrun.scoring.power import EVIDENCE

    return (
        f"At a rung, {plan.candidate} is *better* than {plan.baseline} when the one-sided p is below {EVIDENCE:g}, "
        "*worse* when it is below that on the other side; otherwise there is *no evidence*, and that is what will be "
        f"said. It passes gate 2 when it is better at {top}, the largest rung planned. `speedrun compare "
        f"{plan.candidate}` works it out."
    )


def _seeds(rung: PlannedRung) -> str:
    return f"{len(rung.seeds)}: {', '.join(map(str, rung.seeds[:8]))}{', ...' if len(rung.seeds) > 8 else ''}"
