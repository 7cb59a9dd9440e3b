"""The mixture of experts against numpy, its two ways of multiplying, its balance."""

import dataclasses
from collections.abc import Iterator

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from levanter.layers.attention import AttentionMask
from levanter.optim.muonh import MuonHConfig

from speedrun.cost.groups import optimizer_groups
from speedrun.cost.workload import workload_of
from speedrun.ladder import LADDER
from speedrun.methods import moe, stack
from speedrun.methods.attention import like
from speedrun.methods.moe import PUSH, RoutedLlamaConfig, RoutedMlp, _in_blocks, _ragged
from speedrun.steps.flops import count_recipe
from tests.methods.by_hand import SHAPE, array, inputs, layers, model

CONFIG = dataclasses.replace(
    like(SHAPE, RoutedLlamaConfig),
    num_experts=6,
    num_experts_per_tok=2,
    moe_intermediate_dim=8,
    shared_expert_intermediate_dim=16,
)


@pytest.fixture(autouse=True)
def mesh() -> Iterator[None]:
    auto = (jax.sharding.AxisType.Auto,) * 2
    with jax.set_mesh(jax.make_mesh((1, 1), ("data", "model"), axis_types=auto)):
        yield


def in_numpy(mlp: RoutedMlp, x: np.ndarray, routed_sum: float | None) -> tuple[np.ndarray, np.ndarray]:
    """(output, tokens of each expert), one token at a time."""

    def swiglu(x: np.ndarray, gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
        g = gate @ x
        return down @ (g / (1 + np.exp(-g)) * (up @ x))

    stacked, shared = mlp.experts.stacked, mlp.shared
    experts = [array(each.weight, "experts", "mlp", "embed") for each in (stacked.gate_proj, stacked.up_proj)]
    experts.append(array(stacked.down_proj.weight, "experts", "embed", "mlp"))
    one = [array(each.weight, "mlp", "embed") for each in (shared.gate_proj, shared.up_proj)]
    one.append(array(shared.down_proj.weight, "embed", "mlp"))
    router, bias = array(mlp.router.weight, "experts", "embed"), array(mlp.bias, "experts")
    out, loads = [], np.zeros(len(bias), int)
    for token in x:
        logits = router @ token
        chosen = np.argsort(-(logits + bias))[: mlp.config.num_experts_per_tok]
        weights = 1 / (1 + np.exp(-logits[chosen]))
        weights = weights if routed_sum is None else weights * routed_sum / weights.sum()
        parts = [w * swiglu(token, *(each[e] for each in experts)) for w, e in zip(weights, chosen, strict=True)]
        out.append(sum(parts) + swiglu(token, *one))
        loads[chosen] += 1
    return np.stack(out), loads


@pytest.mark.parametrize("routed_sum", [None, 2.5])
def test_a_token_is_the_weighted_sum_of_its_experts_and_the_shared_one(routed_sum: float | None) -> None:
    config = dataclasses.replace(CONFIG, routed_sum=routed_sum)
    mlp, x = layers(config)[1].mlp, inputs(config)
    want, _ = in_numpy(mlp, array(x, "batch", "position", "embed")[0], routed_sum)
    got = eqx.filter_jit(mlp)(x)
    np.testing.assert_allclose(array(got, "batch", "position", "embed")[0], want, atol=5e-5)


def test_the_bias_is_pushed_by_the_load_alone_and_nothing_else_moves_it() -> None:
    mlp, x = layers(CONFIG)[0].mlp, inputs(CONFIG)
    _, loads = in_numpy(mlp, array(x, "batch", "position", "embed")[0], None)

    def gradient(scale: float) -> np.ndarray:
        gradients = eqx.filter_jit(eqx.filter_grad(lambda mlp: scale * hax.sum(mlp(x)).scalar()))(mlp)
        return np.asarray(gradients.bias.array)

    want = PUSH * (loads / loads.mean() - 1)
    assert want.any()
    np.testing.assert_allclose(gradient(1.0), want, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(gradient(7.0), want, rtol=1e-5, atol=1e-9)


def test_nothing_is_added_to_the_loss() -> None:
    tokens = hax.named(np.arange(8)[None], (hax.Axis("batch", 1), CONFIG.max_Pos))
    activations = eqx.filter_eval_shape(lambda model: model.activations(tokens, AttentionMask.causal()), model(CONFIG))
    # Levanter adds the second of a pair to every loss, the evaluation's too.
    assert isinstance(activations, hax.NamedArray)


@pytest.mark.parametrize("sizes", [[7, 0, 40, 33, 1], [0, 0, 0, 0, 81], [64, 17, 0, 0, 0]])
def test_blocks_and_the_ragged_product_are_one_product(sizes: list[int]) -> None:
    random = np.random.default_rng(0)
    rows, gate, up, down = (
        jnp.asarray(random.standard_normal(shape), jnp.float32) for shape in ((81, 6), (5, 6, 4), (5, 6, 4), (5, 4, 6))
    )
    arguments = (rows, jnp.array(sizes), gate, up, down)
    np.testing.assert_allclose(
        jax.jit(_in_blocks(jax.nn.silu))(*arguments), jax.jit(_ragged(jax.nn.silu))(*arguments), atol=1e-5
    )


def test_active_parameters_are_those_that_a_token_meets() -> None:
    rung = LADDER["micro_1"]
    counted = count_recipe(moe.recipe(rung, experts=64), rung.vocab_size)
    # Two layers of width 48: attention, router and bias, 16 routed experts and a shared one, norms; a last norm.
    fixed, expert = 4 * 48 * 48 + 48 * 16 + 16 + 3 * 48 * 48 + 2 * 48, 3 * 48 * 24
    assert counted.non_embedding_parameters == 2 * (fixed + 16 * expert) + 48
    assert counted.active_parameters == 2 * (fixed + 4 * expert) + 48 + 2 * 48 * 2048


def test_the_formula_is_a_dense_llamas_with_what_a_token_meets() -> None:
    dense = dataclasses.replace(SHAPE, intermediate_dim=2 * 8 + 16)
    assert CONFIG.flops_per_token(32, 8) == dense.flops_per_token(32, 8) + 2 * 2 * 16 * 6


def test_muonh_covers_the_experts_and_orthogonalises_each_by_itself() -> None:
    rung = LADDER["micro_1"]
    groups = optimizer_groups(workload_of(moe.recipe(rung, experts=64).replace(optimizer=stack.muonh(rung)), 2048))
    experts = [each for each in groups if ".experts." in each.path]
    assert [(each.group, each.axes[:2]) for each in experts] == 3 * [("muonh", ("layer", "experts"))]

    parameters, gradients = (layers(CONFIG, seed)[0].mlp.experts for seed in (0, 1))
    # A step so long that nothing is left of the old weights: they become the update, at their own norm.
    optimizer = MuonHConfig(learning_rate=1e6, adam_lr=1.0, lr_schedule="constant", warmup=0.0).build(10)
    updates, _ = jax.jit(optimizer.update)(gradients, optimizer.init(parameters), parameters)
    for name in ("gate_proj", "up_proj", "down_proj"):
        old, change = (getattr(tree.stacked, name).weight.array for tree in (parameters, updates))
        values = np.linalg.svd(np.asarray(old + change), compute_uv=False)
        assert values.shape == (6, 8)
        assert values.min() > 0.5 * values.max()
