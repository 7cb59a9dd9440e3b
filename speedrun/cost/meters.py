"""The three FLOPs meters side by side, and which of them a run is charged by.

All figures are forward FLOPs per token; training is three times that.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from speedrun.cost import conventions
from speedrun.cost.trace import Traced, trace
from speedrun.cost.workload import Workload, workload_of
from speedrun.errors import SpeedrunError
from speedrun.identity import recipe_fingerprint

if TYPE_CHECKING:
    from speedrun.candidate import Recipe

AGREEMENT = 0.005
"""The convention is charged where the trace is within this fraction of it. Attention gates add 1.4 to 4.7 %
and must not pass; a router's weighted sum adds less than 0.01 % and may."""


@dataclass(frozen=True)
class Meters:
    """What each meter says of one workload."""

    config_name: str
    convention: float | None
    """Marin's convention, full attention; None where the config has no formula."""
    softmax: float
    """The part of the convention that is no matrix multiplication, and so is in no trace."""
    causal: float | None
    """The convention with causal attention counted half, and windows as such."""
    traced: Traced

    @property
    def formula_over_trace(self) -> float | None:
        """How far the config's formula is from the trace: -0.18 where it is 18 % low, 0 where the trace lies
        between the convention with and without its softmax term.
        """
        if self.convention is None:
            return None
        traced = self.traced.forward_flops_per_token
        nearest = min(max(traced, self.convention - self.softmax), self.convention)
        return nearest / traced - 1

    @property
    def charged_by(self) -> Literal["convention", "trace"]:
        """The meter that counts against the budget: the convention where the trace agrees with it."""
        gap = self.formula_over_trace
        return "convention" if gap is not None and abs(gap) <= AGREEMENT else "trace"

    @property
    def charged(self) -> float:
        """Forward FLOPs per token that count against the budget.

        Raises:
            SpeedrunError: where the forward pass could not be counted in full. A lower bound is no price.
        """
        if self.traced.is_lower_bound:
            raise SpeedrunError(
                f"the FLOPs of {self.config_name} are at least {self.traced.forward_flops_per_token / 1e6:.2f} million "
                f"a token forward, but cannot be counted: {'; '.join(self.traced.uncounted)}. Give a kernel a "
                "cost_estimate, or the model a path in plain jax"
            )
        if self.charged_by == "convention":
            assert self.convention is not None
            return self.convention
        return self.traced.forward_flops_per_token

    @property
    def disagreement(self) -> str:
        """A sentence on the config's formula where the trace contradicts it, else empty."""
        gap = self.formula_over_trace
        if gap is None or abs(gap) <= AGREEMENT or self.traced.is_lower_bound:
            return ""
        assert self.convention is not None
        return (
            f"{self.config_name}.flops_per_token says {self.convention / 1e6:.2f} million forward FLOPs a token and "
            f"the model computes {self.traced.forward_flops_per_token / 1e6:.2f} million: the formula is "
            f"{abs(gap):.1%} {'low' if gap < 0 else 'high'}, and the trace is charged"
        )


def measure(workload: Workload, windows: list[int | None] | None = None) -> Meters:
    """Read all three meters.

    Args:
        windows: the window that each layer really attends, for the causal meter; by default what the config
            declares.

    Raises:
        SpeedrunError: when the model cannot be built or traced.
    """
    model, length = workload.model, workload.sequence_length
    heads, layers = getattr(model, "num_heads", 0), getattr(model, "num_layers", 0)
    sizes = {"vocab_size": workload.vocab_size, "sequence_length": length}
    return Meters(
        config_name=type(model).__qualname__,
        convention=conventions.convention_forward_flops_per_token(model, **sizes),
        softmax=conventions.softmax_flops_per_token(num_heads=heads, num_layers=layers, sequence_length=length),
        causal=conventions.causal_forward_flops_per_token(model, **sizes, windows=windows),
        traced=trace(workload),
    )


_READ: dict[str, Meters] = {}
"""Meters by recipe and vocabulary, as far as read in this process."""


def meters_of(recipe: "Recipe", vocab_size: int) -> Meters:
    """All three meters of ``recipe``, read once for all its seeds: it takes a trace.

    Raises:
        SpeedrunError: when the model cannot be built or traced.
    """
    # Steps change no meter, and are filled in only after the budget's has been read.
    key = f"{recipe_fingerprint(recipe.replace(steps=None))}-{vocab_size}"
    if key not in _READ:
        _READ[key] = measure(workload_of(recipe, vocab_size))
    return _READ[key]
