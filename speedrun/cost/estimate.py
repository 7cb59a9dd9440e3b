"""What one rung of a candidate costs, before any accelerator is touched; kept, so that asking again is instant.

Everything that needs the model is worked out once and kept under the candidate's source digest and the
versions of the packages that decide it. What is kept is plain data: reading it imports no jax, and not the
candidate either.
"""

import importlib.metadata
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from speedrun.candidate import Recipe
from speedrun.cost.conventions import TRAINING_PER_FORWARD, optimizer_share
from speedrun.errors import SpeedrunError
from speedrun.identity import COMPUTING_PACKAGES, methods_used, sha256_of_json, source_digest, text_digest
from speedrun.ladder import Rung
from speedrun.project import Project

DATASET_TOKENS = {
    "wiki_summaries": 1_433_781,
    "wiki_summaries_quality": 1_128_726,
    "wiki_summaries_topics": 1_432_275,
    "fineweb_edu_10m": 1e7,
    "fineweb_edu_10b": 1e10,
    "fineweb_edu_100b": 1e11,
}
"""Training tokens of each data source: counted here for the summaries, as published for the samples."""


@dataclass(frozen=True)
class RungCost:
    """One rung's figures. FLOPs per token are forward; training is three times that."""

    rung: str
    model_type: str
    parameters: int
    non_embedding_parameters: int
    active_parameters: int
    lookup_parameters: int
    batch_size: int
    """The largest of the schedule."""
    sequence_length: int
    steps: int
    steps_that_fit: int
    tokens: int
    epochs: float | None
    """Passes over the training data."""
    budget_flops: float
    convention_flops_per_token: float | None
    causal_flops_per_token: float | None
    traced_flops_per_token: float
    is_lower_bound: bool
    """Whether the trace could not count everything."""
    uncounted: list[str]
    charged_by: str
    """"convention" or "trace": the meter that counts against the budget."""
    charged_flops_per_token: float
    disagreement: str
    """What the config's own formula gets wrong; empty when it agrees."""
    optimizer_flops_per_step: float
    """Matrix products of one update."""
    recomputation_flops_share: float
    """Of all FLOPs of a step, as the next one."""
    loss_excess_flops_share: float
    memory: dict[str, dict[str, int]]
    """By number of chips: bytes of parameters, optimizer state and the whole state on one chip, and the least
    that a step needs."""
    memory_problem: dict[str, str]
    """By number of chips: why it cannot be laid out."""

    @property
    def model_flops(self) -> float:
        """Training FLOPs that count against the budget."""
        return TRAINING_PER_FORWARD * self.charged_flops_per_token * self.tokens

    @property
    def optimizer_flops_share(self) -> float:
        """Of model FLOPs and the optimizer's own together, over the run."""
        return optimizer_share(self.model_flops, self.optimizer_flops_per_step * self.steps)

    @property
    def budget_used(self) -> float:
        """Fraction of the budget."""
        return self.model_flops / self.budget_flops


def rung_costs(
    project: Project,
    name: str,
    rungs: Sequence[Rung],
    chip_counts: Sequence[int],
    on_progress: Callable[[str], None] = lambda text: None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, RungCost | SpeedrunError]:
    """The cost of candidate ``name`` at each rung, from the cache where it is there.

    Args:
        chip_counts: numbers of chips for which memory per chip is wanted.
        on_progress: told what is being worked out.
        overrides: fields of the recipe that are set to something else.

    Returns:
        By rung name; an error in the place of a rung that cannot be priced.

    Raises:
        SpeedrunError: for a candidate that is unknown or cannot be loaded, or an override that does not fit the recipe.
    """
    from speedrun.catalog import load_candidate
    from speedrun.overrides import apply_overrides

    overrides = overrides or {}
    cache = _Cache(project, name, overrides)
    found: dict[str, RungCost | SpeedrunError] = {}
    loaded = None
    for rung in rungs:
        cost = cache.read(rung, chip_counts)
        if cost is None:
            on_progress(f"tracing {name} at {rung.name}")
            loaded = loaded or load_candidate(project, name)
            try:
                recipe = loaded.recipe(rung)
            except SpeedrunError as error:
                found[rung.name] = error
                continue
            recipe = apply_overrides(recipe, overrides)  # a wrong one is the caller's mistake, not the rung's
            try:
                cost = _work_out(rung, recipe, chip_counts)
            except SpeedrunError as error:
                found[rung.name] = error
                continue
            cache.write(rung, cost)
        found[rung.name] = cost
    return found


class _Cache:
    """Costs on disk, under a key that changes with whatever they follow from."""

    def __init__(self, project: Project, name: str, overrides: Mapping[str, Any]):
        from speedrun.catalog import find_candidate

        path = find_candidate(project, name).path
        package = Path(__file__).parents[1]
        own = sorted([*(package / "cost").glob("*.py"), package / "reference.py", package / "ladder.py"])
        self._key = sha256_of_json(
            [
                name,
                dict(overrides),
                source_digest(path, methods_used(path)),
                {package: importlib.metadata.version(package) for package in COMPUTING_PACKAGES},
                [text_digest(file) for file in own],
            ]
        )
        self._folder = project.work / "cache" / "cost" / self._key[:16]

    def read(self, rung: Rung, chip_counts: Sequence[int]) -> RungCost | None:
        try:
            cost = RungCost(**json.loads((self._folder / f"{rung.name}.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None
        known = cost.memory.keys() | cost.memory_problem.keys()
        return cost if all(str(count) in known for count in chip_counts) else None

    def write(self, rung: Rung, cost: RungCost) -> None:
        from speedrun.records.store import write_json_atomically

        write_json_atomically(self._folder / f"{rung.name}.json", asdict(cost))


def _work_out(rung: Rung, recipe: Recipe, chip_counts: Sequence[int]) -> RungCost:
    from speedrun.cost.budget import steps_within, tokens_trained
    from speedrun.cost.memory import estimate_memories
    from speedrun.cost.meters import measure
    from speedrun.cost.workload import workload_of

    workload = workload_of(recipe, recipe.vocab_size(rung))
    meters = measure(workload)
    charged = meters.charged
    fit = steps_within(rung.budget_flops, recipe, charged)
    steps = recipe.steps if recipe.steps is not None else fit
    traced = meters.traced
    tokens = tokens_trained(recipe, steps)
    trained_on = recipe.training_data or rung.training_data
    # The sets' sizes are in tokens of the rung's tokenizer.
    available = DATASET_TOKENS.get(trained_on) if isinstance(trained_on, str) and not recipe.tokenizer else None
    memory: dict[str, dict[str, int]] = {}
    problems: dict[str, str] = {}
    for count, estimate in estimate_memories(workload, chip_counts).items():
        if isinstance(estimate, SpeedrunError):
            problems[str(count)] = str(estimate)
            continue
        memory[str(count)] = {
            "parameters_bytes": estimate.parameters_bytes,
            "optimizer_bytes": estimate.optimizer_bytes,
            "state_bytes": estimate.state_bytes,
            "at_least_bytes": estimate.at_least_bytes,
        }
    step_flops = traced.step.flops
    excess = traced.excess
    return RungCost(
        rung=rung.name,
        model_type=meters.config_name,
        parameters=traced.parameters.total,
        non_embedding_parameters=traced.parameters.non_embedding,
        active_parameters=traced.parameters.active,
        lookup_parameters=traced.parameters.lookup,
        batch_size=workload.batch_size,
        sequence_length=workload.sequence_length,
        steps=steps,
        steps_that_fit=fit,
        tokens=tokens,
        epochs=tokens / available if available else None,
        budget_flops=rung.budget_flops,
        convention_flops_per_token=meters.convention,
        causal_flops_per_token=meters.causal,
        traced_flops_per_token=traced.forward_flops_per_token,
        is_lower_bound=traced.is_lower_bound,
        uncounted=traced.uncounted,
        charged_by=meters.charged_by,
        charged_flops_per_token=charged,
        disagreement=meters.disagreement,
        optimizer_flops_per_step=excess.optimizer,
        recomputation_flops_share=excess.recomputation / step_flops,
        loss_excess_flops_share=(excess.loss_padding + excess.loss_recomputation) / step_flops,
        memory=memory,
        memory_problem=problems,
    )


def as_json(cost: RungCost) -> dict[str, Any]:
    """A rung's cost with the figures that follow from it."""
    return asdict(cost) | {
        "model_flops": cost.model_flops,
        "budget_used": cost.budget_used,
        "optimizer_flops_share": cost.optimizer_flops_share,
    }
