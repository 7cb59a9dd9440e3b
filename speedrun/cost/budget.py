"""Filling a budget: the FLOPs that a recipe is charged, and the steps that its rung's budget buys."""

import bisect

from speedrun.candidate import Recipe
from speedrun.cost.conventions import TRAINING_PER_FORWARD, convention_forward_flops_per_token
from speedrun.errors import SpeedrunError
from speedrun.ladder import Rung


def forward_flops_per_token(recipe: Recipe, vocab_size: int) -> float:
    """Forward FLOPs per token that count against the budget: Marin's convention, from the model's config.

    Raises:
        SpeedrunError: for a model whose config does not say.
    """
    flops = convention_forward_flops_per_token(
        recipe.model, vocab_size=vocab_size, sequence_length=recipe.sequence_length
    )
    if flops is None:
        raise SpeedrunError(
            f"{type(recipe.model).__qualname__} has no flops_per_token, so the run cannot be held to a budget: "
            "give the config a flops_per_token(vocab_size, context_length), forward FLOPs by Marin's convention"
        )
    return flops


def tokens_trained(recipe: Recipe, steps: int) -> int:
    """Tokens in the first ``steps`` steps: the batch schedule's sum of sequences, times the length."""
    from levanter.schedule import BatchSchedule

    return BatchSchedule(recipe.batch_size).global_data_offset_by_step(steps) * recipe.sequence_length


def model_flops(recipe: Recipe, vocab_size: int, steps: int) -> float:
    """Training FLOPs of ``steps`` steps, by the budget's meter."""
    return TRAINING_PER_FORWARD * forward_flops_per_token(recipe, vocab_size) * tokens_trained(recipe, steps)


def with_steps(recipe: Recipe, rung: Rung, vocab_size: int) -> Recipe:
    """``recipe`` with its steps filled in: as written, or as many as the budget of ``rung`` buys.

    Raises:
        SpeedrunError: when not even one step fits, or the steps as written exceed the budget.
    """
    if recipe.steps is None:
        # The cost grows with every step, whatever the batch schedule.
        upper = 1
        while model_flops(recipe, vocab_size, upper) <= rung.budget_flops:
            upper *= 2
        cost = lambda steps: model_flops(recipe, vocab_size, steps)  # noqa: E731
        steps = bisect.bisect_right(range(1, upper + 1), rung.budget_flops, key=cost)
        if steps == 0:
            raise SpeedrunError(
                f"one step costs {cost(1):.3g} FLOPs and {rung.name}'s budget is {rung.budget_flops:.3g}: use a "
                "smaller model or a smaller batch"
            )
        return recipe.replace(steps=steps)
    if recipe.steps < 1:
        raise SpeedrunError(f"a recipe needs at least one step, got {recipe.steps}")
    spent = model_flops(recipe, vocab_size, recipe.steps)
    if spent > rung.budget_flops:
        fit = with_steps(recipe.replace(steps=None), rung, vocab_size).steps
        raise SpeedrunError(
            f"{recipe.steps} steps cost {spent:.4g} model FLOPs, {spent / rung.budget_flops:.1%} of {rung.name}'s "
            f"budget of {rung.budget_flops:.4g}; {fit} steps fit"
        )
    return recipe
