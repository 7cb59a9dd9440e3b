"""Which positions each layer really attends to, found by asking the derivatives.

A window that a config declares and the model never reads, or that one attention backend applies and another
does not, becomes full attention without a word. So a narrow version of the model, with the real number of
layers, length and windows, is run on random weights, and the derivative of each layer's output at the last
position with respect to its input says how far back that layer looks. A masked position has a derivative of
exactly zero.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest import mock

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from haliax.nn.scan import BlockSeq, Stacked
from levanter.layers import attention
from levanter.layers.attention import AttentionBackend, AttentionMask
from levanter.models.lm_model import split_activations
from levanter.optim.config import AdamConfig
from levanter.utils.jax_utils import is_inexact_arrayish

from speedrun.cost import abstract
from speedrun.cost.conventions import declared_windows, linear_layers
from speedrun.cost.kernels import with_open_attention
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError, in_one_line

LARGEST_PROBED = 50_000_000
"""Parameters of the largest model that is probed as it is when it cannot be made narrower."""

SHORTEST_PROBE = 512
"""Tokens. A window wider than that, in a model whose config declares none, is seen as full attention."""

_NARROW = {
    "hidden_dim": 32,
    "intermediate_dim": 32,
    "moe_intermediate_dim": 16,
    "shared_expert_intermediate_dim": 16,
    "num_heads": 2,
    "head_dim": 16,
}


@dataclass(frozen=True)
class AttentionSpans:
    """How far back a model looks."""

    length: int
    """Tokens in the sequence that was probed: the whole of it, or as much as tells windows from full attention."""
    backend: str
    """The attention backend that was probed, where the model leaves it open."""
    layers: tuple[int, ...] | None
    """For each layer, the number of positions from the last one to the earliest that it looks at. ``length``
    is full attention, 1 is none. None where the model does not run its layers through haliax."""
    model: int
    """The same for the whole model, all layers together."""
    sees_the_future: bool
    """Whether some position depends on a later one: then the model cheats."""

    @property
    def windows(self) -> list[int | None] | None:
        """What the layers do, in the words of a config: None for a layer that sees all earlier positions."""
        if self.layers is None:
            return None
        return [None if span >= self.length else span for span in self.layers]


def probe_attention(workload: Workload, backend: str = AttentionBackend.VANILLA) -> AttentionSpans:
    """Find how far back each layer of the model looks.

    Args:
        backend: attention backend where the model leaves it open; "vanilla" and "jax_flash" run anywhere.

    Raises:
        SpeedrunError: when the model cannot be run, or is large and cannot be made narrower.
    """
    length = _probed_length(workload)
    # One token more than positions, so that every position has a token, and an embedding, of its own.
    narrow = dataclasses.replace(
        _narrowed(workload),
        sequence_length=length,
        vocab_size=length + 1,
        batch_size=1,
        optimizer=AdamConfig(),
        precision="f32",
    )
    with (
        mock.patch.object(attention, "default_attention_type", lambda: AttentionBackend(backend)),
        abstract.trainer_for(narrow),
    ):
        try:
            model = _randomised(_build(narrow))
            layers = _layer_spans(model, length)
            reach = _model_reach(model, length)
            whole = _span(reach(length - 1), length - 1)
            sees_the_future = bool(reach(length // 2)[length // 2 + 1 :].any())
        except Exception as error:
            raise SpeedrunError(
                f"{type(workload.model).__name__} cannot be run to see what it attends: {in_one_line(error)}"
            ) from error
    return AttentionSpans(
        length=length,
        backend=str(backend),
        layers=layers,
        model=whole,
        sees_the_future=sees_the_future,
    )


def window_disagreements(workload: Workload, spans: AttentionSpans) -> list[str]:
    """A sentence for each group of layers that attends otherwise than the config declares.

    How far back a layer looks that keeps a state is a matter of its weights, and no disagreement.
    """
    if spans.windows is None:
        return []
    groups: dict[tuple[int | None, int | None], list[int]] = {}
    for layer, (declared, found) in enumerate(zip(declared_windows(workload.model), spans.windows, strict=True)):
        declared = None if declared is None or declared >= spans.length else declared
        if declared != found and layer not in linear_layers(workload.model):
            groups.setdefault((declared, found), []).append(layer)
    return [
        f"{_layer_list(layers)}: the config declares {_in_words(declared)} and the model attends {_in_words(found)}"
        f" (backend {spans.backend})"
        for (declared, found), layers in groups.items()
    ]


# Compiling is what a probe's time goes to, so that everything below is compiled whole and few things are.
# The compiled functions are made anew for each probe: a backend is no part of jit's key.


class _LayerCall(NamedTuple):
    """A layer, what went into it, and its other arguments."""

    block: Any
    carry: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _layer_spans(model: Any, length: int) -> tuple[int, ...] | None:
    """The span of each layer. None where what goes from layer to layer is not one array with positions."""
    calls: list[_LayerCall] = []
    with _layers_recorded(calls):
        _run(model, length)
    if not calls or not all(isinstance(c.carry, hax.NamedArray) and c.carry.has_axis("position") for c in calls):
        return None

    @eqx.filter_jit
    def gradient(call: _LayerCall) -> hax.NamedArray:
        def last_output(x: hax.NamedArray) -> jax.Array:
            out = call.block(x, *call.args, **call.kwargs)
            return _scalar_at(out[0] if isinstance(out, tuple) else out, length - 1)

        return jax.grad(last_output)(call.carry)

    return tuple(_span(_reached(gradient(call), "position"), length - 1) for call in calls)


@contextlib.contextmanager
def _layers_recorded(calls: list[_LayerCall]) -> Iterator[None]:
    """Within, stacks of layers run one layer after the other, and each call is put into ``calls``."""
    apply = eqx.filter_jit(lambda block, carry, args, kwargs: block(carry, *args, **kwargs))

    def recorded(block: Any) -> Callable[..., Any]:
        def call(carry: Any, *args: Any, **kwargs: Any) -> Any:
            calls.append(_LayerCall(block, carry, args, kwargs))
            return apply(block, carry, args, kwargs)

        return call

    def one_by_one(method: str) -> Callable[..., Any]:
        original = getattr(BlockSeq, method)

        def run(self: Any, init: Any, *args: Any, **kwargs: Any) -> Any:
            blocks = [recorded(block) for block in self.unstacked()]
            return original(BlockSeq(blocks, self.Block, self.gradient_checkpointing), init, *args, **kwargs)

        return run

    with contextlib.ExitStack() as patches:
        for stack in (Stacked, BlockSeq):
            for method in ("fold", "scan"):
                patches.enter_context(mock.patch.object(stack, method, one_by_one(method)))
        yield


def _model_reach(model: Any, length: int) -> Callable[[int], np.ndarray]:
    """A function that says of the activation at a position which positions' embeddings it depends on."""
    gradient = eqx.filter_jit(lambda m, at: eqx.filter_grad(lambda m: _scalar_at(_run(m, length), at))(m))

    def reach(at: int) -> np.ndarray:
        reached = np.zeros(length + 1, bool)
        for leaf in jax.tree.leaves(gradient(model, jnp.int32(at)), is_leaf=_is_named):
            if isinstance(leaf, hax.NamedArray):
                if leaf.has_axis("vocab"):
                    reached |= _reached(leaf, "vocab")
            elif length + 1 in leaf.shape:
                of_token = np.moveaxis(np.asarray(leaf), leaf.shape.index(length + 1), 0)
                reached |= (of_token != 0).reshape(length + 1, -1).any(axis=1)
        return reached[:length]

    return reach


def _build(workload: Workload) -> Any:
    vocabulary = hax.Axis("vocab", workload.vocab_size)
    return eqx.filter_jit(lambda key: workload.model.build(vocabulary, key=key))(jax.random.PRNGKey(0))


def _randomised(model: Any) -> Any:
    """``model`` with noise on every parameter: a projection that starts at zero would hide what it attends."""
    random = np.random.default_rng(0)

    def noisy(leaf: Any) -> Any:
        if not is_inexact_arrayish(leaf):
            return leaf
        return jnp.asarray(np.asarray(leaf) + 0.1 * random.standard_normal(leaf.shape), leaf.dtype)

    return jax.tree.map(noisy, model)


def _run(model: Any, length: int) -> hax.NamedArray:
    """The model's last activations on a sequence of tokens that are all different."""
    batch, positions = hax.Axis("batch", 1), model.Pos.resize(length)
    tokens = hax.named(jnp.arange(length, dtype=jnp.int32)[None], (batch, positions))
    return split_activations(model.activations(tokens, AttentionMask.causal(), key=None))[0]


def _scalar_at(activations: hax.NamedArray, at: Any) -> jax.Array:
    """A number that depends on every channel of the activations at one position."""
    there = activations["position", at].array
    weights = np.random.default_rng(1).standard_normal(there.shape)
    return jnp.sum(there * jnp.asarray(weights, there.dtype))


def _reached(gradient: hax.NamedArray, axis: str) -> np.ndarray:
    """Which entries along ``axis`` have a derivative that is not zero."""
    index = next(i for i, each in enumerate(gradient.axes) if each.name == axis)
    moved = np.moveaxis(np.asarray(gradient.array), index, 0)
    return (moved != 0).reshape(moved.shape[0], -1).any(axis=1)


def _span(reach: np.ndarray, at: int) -> int:
    earliest = int(np.argmax(reach)) if reach.any() else at
    return at - earliest + 1


def _probed_length(workload: Workload) -> int:
    """Twice the widest window, so that a window and full attention differ; not more than is trained on."""
    widest = max((window for window in declared_windows(workload.model) if window is not None), default=0)
    return min(workload.sequence_length, max(SHORTEST_PROBE, 2 * widest))


def _narrowed(workload: Workload) -> Workload:
    """``workload`` with a model as narrow as its config lets itself be made; length and layers stay."""
    model = with_open_attention(workload.model)
    narrow = dataclasses.replace(workload, model=_with_narrow_fields(model))
    try:
        abstract.abstract_model(narrow)
        return narrow
    except Exception as error:
        as_it_is = dataclasses.replace(workload, model=model)
        leaves = jax.tree.leaves(abstract.abstract_model(as_it_is, vocab_size=1))
        size = sum(leaf.size for leaf in leaves if is_inexact_arrayish(leaf))
        if size <= LARGEST_PROBED:
            return as_it_is
        raise SpeedrunError(
            f"{type(workload.model).__name__} has {size:,} parameters beside its embeddings and cannot be made "
            f"narrower to see what it attends: {in_one_line(error)}"
        ) from error


def _with_narrow_fields(model: Any) -> Any:
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if field.name in _NARROW and isinstance(value, int):
            changes[field.name] = min(value, _NARROW[field.name])
        elif field.name == "num_kv_heads" and isinstance(value, int):
            changes[field.name] = min(2, model.num_heads) if value == model.num_heads else 1
        elif dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "hidden_dim"):
            changes[field.name] = _with_narrow_fields(value)
    return dataclasses.replace(model, **changes)


def _layer_list(layers: list[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def _in_words(window: int | None) -> str:
    return "all earlier positions" if window is None else f"a window of {window}"


def _is_named(node: Any) -> bool:
    return isinstance(node, hax.NamedArray)
