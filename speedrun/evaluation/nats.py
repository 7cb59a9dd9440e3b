"""Nats of given tokens under a model, from its logits: the only place where the score asks a model anything.

The harness does its own log-softmax, in float32 and with matrix products at the highest precision. The
vocabulary is gone through in blocks, so that the logits of 128,256 tokens at 4,096 positions never stand in
memory at once.
"""

from collections.abc import Callable
from typing import Any

import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from haliax.partitioning import ResourceMapping, physical_axis_size
from levanter.layers.attention import AttentionMask
from levanter.models.lm_model import LmHeadModel, split_activations
from levanter.utils.tree_utils import inference_mode

from speedrun.errors import SpeedrunError

VOCABULARY_BLOCK = 8192
"""Tokens of the vocabulary whose logits stand in memory at a time."""

NatsFunction = Callable[..., np.ndarray]
"""(inputs, targets, segments=None), each rows x length, to the nats of each target: float64, rows x length.

``segments`` numbers the documents of a packed row: no position may see another segment's.
"""


def nats_function(
    model: LmHeadModel, *, mapping: ResourceMapping | None = None, block: int = VOCABULARY_BLOCK
) -> NatsFunction:
    """What ``model`` gives to tokens, as a function.

    Args:
        mapping: Haliax axes to axes of the device mesh, by which rows are spread over devices. One by default.
        block: tokens of the vocabulary at a time; see ``VOCABULARY_BLOCK``.

    Raises:
        SpeedrunError: when the model's logits are not what its loss trains.
    """
    model = inference_mode(model, True)
    devices = 1 if mapping is None else physical_axis_size("batch", mapping) or 1
    in_blocks = _is_activations_times_head(model)

    @hax.named_jit(axis_resources=mapping)
    def nats(model: LmHeadModel, inputs: Any, targets: Any, segments: Any) -> jax.Array:
        axes = (hax.Axis("batch", inputs.shape[0]), model.Pos.resize(inputs.shape[1]))
        tokens = _spread(hax.named(inputs, axes), mapping)
        mask = AttentionMask.causal()
        if segments is not None:
            mask = mask.with_segment_ids(_spread(hax.named(segments, axes), mapping))
        with jax.default_matmul_precision("highest"):
            if in_blocks:
                hidden, _ = split_activations(model.activations(tokens, mask, key=None))
                head = model.get_lm_head().rearrange((model.Embed, model.Vocab)).array
                given = _blocked_nats(hidden.rearrange((*axes, model.Embed)).array, head, targets, block)
            else:
                logits = model(tokens, mask, key=None).rearrange((*axes, model.Vocab)).array
                given = _whole_nats(logits.astype(jnp.float32), targets)
        # Each host of several needs the whole answer.
        return given if mapping is None else hax.shard(hax.named(given, ("rows", "positions")), {}).array

    def on_host(inputs: np.ndarray, targets: np.ndarray, segments: np.ndarray | None = None) -> np.ndarray:
        given = nats(model, *(None if part is None else _even(part, devices) for part in (inputs, targets, segments)))
        return np.asarray(given, dtype=np.float64)[: len(inputs)]

    return on_host


def _spread(array: hax.NamedArray, mapping: ResourceMapping | None) -> hax.NamedArray:
    return array if mapping is None else hax.shard(array, mapping)


def _even(rows: np.ndarray, devices: int) -> np.ndarray:
    """``rows`` with the last one repeated until each device has as many."""
    missing = -len(rows) % devices
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows


def _whole_nats(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """log sum exp(logits) - logits[target]."""
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def _blocked_nats(hidden: jax.Array, head: jax.Array, targets: jax.Array, block: int) -> jax.Array:
    """log sum exp(hidden @ head) - (hidden @ head)[target], float32.

    Args:
        hidden: rows x length x width.
        head: width x vocabulary.
        targets: rows x length.
    """
    vocabulary = head.shape[1]
    if block >= vocabulary:
        return _whole_nats((hidden @ head).astype(jnp.float32), targets)

    def add(carry: tuple[jax.Array, jax.Array, jax.Array], at: jax.Array) -> tuple[Any, None]:
        top, total, chosen = carry
        # The last block reaches back to be as wide as the others; what was counted before is left out.
        start = jnp.minimum(at * block, vocabulary - block)
        ids = start + jnp.arange(block)
        logits = (hidden @ jax.lax.dynamic_slice_in_dim(head, start, block, axis=1)).astype(jnp.float32)
        logits = jnp.where(ids >= at * block, logits, -jnp.inf)
        new_top = jnp.maximum(top, logits.max(axis=-1))
        total = total * jnp.exp(top - new_top) + jnp.exp(logits - new_top[..., None]).sum(axis=-1)
        place = jnp.clip(targets - start, 0, block - 1)
        here = jnp.take_along_axis(logits, place[..., None], axis=-1)[..., 0]
        is_here = (targets >= at * block) & (targets < start + block)
        return (new_top, total, jnp.where(is_here, here, chosen)), None

    zero = jnp.zeros(targets.shape, jnp.float32)
    # The lowest finite number rather than minus infinity, whose difference to itself is no number.
    first = (jnp.full_like(zero, jnp.finfo(jnp.float32).min), zero, zero)
    (top, total, chosen), _ = jax.lax.scan(add, first, jnp.arange(-(-vocabulary // block)))
    return top + jnp.log(total) - chosen


def _is_activations_times_head(model: LmHeadModel) -> bool:
    """Whether the model's logits can be had block by block: whether they are what Levanter's loss trains, as seen on
    256 tokens. A model with a loss of its own may do more, such as capping its logits.

    Raises:
        SpeedrunError: when they differ and the loss is Levanter's: then what was trained is not what would be scored.
    """
    length = min(256, model.Pos.size)
    tokens = hax.named(np.arange(length)[None] % model.Vocab.size, (hax.Axis("batch", 1), model.Pos.resize(length)))

    @hax.named_jit
    def both(model: LmHeadModel, tokens: hax.NamedArray) -> tuple[jax.Array, jax.Array]:
        with jax.default_matmul_precision("highest"):
            hidden, _ = split_activations(model.activations(tokens, AttentionMask.causal(), key=None))
            own, _ = split_activations(model(tokens, AttentionMask.causal(), key=None))
            product = hax.dot(hidden, model.get_lm_head(), axis=model.Embed)
        return own.array, product.rearrange(own.axes).array

    own, product = map(np.asarray, both(model, tokens))
    if np.allclose(own, product, rtol=1e-4, atol=1e-4, equal_nan=True):
        return True
    if type(model).compute_next_token_loss is LmHeadModel.compute_next_token_loss:
        raise SpeedrunError(
            f"{type(model).__qualname__}'s logits are not its activations times its head, which is what its loss "
            "trains: a model that changes `activations` must change `__call__` alike, or leave it to LmHeadModel"
        )
    return False
