"""Model FLOPs in closed form: Marin's convention, and the same with attention counted causally.

Marin's convention is the one that its published speedrun rows use. Per token, forward, with d the width,
i the inner width of the gated MLP, L layers, H query heads and KV key-value heads of hd = d / H, S the
sequence length and V the vocabulary:

    L [ 2*3*d*i + 2 d (H + 2 KV) hd + 2 d^2 + (4 S d + 3 S H) ] + 2 d V

Every query is counted as attending all S positions, the softmax as three operations a score, the
embedding's lookup as nothing. Training is three times the forward pass. Source: Levanter's
``lm_flops_per_token``, after Megatron-LM (Narayanan et al. 2021, arXiv 2104.04473).

Known blind spots, which ``speedrun.cost.trace`` is there to show: a ``head_dim`` other than d / H, gates,
anything that a subclass adds. This module imports no jax.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from speedrun.errors import SpeedrunError, in_one_line

if TYPE_CHECKING:
    from speedrun.records.schema import RunInfo

TRAINING_PER_FORWARD = 3.0
"""Training FLOPs per forward FLOP: each matrix multiplication of the forward pass has two in the backward."""

_LLAMA_FORMULA = ("levanter.models.llama", "LlamaConfig.flops_per_token")


def llama_forward_flops_per_token(
    *,
    hidden_dim: int,
    intermediate_dim: int,
    num_layers: int,
    num_heads: int,
    num_kv_heads: int,
    sequence_length: int,
    vocab_size: int,
) -> float:
    """Forward FLOPs per token of a Llama by Marin's convention (see the module)."""
    head_dim = hidden_dim / num_heads
    mlp = 2 * 3 * hidden_dim * intermediate_dim
    query_key_value = 2 * hidden_dim * (num_heads + 2 * num_kv_heads) * head_dim
    output_projection = 2 * hidden_dim * hidden_dim
    attention = attention_flops_per_token(hidden_dim, num_heads, [sequence_length] * num_layers)
    return num_layers * (mlp + query_key_value + output_projection) + attention + 2 * hidden_dim * vocab_size


def attention_flops_per_token(hidden_dim: int, num_heads: int, spans: Sequence[float]) -> float:
    """FLOPs per token of scores, softmax and weighted sum over all layers, by Marin's convention.

    Args:
        spans: mean number of positions that a query attends, one figure a layer.
    """
    return sum((4 * hidden_dim + 3 * num_heads) * span for span in spans)


def softmax_flops_per_token(num_heads: int, spans: Sequence[float]) -> float:
    """The 3 S H L of Marin's convention: the only part of it that is no matrix multiplication."""
    return 3.0 * num_heads * sum(spans)


def causal_span(sequence_length: int, window: int | None = None) -> float:
    """Mean number of positions that a causal query attends: S / 2, or S_w = w - w^2 / 2S with a window of w.

    The two agree at w = S. The diagonal is counted as half, as the rule "causal attention is half" does.
    """
    if window is None or window >= sequence_length:
        return sequence_length / 2
    return window - window**2 / (2 * sequence_length)


def training_flops(forward_flops_per_token: float, tokens: int) -> float:
    """Model FLOPs of a training run."""
    return TRAINING_PER_FORWARD * forward_flops_per_token * tokens


def optimizer_share(model_flops: float, optimizer_flops: float) -> float:
    """The optimizer's part of what it and the model compute together; both of one step, or both of a run.

    What a step computes beside these two (activations again, the loss's padding) is the kernels' and the
    hardware's affair, and left out.
    """
    return optimizer_flops / (model_flops + optimizer_flops)


def recorded_optimizer_share(info: "RunInfo") -> float | None:
    """``optimizer_share`` of a run on record; None where the record does not know the optimizer's FLOPs."""
    if info.flops is None or info.flops.optimizer_flops_per_step is None:
        return None
    return optimizer_share(info.model_flops, info.flops.optimizer_flops_per_step * info.step_log.steps)


def convention_forward_flops_per_token(model: Any, *, vocab_size: int, sequence_length: int) -> float | None:
    """Forward FLOPs per token of a Levanter model config by Marin's convention.

    A config that uses Llama's own formula is counted here in closed form; any other by its
    ``flops_per_token``, which is its author's word. None where it has no formula.

    Raises:
        SpeedrunError: when the config's own formula fails or gives no positive number.
    """
    formula = getattr(type(model), "flops_per_token", None)
    if formula is None:
        return None
    if (formula.__module__, formula.__qualname__) == _LLAMA_FORMULA:
        return llama_forward_flops_per_token(
            hidden_dim=model.hidden_dim,
            intermediate_dim=model.intermediate_dim,
            num_layers=model.num_layers,
            num_heads=model.num_heads,
            num_kv_heads=model.num_kv_heads,
            sequence_length=sequence_length,
            vocab_size=vocab_size,
        )
    name = type(model).__qualname__
    try:
        flops = model.flops_per_token(vocab_size, sequence_length)
    except Exception as error:
        raise SpeedrunError(f"{name}.flops_per_token raised {in_one_line(error)}") from error
    if flops is None:
        return None
    if not isinstance(flops, int | float) or not flops > 0:
        raise SpeedrunError(f"{name}.flops_per_token returned {flops!r}: it must be a positive number, or None")
    return float(flops)


Counting = Literal["everything", "windows", "causal"]
"""What a formula counts a query as attending: all S positions, as Marin's convention does; no more than its
layer's window; or causally, half of that."""


def counted_spans(
    counting: Counting, *, num_layers: int, sequence_length: int, windows: Sequence[int | None]
) -> list[float]:
    """Mean number of positions that a query attends in each layer, counted in one of the ways that formulas have."""
    if counting == "everything":
        return [sequence_length] * num_layers
    if counting == "windows":
        return [min(window or sequence_length, sequence_length) for window in windows]
    return [causal_span(sequence_length, window) for window in windows]


def attention_shape(model: Any) -> tuple[int, int, int] | None:
    """(width, heads, layers) of a config; None where it lacks the fields that say how large its attention is."""
    shape = [getattr(model, name, None) for name in ("hidden_dim", "num_heads", "num_layers")]
    if not all(isinstance(value, int) and value > 0 for value in shape):
        return None
    return shape[0], shape[1], shape[2]


def causal_forward_flops_per_token(
    model: Any, *, vocab_size: int, sequence_length: int, counting: Counting = "everything"
) -> float | None:
    """Marin's convention with attention counted causally: half, or the window where a layer declares one.

    Args:
        counting: what the config's own formula already counts (``speedrun.cost.meters`` finds out).

    Returns:
        None where the config has no formula, or none of the fields that say how large its attention is.
    """
    whole = convention_forward_flops_per_token(model, vocab_size=vocab_size, sequence_length=sequence_length)
    shape = attention_shape(model)
    if whole is None or shape is None:
        return None
    hidden_dim, num_heads, num_layers = shape
    sizes = {"num_layers": num_layers, "sequence_length": sequence_length, "windows": declared_windows(model)}
    counted, causal = counted_spans(counting, **sizes), counted_spans("causal", **sizes)
    hidden = [have - want for have, want in zip(counted, causal, strict=True)]
    return whole - attention_flops_per_token(hidden_dim, num_heads, hidden)


def linear_layers(model: Any) -> frozenset[int]:
    """The layers that a Levanter config declares to keep a state instead of attending: they have no window to hold."""
    kinds = model.get_layer_types() if hasattr(model, "get_layer_types") else ()
    return frozenset(at for at, kind in enumerate(kinds) if kind == "linear_attention")


def declared_windows(model: Any) -> list[int | None]:
    """The attention window of each layer that a Levanter config declares; None means all earlier positions.

    What a config declares and what the model does are two things: Levanter's Mistral and Gemma 2 carry a
    ``sliding_window`` that their layers never read.
    """
    num_layers = getattr(model, "num_layers", 0)
    window = getattr(model, "sliding_window", None)
    if window is None or getattr(model, "use_sliding_window", True) is False:
        return [None] * num_layers
    if hasattr(model, "get_layer_types"):
        kinds = model.get_layer_types()
        if len(kinds) != num_layers:
            raise SpeedrunError(f"{type(model).__qualname__} has {num_layers} layers and types for {len(kinds)}")
        return [window if kind == "sliding_attention" else None for kind in kinds]
    return [window] * num_layers
