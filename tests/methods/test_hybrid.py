"""Windows that are windows, and Gated DeltaNet against numpy, document by document."""

import dataclasses

import equinox as eqx
import haliax as hax
import numpy as np
from levanter.layers.attention import AttentionMask
from levanter.layers.rotary import DefaultRotaryEmbeddingsConfig

from speedrun.cost.conventions import llama_forward_flops_per_token
from speedrun.cost.meters import measure
from speedrun.cost.workload import workload_of
from speedrun.ladder import LADDER
from speedrun.methods.attention import like
from speedrun.methods.hybrid import DeltaNetLlamaConfig, DocumentDeltaNet, WindowLlamaConfig
from speedrun.reference import recipe
from tests.methods.by_hand import SHAPE, array, inputs, layers

WINDOWS = dataclasses.replace(like(SHAPE, WindowLlamaConfig), sliding_window=3, rope=DefaultRotaryEmbeddingsConfig())
CAUSAL = AttentionMask.causal()


def attended(layer: object, x: np.ndarray) -> np.ndarray:
    named = hax.named(x[None], (hax.Axis("batch", 1), SHAPE.max_Pos, SHAPE.Embed))
    return np.asarray(layer.self_attn(named, CAUSAL).array[0])  # type: ignore[attr-defined]


def test_what_is_outside_the_window_changes_nothing() -> None:
    local, whole = layers(WINDOWS)
    x = array(inputs(WINDOWS), "batch", "position", "embed")[0].astype(np.float32)
    other = x.copy()
    other[2] += 1
    changed = (attended(local, x) != attended(local, other)).any(axis=1)
    assert changed.tolist() == [False, False, True, True, True, False, False, False]
    changed = (attended(whole, x) != attended(whole, other)).any(axis=1)
    assert changed.tolist() == [False, False, True, True, True, True, True, True]


def test_a_global_layer_does_not_see_in_which_order_the_past_came() -> None:
    local, whole = layers(WINDOWS)
    x = array(inputs(WINDOWS), "batch", "position", "embed")[0].astype(np.float32)
    turned = x[[0, 1, 2, 3, 4, 6, 5, 7]]
    np.testing.assert_allclose(attended(whole, turned)[7], attended(whole, x)[7], atol=1e-5)
    assert abs(attended(local, turned)[7] - attended(local, x)[7]).max() > 1e-2


def test_the_meters_count_windows_as_windows_beside_what_is_charged() -> None:
    rung = LADDER["micro_1"]
    dense = recipe(rung)
    model = dataclasses.replace(like(dense.model, WindowLlamaConfig), sliding_window=64)
    meters = measure(workload_of(dense.replace(model=model), rung.vocab_size))
    full = llama_forward_flops_per_token(
        hidden_dim=48,
        intermediate_dim=128,
        num_layers=2,
        num_heads=2,
        num_kv_heads=2,
        sequence_length=256,
        vocab_size=2048,
    )
    assert meters.charged == full
    # A query of the first layer sees 64 - 64^2 / 512 = 56 positions on average, one of the second 128, instead of 256.
    a_position = 4 * 48 + 3 * 2
    assert meters.causal == full - a_position * (2 * 256 - 56 - 128)


def by_recurrence(net: DocumentDeltaNet, x: np.ndarray) -> np.ndarray:
    """One document, one position at a time."""
    heads, size = 4, 4

    def sigmoid(a: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-a))

    mixed = (x @ array(net.in_proj_qkvz.weight, "qkvz", "embed").T).reshape(len(x), heads, 4 * size)
    q, k, v, z = (mixed[..., at * size : (at + 1) * size] for at in range(4))
    b, a = np.moveaxis((x @ array(net.in_proj_ba.weight, "ba", "embed").T).reshape(len(x), heads, 2), 2, 0)
    filters = np.asarray(net.conv_weight, np.float64).reshape(3, heads, size, 4)
    for part, filter in zip((q, k, v), filters, strict=True):
        padded = np.concatenate([np.zeros((3, heads, size)), part])
        summed = sum(filter[..., tap] * padded[tap : tap + len(x)] for tap in range(4))
        part[:] = summed * sigmoid(summed)
    q = q / np.sqrt((q**2).sum(-1, keepdims=True) + 1e-6) / np.sqrt(size)
    k = k / np.sqrt((k**2).sum(-1, keepdims=True) + 1e-6)
    step = np.log1p(np.exp(a + np.asarray(net.dt_bias)))
    decay, write = np.exp(-np.exp(np.asarray(net.A_log)) * step), sigmoid(b)
    state, out = np.zeros((heads, size, size)), np.zeros_like(v)
    for t in range(len(x)):
        for h in range(heads):
            state[h] *= decay[t, h]
            state[h] += write[t, h] * np.outer(k[t, h], v[t, h] - state[h].T @ k[t, h])
            out[t, h] = state[h].T @ q[t, h]
    out = out / np.sqrt((out**2).mean(-1, keepdims=True) + 1e-6) * np.asarray(net.o_norm.weight.array)
    weight = array(net.out_proj.weight, "embed", "v_heads", "v_head_dim")
    return np.einsum("thd,ehd->te", out * z * sigmoid(z), weight)


def test_each_document_has_a_delta_net_of_its_own() -> None:
    config = like(SHAPE, DeltaNetLlamaConfig)
    net, x = layers(config)[0].self_attn, inputs(config)
    of_x = array(x, "batch", "position", "embed")[0]
    numbers = hax.named(np.array([[0, 0, 0, 1, 1, 1, 1, 2]]), (hax.Axis("batch", 1), config.max_Pos))
    packed = array(eqx.filter_jit(net)(x, CAUSAL.with_segment_ids(numbers)), "batch", "position", "embed")[0]
    want = np.concatenate([by_recurrence(net, of_x[part]) for part in (slice(0, 3), slice(3, 7), slice(7, 8))])
    np.testing.assert_allclose(packed, want, atol=5e-5)
