"""The three FLOPs meters side by side, and which of them a run is charged by.

All figures are forward FLOPs per token; training is three times that.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

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


COUNTED_AS = {"windows": "sliding windows counted as such", "causal": "attention counted causally"}


@dataclass(frozen=True)
class Formula:
    """A config's own formula beside the trace, both counting attention in the same way."""

    flops: float
    """What the formula says."""
    counting: conventions.Counting
    """How the formula counts attention, as far as the trace tells: a way in which the two agree, else everything."""
    softmax: float
    """The part of it that is no matrix multiplication, and so is in no trace."""
    traced: float
    """What the trace says, with attention counted in that way."""

    @property
    def over_trace(self) -> float:
        """How far the formula is from the trace: -0.18 where it is 18 % low, 0 where the trace lies between the
        formula with and without its softmax term."""
        nearest = min(max(self.traced, self.flops - self.softmax), self.flops)
        return nearest / self.traced - 1

    @property
    def agrees(self) -> bool:
        """Whether the two say the same, if both count attention in one way."""
        return abs(self.over_trace) <= AGREEMENT


@dataclass(frozen=True)
class Meters:
    """What each meter says of one workload."""

    config_name: str
    formula: Formula | None
    """None where the config has no formula."""
    causal: float | None
    """The convention with causal attention counted half, and windows as such."""
    traced: Traced

    @property
    def convention(self) -> float | None:
        """Marin's convention, full attention, as far as the config's own formula follows it."""
        return None if self.formula is None else self.formula.flops

    @property
    def charged_by(self) -> Literal["convention", "trace"]:
        """The meter that counts against the budget: the convention where the trace agrees with it. A formula that
        leaves masked positions out is another convention, in which nobody else is charged."""
        formula = self.formula
        return "convention" if formula and formula.agrees and formula.counting == "everything" else "trace"

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
        """A sentence on the config's formula where it is not what is charged, else empty."""
        formula = self.formula
        if formula is None or self.charged_by == "convention" or self.traced.is_lower_bound:
            return ""
        says = f"{self.config_name}.flops_per_token says {formula.flops / 1e6:.2f} million forward FLOPs a token"
        whole = f"{self.traced.forward_flops_per_token / 1e6:.2f} million"
        if formula.agrees:
            return (
                f"{says}, which is what the model computes with {COUNTED_AS[formula.counting]}. The budget counts "
                f"every position for everybody, so the trace is charged: {whole}"
            )
        gap = formula.over_trace
        return (
            f"{says} and the model computes {whole}: the formula is {abs(gap):.1%} {'low' if gap < 0 else 'high'}, "
            "and the trace is charged"
        )


def measure(workload: Workload) -> Meters:
    """Read all three meters.

    Raises:
        SpeedrunError: when the model cannot be built or traced.
    """
    model = workload.model
    sizes = {"vocab_size": workload.vocab_size, "sequence_length": workload.sequence_length}
    convention = conventions.convention_forward_flops_per_token(model, **sizes)
    traced = trace(workload)
    formula, causal = None, None
    if convention is not None:
        formula = _formula(workload, convention, traced.forward_flops_per_token)
        causal = conventions.causal_forward_flops_per_token(model, **sizes, counting=formula.counting)
    return Meters(type(model).__qualname__, formula, causal, traced)


def _formula(workload: Workload, flops: float, traced: float) -> Formula:
    """The config's formula, read as counting attention in the first way in which the trace agrees with it."""
    model, length = workload.model, workload.sequence_length
    shape = conventions.attention_shape(model)
    if shape is None:
        return Formula(flops, "everything", 0.0, traced)
    width, heads, layers = shape
    windows = conventions.declared_windows(model)
    # The trace computes every score; a head may be wider than the formula thinks.
    a_position = 4 * heads * (getattr(model, "head_dim", None) or width / heads)

    def counted(counting: conventions.Counting) -> Formula:
        spans = conventions.counted_spans(counting, num_layers=layers, sequence_length=length, windows=windows)
        left_out = a_position * (layers * length - sum(spans))
        return Formula(flops, counting, conventions.softmax_flops_per_token(heads, spans), traced - left_out)

    found = [counted(counting) for counting in get_args(conventions.Counting)]
    return next((formula for formula in found if formula.agrees), found[0])


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
