"""Partial key offset: the mathematics against numpy, and that no key crosses from one document into the next."""

import dataclasses

import haliax as hax
import numpy as np
import pytest
from levanter.layers.attention import AttentionMask

from speedrun.methods.attention import like
from speedrun.methods.offset import HalfRotaryConfig, OffsetLlamaConfig
from tests.methods.by_hand import SHAPE, array, attention, inputs, layers, model, projected
from tests.methods.leaky import LeakyOffsetLlamaConfig

BATCH = hax.Axis("batch", 1)
DOCUMENTS = np.array([0, 0, 0, 1, 1, 1, 1, 1])


def packed() -> AttentionMask:
    numbers = hax.named(DOCUMENTS[None], (BATCH, SHAPE.max_Pos))
    return AttentionMask.causal().with_segment_ids(numbers, numbers.rename({"position": "key_position"}))


def rms(k: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return k / np.sqrt((k**2).mean(-1, keepdims=True) + 1e-5) * weight


def rotated(each: np.ndarray) -> np.ndarray:
    """The first two of four dimensions turn by one radian a position."""
    t = np.arange(8)[:, None]
    a, b = each[..., 0], each[..., 1]
    turned = np.stack([a * np.cos(t) - b * np.sin(t), a * np.sin(t) + b * np.cos(t)], axis=-1)
    return np.concatenate([turned, each[..., 2:]], axis=-1)


def test_the_half_without_a_position_is_that_of_the_token_before() -> None:
    config = dataclasses.replace(like(SHAPE, OffsetLlamaConfig), rope=HalfRotaryConfig(), use_qk_norm=True)
    layer, x = layers(config)[1].self_attn, inputs(config)
    got = layer(x, packed())
    q = projected(layer.q_proj, x, "kv_head", "q_heads_per_group", "head_size").reshape(8, 4, 4)
    k, v = (projected(linear, x, "kv_head", "head_size") for linear in (layer.k_proj, layer.v_proj))
    shifted = k.copy()
    for t in range(8):
        shifted[t, :, 2:] = k[t - 1, :, 2:] if t not in (0, 3) else 0
    q, k = (
        rotated(rms(q, array(layer.q_norm.weight, "head_size"))),
        rotated(rms(shifted, array(layer.k_norm.weight, "head_size"))),
    )
    same = DOCUMENTS[:, None] == DOCUMENTS
    heads = np.stack([attention(q[:, h], k[:, h // 2], v[:, h // 2], same) for h in range(4)], axis=1)
    want = np.einsum("thd,ehd->te", heads, array(layer.o_proj.weight, "embed", "heads", "head_size"))
    np.testing.assert_allclose(array(got, "batch", "position", "embed")[0], want, atol=3e-5)


@pytest.mark.parametrize(("kind", "leaks"), [(OffsetLlamaConfig, False), (LeakyOffsetLlamaConfig, True)])
def test_a_documents_logits_do_not_depend_on_the_one_before(kind: type[OffsetLlamaConfig], leaks: bool) -> None:
    config = dataclasses.replace(like(SHAPE, kind), rope=HalfRotaryConfig(), use_qk_norm=True)
    whole = model(config)

    def logits(first: list[int]) -> np.ndarray:
        tokens = hax.named(np.array([[*first, 7, 8, 9, 10, 11]]), (BATCH, config.max_Pos))
        return np.asarray(whole(tokens, packed()).rearrange(("batch", "position", "vocab")).array[0, 3:])

    differs = not np.array_equal(logits([1, 2, 3]), logits([4, 5, 6]))
    assert differs == leaks


def test_every_fourth_layer_and_the_last_have_it() -> None:
    def shifted(num_layers: int) -> list[int]:
        config = dataclasses.replace(like(SHAPE, OffsetLlamaConfig), num_layers=num_layers)
        return [at for at, each in enumerate(config.get_layer_types()) if each == "offset_attention"]

    assert [shifted(n) for n in (2, 4, 5, 8)] == [[1], [3], [3, 4], [3, 7]]
