"""Attention in float64 numpy, from a layer's weights: what the methods are held against."""

from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from levanter.models.llama import LlamaConfig

SHAPE = LlamaConfig(
    max_seq_len=8, hidden_dim=16, intermediate_dim=32, num_layers=2, num_heads=4, num_kv_heads=2, rope=None
)
"""Two query heads of size 4 for each key head, no positions, eight tokens."""


def layers(config: LlamaConfig, seed: int = 0) -> list[Any]:
    """The layers of a model, with random weights throughout: some start at zero, and would hide what they do."""
    return list(model(config, seed).transformer.layers.unstacked())


def model(config: LlamaConfig, seed: int = 0) -> Any:
    """A model with random weights, without compiling how it starts."""
    random = np.random.default_rng(seed)

    def filled(leaf: Any) -> Any:
        is_shape = isinstance(leaf, jax.ShapeDtypeStruct)
        return jnp.asarray(0.4 * random.standard_normal(leaf.shape), leaf.dtype) if is_shape else leaf

    shapes = eqx.filter_eval_shape(config.build, hax.Axis("vocab", 32), key=jax.random.PRNGKey(0))
    return jax.tree.map(filled, shapes)


def inputs(config: LlamaConfig, seed: int = 1) -> hax.NamedArray:
    """Random activations of one sequence."""
    return hax.random.normal(jax.random.PRNGKey(seed), (hax.Axis("batch", 1), config.max_Pos, config.Embed))


def array(named: hax.NamedArray, *axes: str) -> np.ndarray:
    """``named`` with its axes in this order."""
    return np.asarray(named.rearrange(axes).array, dtype=np.float64)


def projected(linear: Any, x: hax.NamedArray, *out: str) -> np.ndarray:
    """W x of the one sequence, as (position, *out)."""
    weight = array(linear.weight, *out, "embed")
    return np.tensordot(array(x, "batch", "position", "embed")[0], weight, axes=([1], [len(out)]))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """softmax(q k' / sqrt(size)) v of one head, each (position, size); causal, and as ``allowed`` says."""
    scores = q @ k.T / np.sqrt(q.shape[1])
    seen = np.tril(np.ones_like(scores, bool)) & (True if allowed is None else allowed)
    shares = np.where(seen, np.exp(scores), 0)
    return shares / shares.sum(axis=1, keepdims=True) @ v
