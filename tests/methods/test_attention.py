"""The attention variants against numpy, and the weights and FLOPs that they say they add."""

import equinox as eqx
import haliax as hax
import jax
import numpy as np
from levanter.layers.attention import AttentionMask
from levanter.models.llama import LlamaConfig

from speedrun.methods.attention import OutputGateLlamaConfig, like

SHAPE = LlamaConfig(
    max_seq_len=8, hidden_dim=16, intermediate_dim=32, num_layers=2, num_heads=4, num_kv_heads=2, rope=None
)


def test_the_output_gate_is_a_sigmoid_of_the_input_on_each_element():
    config = like(SHAPE, OutputGateLlamaConfig)
    model = config.build(hax.Axis("vocab", 32), key=jax.random.PRNGKey(0))
    layer = model.transformer.layers.unstacked()[0].self_attn
    x = hax.random.normal(jax.random.PRNGKey(1), (hax.Axis("position", 8), config.Embed))
    got = layer(x, AttentionMask.causal(), key=None).array

    def weight(linear, *axes):
        return np.asarray(linear.weight.rearrange(axes).array, dtype=np.float64)

    inputs = np.asarray(x.array, dtype=np.float64)
    heads = ("kv_head", "q_heads_per_group", "head_size", "embed")
    q = np.einsum("kghe,te->kgth", weight(layer.q_proj, *heads), inputs)
    gate_axes = ("kv_head", "q_heads_per_group", "gate_size", "embed")
    gate = 1 / (1 + np.exp(-np.einsum("kghe,te->kgth", weight(layer.gate_proj, *gate_axes), inputs)))
    k = np.einsum("khe,te->kth", weight(layer.k_proj, "kv_head", "head_size", "embed"), inputs)
    v = np.einsum("khe,te->kth", weight(layer.v_proj, "kv_head", "head_size", "embed"), inputs)
    scores = np.einsum("kgth,ksh->kgts", q, k) / 2
    scores = np.where(np.tril(np.ones((8, 8))), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    y = (np.einsum("kgts,ksh->kgth", shares, v) * gate).reshape(4, 8, 4)
    want = np.einsum("enh,nth->te", weight(layer.o_proj, "embed", "heads", "head_size"), y)
    np.testing.assert_allclose(got, want, atol=2e-5)


def test_the_gates_weights_and_flops_are_those_of_one_square_matrix_a_layer():
    config = like(SHAPE, OutputGateLlamaConfig)
    assert config.flops_per_token(32, 8) - SHAPE.flops_per_token(32, 8) == 2 * 2 * 16 * 16
    model = eqx.filter_eval_shape(config.build, hax.Axis("vocab", 32), key=jax.random.PRNGKey(0))
    counted = sum(leaf.size for leaf in jax.tree.leaves(model) if hasattr(leaf, "size"))
    assert config.total_trainable_params(32) == counted
