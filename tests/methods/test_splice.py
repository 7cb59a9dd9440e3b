"""KVSplice against numpy, and the bytes that it says it caches."""

import dataclasses

import equinox as eqx
import haliax as hax
import jax
import numpy as np
import pytest
from levanter.layers.attention import AttentionMask
from levanter.layers.rotary import DefaultRotaryEmbeddingsConfig
from levanter.models.llama import LlamaConfig

from speedrun.methods.attention import like
from speedrun.methods.splice import LatentLlamaConfig, Splice, SplicedLlamaConfig, kv_cache
from tests.methods.by_hand import SHAPE, array, attention, inputs, layers, projected


def spliced(splice: Splice, x: np.ndarray, *axes: str) -> np.ndarray:
    """W_e LN(W_c x) for rows x."""
    compress = array(splice.compress.weight, "spliced", *axes).reshape(splice.size, -1)
    expand = array(splice.expand.weight, *axes, "spliced").reshape(-1, splice.size)
    z = x @ compress.T
    z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5) * array(splice.norm.weight, "spliced")
    return z @ expand.T


def test_attention_sees_what_the_splice_lets_through() -> None:
    config = like(SHAPE, SplicedLlamaConfig)
    layer, x = layers(config)[1].self_attn, inputs(config)
    got = layer(x, AttentionMask.causal())
    q = projected(layer.q_proj, x, "kv_head", "q_heads_per_group", "head_size").reshape(8, 4, 4)
    kv = [projected(linear, x, "kv_head", "head_size") for linear in (layer.k_proj, layer.v_proj)]
    assert layer.splice.size == 8  # half of two vectors of two heads of size 4
    seen = spliced(layer.splice, np.stack(kv, axis=1).reshape(8, 16), "key_value", "kv_head", "head_size")
    k, v = np.moveaxis(seen.reshape(8, 2, 2, 4), 1, 0)
    heads = np.stack([attention(q[:, h], k[:, h // 2], v[:, h // 2]) for h in range(4)], axis=1)
    want = np.einsum("thd,ehd->te", heads, array(layer.o_proj.weight, "embed", "heads", "head_size"))
    np.testing.assert_allclose(array(got, "batch", "position", "embed")[0], want, atol=5e-5)


def test_a_spliced_latent_vector_is_the_latent_vector_through_the_splice() -> None:
    shape = dataclasses.replace(SHAPE, rope=DefaultRotaryEmbeddingsConfig())
    config = dataclasses.replace(like(shape, LatentLlamaConfig), splice_ratio=0.5)
    layer, x = layers(config)[0].self_attn, inputs(config)
    latent = hax.random.normal(jax.random.PRNGKey(3), (config.max_Pos, layer.config.LatentSize))
    c = array(latent, "position", "latent")
    normed = c / np.sqrt((c**2).mean(1, keepdims=True) + 1e-5) * array(layer.kv_a_norm.norm.weight, "latent")
    np.testing.assert_allclose(
        layer.kv_a_norm(latent).array, spliced(layer.kv_a_norm.splice, normed, "latent"), atol=5e-5
    )
    plain = dataclasses.replace(layer, kv_a_norm=lambda _: layer.kv_a_norm(_))
    np.testing.assert_array_equal(layer(x, AttentionMask.causal()).array, plain(x, AttentionMask.causal()).array)


@pytest.mark.parametrize(
    ("kind", "changes", "numbers"),
    [
        (LlamaConfig, {}, 2 * 2 * 4),
        (SplicedLlamaConfig, {}, 8),
        (SplicedLlamaConfig, {"splice_ratio": 0.25}, 4),
        (LatentLlamaConfig, {}, 4 + 2),
        (LatentLlamaConfig, {"splice_ratio": 0.5}, 2 + 2),
    ],
)
def test_the_cache_is_what_the_layers_must_keep(kind: type[LlamaConfig], changes: dict, numbers: int) -> None:
    shape = dataclasses.replace(SHAPE, rope=DefaultRotaryEmbeddingsConfig())
    config = dataclasses.replace(like(shape, kind), **changes)
    model = eqx.filter_eval_shape(config.build, hax.Axis("vocab", 32), key=jax.random.PRNGKey(0))
    metric = kv_cache(model)
    # Two layers, two bytes a number.
    assert (metric.value, metric.unit) == (2 * 2 * numbers, "bytes/token")


def test_both_matrices_of_every_layer_are_counted() -> None:
    config = like(SHAPE, SplicedLlamaConfig)
    assert config.flops_per_token(32, 8) - SHAPE.flops_per_token(32, 8) == 2 * 2 * (16 * 8 + 8 * 16)
