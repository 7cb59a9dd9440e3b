"""Filling a budget: the FLOPs that a recipe is charged, and the steps that its rung's budget buys."""

import bisect

from speedrun.candidate import Recipe
from speedrun.cost.conventions import TRAINING_PER_FORWARD, convention_forward_flops_per_token
from speedrun.errors import SpeedrunError
from speedrun.ladder import Rung


def charged_flops_per_token(recipe: Recipe, vocab_size: int) -> float:
    """Forward FLOPs per token that count against the budget.

    Marin's convention, from the model's config, where a trace of the model agrees with it; else what the
    trace counts (``speedrun.cost.meters``). A plain Llama is known to agree, so that it is not traced.

    Raises:
        SpeedrunError: for a model that cannot be counted in full.
    """
    if _is_plain_llama(recipe):
        flops = convention_forward_flops_per_token(
            recipe.model, vocab_size=vocab_size, sequence_length=recipe.sequence_length
        )
        assert flops is not None
        return flops
    from speedrun.cost.meters import meters_of

    return meters_of(recipe, vocab_size).charged


def tokens_trained(recipe: Recipe, steps: int) -> int:
    """Tokens in the first ``steps`` steps: the batch schedule's sum of sequences, times the length."""
    from levanter.schedule import BatchSchedule

    schedule = recipe.batch_size if isinstance(recipe.batch_size, int) else list(recipe.batch_size)
    return BatchSchedule(schedule).global_data_offset_by_step(steps) * recipe.sequence_length


def model_flops(recipe: Recipe, flops_per_token: float, steps: int) -> float:
    """Training FLOPs of ``steps`` steps at ``flops_per_token`` forward."""
    return TRAINING_PER_FORWARD * flops_per_token * tokens_trained(recipe, steps)


def steps_within(budget_flops: float, recipe: Recipe, flops_per_token: float) -> int:
    """The largest number of steps whose model FLOPs stay within the budget, whatever the batch schedule.

    Raises:
        SpeedrunError: when not even one step fits.
    """

    def cost(steps: int) -> float:
        return model_flops(recipe, flops_per_token, steps)

    upper = 1
    while cost(upper) <= budget_flops:
        upper *= 2
    steps = bisect.bisect_right(range(1, upper + 1), budget_flops, key=cost)
    if steps == 0:
        raise SpeedrunError(
            f"one step costs {cost(1):.3g} FLOPs and the budget is {budget_flops:.3g}: use a smaller model or a "
            "smaller batch"
        )
    return steps


def with_steps(recipe: Recipe, rung: Rung, flops_per_token: float) -> Recipe:
    """``recipe`` with its steps filled in: as written, or as many as the budget of ``rung`` buys.

    Raises:
        SpeedrunError: when not even one step fits, or the steps as written exceed the budget.
    """
    fit = steps_within(rung.budget_flops, recipe, flops_per_token)
    if recipe.steps is None:
        return recipe.replace(steps=fit)
    if recipe.steps < 1:
        raise SpeedrunError(f"a recipe needs at least one step, got {recipe.steps}")
    if recipe.steps > fit:
        spent = model_flops(recipe, flops_per_token, recipe.steps)
        raise SpeedrunError(
            f"{recipe.steps} steps cost {spent:.4g} model FLOPs, {spent / rung.budget_flops:.1%} of {rung.name}'s "
            f"budget of {rung.budget_flops:.4g}; {fit} steps fit"
        )
    return recipe


def _is_plain_llama(recipe: Recipe) -> bool:
    """Whether the model is Levanter's Llama as such, with the head size that its formula assumes."""
    from levanter.models.llama import LlamaConfig

    model = recipe.model
    return type(model) is LlamaConfig and model.head_dim in (None, model.hidden_dim // model.num_heads)
