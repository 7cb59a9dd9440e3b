"""Steps follow from the budget: the reference recipes' known counts, schedules, and refusals."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from levanter.schedule import ScheduleStep

from speedrun import LADDER, reference
from speedrun.cost.budget import charged_flops_per_token, model_flops, tokens_trained, with_steps
from speedrun.errors import SpeedrunError


def filled(recipe, rung):
    return with_steps(recipe, rung, charged_flops_per_token(recipe, rung.vocab_size))


def spent(recipe, rung, steps: int) -> float:
    return model_flops(recipe, charged_flops_per_token(recipe, rung.vocab_size), steps)


@pytest.mark.parametrize(
    ("name", "steps", "tokens"),
    [("30m", 1_863, 0.98e9), ("75m", 4_802, 2.52e9), ("300m", 7_794, 8.17e9), ("1_4b", 25_985, 27.2e9)],
)
def test_reference_recipes_fill_their_budgets(name: str, steps: int, tokens: float) -> None:
    recipe = filled(reference.recipe(LADDER[name]), LADDER[name])
    assert recipe.steps == steps
    assert tokens_trained(recipe, steps) == pytest.approx(tokens, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "steps", "batch", "published"),
    [
        ("30m", 1_500, 512, 8.6953760391168e16),
        ("75m", 6_000, 512, 8.43291058765824e17),
        ("300m", 6_000, 1024, 8.313235618922496e18),
    ],
)
def test_model_flops_equal_marins_published_figures(name: str, steps: int, batch: int, published: float) -> None:
    recipe = reference.recipe(LADDER[name]).replace(batch_size=batch)
    assert spent(recipe, LADDER[name], steps) == published


@pytest.mark.parametrize("rung", [rung for rung in LADDER.values() if rung.is_micro], ids=lambda rung: rung.name)
def test_micro_recipes_stay_under_one_epoch(rung) -> None:
    recipe = filled(reference.recipe(rung), rung)
    assert recipe.steps is not None
    assert 0.95 * rung.budget_flops < spent(recipe, rung, recipe.steps) <= rung.budget_flops
    assert tokens_trained(recipe, recipe.steps) < 1.4e6


@given(st.integers(1, 50), st.integers(1, 64), st.integers(1, 64))
def test_a_batch_schedule_is_summed_step_by_step(change: int, before: int, after: int) -> None:
    schedule = [ScheduleStep(start=0, value=before), ScheduleStep(start=change, value=after)]
    recipe = reference.recipe(LADDER["micro_1"]).replace(batch_size=schedule)
    by_hand = sum((before if step < change else after) * 256 for step in range(80))
    assert tokens_trained(recipe, 80) == by_hand


def test_one_step_more_would_exceed_the_budget() -> None:
    rung = LADDER["micro_2"]
    schedule = [ScheduleStep(start=0, value=4), ScheduleStep(start=20, value=24)]
    recipe = filled(reference.recipe(rung).replace(batch_size=schedule), rung)
    assert recipe.steps is not None
    assert spent(recipe, rung, recipe.steps) <= rung.budget_flops < spent(recipe, rung, recipe.steps + 1)


def test_too_many_steps_are_refused_saying_how_many_fit() -> None:
    rung = LADDER["30m"]
    with pytest.raises(SpeedrunError, match="1863 steps fit"):
        filled(reference.recipe(rung).replace(steps=1_864), rung)


def test_a_step_that_costs_more_than_the_budget_is_refused() -> None:
    rung = LADDER["micro_1"]
    with pytest.raises(SpeedrunError, match="smaller model or a smaller batch"):
        filled(reference.recipe(rung).replace(batch_size=100_000), rung)


def test_a_larger_model_gets_fewer_steps() -> None:
    rung = LADDER["micro_1"]
    base = reference.recipe(rung)
    deeper = base.replace(model=dataclasses.replace(base.model, num_layers=8))
    assert filled(deeper, rung).steps < filled(base, rung).steps  # type: ignore[operator]
