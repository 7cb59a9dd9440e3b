"""Reciprocal attention against numpy."""

import dataclasses

import numpy as np
from levanter.layers.attention import AttentionMask

from speedrun.methods.attention import like
from speedrun.methods.reciprocal import ReciprocalLlamaConfig
from tests.methods.by_hand import SHAPE, array, attention, inputs, layers, projected


def test_the_last_heads_attend_again_with_queries_and_keys_exchanged() -> None:
    # Three of four heads: two share the last key head, one the first.
    config = dataclasses.replace(like(SHAPE, ReciprocalLlamaConfig), reciprocal_heads=3)
    layer, x = layers(config)[1].self_attn, inputs(config)
    got = layer(x, AttentionMask.causal())
    q = projected(layer.q_proj, x, "kv_head", "q_heads_per_group", "head_size").reshape(8, 4, 4)
    k, v = (projected(linear, x, "kv_head", "head_size") for linear in (layer.k_proj, layer.v_proj))
    plain = np.stack([attention(q[:, h], k[:, h // 2], v[:, h // 2]) for h in range(4)], axis=1)
    again = np.stack([attention(k[:, h // 2], q[:, h], v[:, h // 2]) for h in (1, 2, 3)], axis=1)
    y = np.einsum("thd,ehd->te", plain, array(layer.o_proj.weight, "embed", "heads", "head_size"))
    r = np.einsum("thd,ehd->te", again, array(layer.reciprocal_proj.weight, "embed", "reciprocal_heads", "head_size"))
    r = (
        (r - r.mean(1, keepdims=True))
        / np.sqrt(r.var(1, keepdims=True) + 1e-5)
        * array(layer.reciprocal_norm.weight, "embed")
    )
    want = y + np.tanh(float(layer.reciprocal_gate.array)) * r
    np.testing.assert_allclose(array(got, "batch", "position", "embed")[0], want, atol=3e-5)


def test_it_counts_one_more_attention_for_each_reciprocal_head() -> None:
    config = like(SHAPE, ReciprocalLlamaConfig)
    # Two layers; 8 positions, head size 4: scores and weighted sum 2 * 2 * 8 * 4, softmax 3 * 8, W_r 2 * 4 * 16.
    assert config.flops_per_token(32, 8) - SHAPE.flops_per_token(32, 8) == 2 * (128 + 24 + 128)
