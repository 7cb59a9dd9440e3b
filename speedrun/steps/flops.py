"""What a record says of a recipe's FLOPs and parameters, beyond what was charged."""

from dataclasses import dataclass

from speedrun.candidate import Recipe
from speedrun.cost.meters import Meters, meters_of
from speedrun.records.schema import FlopsInfo


@dataclass(frozen=True)
class Counted:
    """What the meters say of a recipe, as its record holds it."""

    flops: FlopsInfo
    non_embedding_parameters: int | None = None
    active_parameters: int | None = None


def count_recipe(recipe: Recipe, vocab_size: int) -> Counted:
    """Read all meters of ``recipe``. Never raises: the run has been trained, and its record must not be lost."""
    try:
        meters = meters_of(recipe, vocab_size)
    except Exception as error:
        figures = FlopsInfo.model_fields.keys() - {"unknown"}
        return Counted(_flops_info(dict.fromkeys(figures), dict.fromkeys(figures, str(error))))
    parameters = meters.traced.parameters
    return Counted(_flops_of(meters), parameters.non_embedding, parameters.active)


def _flops_of(meters: Meters) -> FlopsInfo:
    traced = meters.traced
    forward, optimizer = traced.forward_flops_per_token, traced.excess.optimizer
    no_formula = f"{meters.config_name} has no formula"
    no_attention = f"{meters.config_name} does not say how many layers and heads it has"
    figures = {
        "convention_forward_flops_per_token": meters.convention,
        "causal_forward_flops_per_token": meters.causal,
        "traced_forward_flops_per_token": None if traced.is_lower_bound else forward,
        "optimizer_flops_per_step": None if traced.optimizer_uncounted else optimizer,
    }
    reasons = {
        "convention_forward_flops_per_token": no_formula,
        "causal_forward_flops_per_token": no_formula if meters.convention is None else no_attention,
        "traced_forward_flops_per_token": f"at least {forward:.6g}: {'; '.join(traced.uncounted)}",
        "optimizer_flops_per_step": f"at least {optimizer:.6g}: {'; '.join(traced.optimizer_uncounted)}",
    }
    return _flops_info(figures, reasons)


def _flops_info(figures: dict[str, float | None], reasons: dict[str, str]) -> FlopsInfo:
    return FlopsInfo(**figures, unknown={name: reasons[name] for name, value in figures.items() if value is None})
