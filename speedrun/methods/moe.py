"""A mixture of experts in place of each MLP, balanced without an auxiliary loss.

A token goes through the k experts with the largest logits W_r x + b, weighed by sigmoid(W_r x) without b, and through
one shared expert; all are SwiGLU MLPs. With ``routed_sum`` the k weights are rescaled to that sum. b evens the loads:
its gradient is by how much an expert's load exceeds the mean, whatever the loss, so that the optimizer lowers it where
tokens crowd. Nothing is added to the loss, in training or evaluation, and a token's experts depend on no other token.
Nothing is dropped either: experts take as many tokens as come.

Experts are Levanter's MLPs, stacked along an axis: what an optimizer does to the matrix of a linear layer, it does to
each expert's. (Levanter's own Mixtral and Qwen3-MoE keep them in another kind of layer, which Muon and its kin give to
Adam; Mixtral also logs from inside its loss, which has no derivative here, and Qwen3's groups are those of one device.)

Source: Open Athena's "MoE V1" (openathena.ai/blog/pretraining-speedup; marin experiments/grug/moe), which sets b by
quantiles of the last step's logits instead, and has more that is not here: gated norms, gated heads, windows.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import haliax.nn as hnn
import jax
import jax.numpy as jnp
from haliax import Axis, NamedArray
from haliax.jax_utils import shaped_rng_split
from haliax.nn.scan import Stacked
from haliax.partitioning import pspec_for_axis, shard_map
from jax.sharding import PartitionSpec
from levanter.models.llama import LlamaConfig, LlamaMlp
from levanter.models.lm_model import LmConfig

from speedrun import reference
from speedrun.candidate import Recipe
from speedrun.ladder import Rung
from speedrun.methods.attention import like
from speedrun.methods.llama import VariantLlamaConfig

PUSH = 1e-4
"""Scale of b's gradient. Adam takes it out again; it must only be small beside those with which it is clipped."""
BLOCK = 32
"""Rows of one expert that are multiplied at once on a CPU."""


@LmConfig.register_subclass("llama_routed")
@dataclass(frozen=True)
class RoutedLlamaConfig(VariantLlamaConfig):
    """A Llama with a mixture of experts in every layer."""

    num_experts: int = 64
    num_experts_per_tok: int = 4
    moe_intermediate_dim: int = 1024
    shared_expert_intermediate_dim: int = 2048
    routed_sum: float | None = None
    """What the weights of a token's experts are rescaled to add up to; None leaves each sigmoid as it is."""

    def init_mlp(self, *, key: jax.Array) -> "RoutedMlp":
        return RoutedMlp.init(self, key=key)

    def flops_per_token(self, vocab_size: int, context_length: int) -> float:
        """Forward FLOPs a token: a Llama's with an MLP as wide as the experts that it meets, and the router's."""
        active = self.num_experts_per_tok * self.moe_intermediate_dim + self.shared_expert_intermediate_dim
        dense = LlamaConfig.flops_per_token(
            dataclasses.replace(self, intermediate_dim=active), vocab_size, context_length
        )
        return dense + self.num_layers * 2 * self.hidden_dim * self.num_experts


class RoutedMlp(eqx.Module):
    """See the module."""

    config: RoutedLlamaConfig = eqx.field(static=True)
    router: hnn.Linear
    bias: NamedArray
    experts: Stacked[LlamaMlp]
    shared: LlamaMlp

    @staticmethod
    def init(config: RoutedLlamaConfig, *, key: jax.Array) -> "RoutedMlp":
        """Experts that start as any MLP does, and a router without bias."""
        Experts = Axis("experts", config.num_experts)
        k_router, k_experts, k_shared = jax.random.split(key, 3)

        def mlp(width: int, key: jax.Array) -> LlamaMlp:
            return LlamaMlp.init(config.Embed, config.Mlp.resize(width), config.activation_function, key=key)

        routed = Stacked.init(Experts, _Expert)(config, key=shaped_rng_split(k_experts, config.num_experts))
        return RoutedMlp(
            config,
            hnn.Linear.init(config.Embed, Experts, key=k_router, use_bias=False, out_first=True),
            hax.zeros(Experts),
            routed,
            mlp(config.shared_expert_intermediate_dim, k_shared),
        )

    def __call__(self, x: NamedArray, *, key: Any = None) -> NamedArray:
        config = self.config
        others = tuple(axis for axis in x.axes if axis.name != config.Embed.name)
        tokens = hax.auto_sharded(x.flatten_axes(others, "token").rearrange(("token", config.Embed)))
        Token = tokens.resolve_axis("token")
        logits = self.router(tokens.astype(jnp.float32)).rearrange(("token", "experts")).array
        bias = self.bias.array
        _, chosen = jax.lax.top_k(logits + jax.lax.stop_gradient(bias), config.num_experts_per_tok)
        weights = jax.nn.sigmoid(jnp.take_along_axis(logits, chosen, axis=1))
        if config.routed_sum is not None:
            weights = weights * (config.routed_sum / weights.sum(axis=1, keepdims=True))
        matrices = [
            linear.weight.rearrange((..., linear.In, linear.Out)).array
            for linear in (getattr(self.experts.stacked, name) for name in ("gate_proj", "up_proj", "down_proj"))
        ]
        act = self.experts.stacked.act
        # Each device sorts and multiplies its own tokens, with all experts.
        here, everywhere = pspec_for_axis((Token,)), PartitionSpec()
        routed = shard_map(
            lambda *arrays: _through_experts(act, *arrays),
            in_specs=(here, here, here, everywhere, everywhere, everywhere),
            out_specs=here,
        )(tokens.array, chosen, weights.astype(x.dtype), *matrices)
        load = jnp.bincount(chosen.reshape(-1), length=config.num_experts) * (config.num_experts / chosen.size)
        routed = _with_gradient(routed, bias, (PUSH * (load - 1)).astype(bias.dtype))
        return hax.named(routed, (Token, config.Embed)).unflatten_axis("token", others) + self.shared(x)


class _Expert:
    """How ``Stacked`` asks for one expert."""

    @staticmethod
    def init(config: RoutedLlamaConfig, *, key: jax.Array) -> LlamaMlp:
        Mlp = config.Mlp.resize(config.moe_intermediate_dim)
        return LlamaMlp.init(config.Embed, Mlp, config.activation_function, key=key)


def _through_experts(
    act: Any,
    x: jax.Array,
    chosen: jax.Array,
    weights: jax.Array,
    gate: jax.Array,
    up: jax.Array,
    down: jax.Array,
) -> jax.Array:
    """For each token, the weighted sum of what its experts make of it.

    Args:
        act: of the hidden layer.
        x: (tokens, width).
        chosen: (tokens, k), numbers of experts.
        weights: (tokens, k).
        gate: (experts, width, inner), as is ``up``.
        down: (experts, inner, width).
    """
    order = jnp.argsort(chosen.reshape(-1))
    rows = x[order // chosen.shape[1]]
    sizes = jnp.bincount(chosen.reshape(-1), length=gate.shape[0])
    # Both are the same products. XLA's own grouped product multiplies every row with every expert on a CPU.
    multiplied = jax.lax.platform_dependent(rows, sizes, gate, up, down, cpu=_in_blocks(act), default=_ragged(act))
    back = multiplied[jnp.argsort(order)].reshape(*chosen.shape, x.shape[1])
    return (back * weights[..., None]).sum(axis=1)


def _ragged(act: Any) -> Any:
    def run(rows: jax.Array, sizes: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
        hidden = act(jax.lax.ragged_dot(rows, gate, sizes)) * jax.lax.ragged_dot(rows, up, sizes)
        return jax.lax.ragged_dot(hidden, down, sizes)

    return run


def _in_blocks(act: Any) -> Any:
    """Each expert's rows are filled up to whole blocks, and each block is multiplied with its expert's matrices."""

    def run(rows: jax.Array, sizes: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
        experts = len(sizes)
        blocks = -(-len(rows) // BLOCK) + experts
        ends = jnp.cumsum(-(-sizes // BLOCK))
        owner = jnp.minimum(jnp.searchsorted(ends, jnp.arange(blocks), side="right"), experts - 1)
        expert = jnp.repeat(jnp.arange(experts), sizes, total_repeat_length=len(rows))
        within = jnp.arange(len(rows)) - (jnp.cumsum(sizes) - sizes)[expert]
        at = BLOCK * (ends - -(-sizes // BLOCK))[expert] + within
        filled = jnp.zeros((blocks * BLOCK, rows.shape[1]), rows.dtype).at[at].set(rows).reshape(blocks, BLOCK, -1)
        hidden = act(filled @ gate[owner]) * (filled @ up[owner])
        return (hidden @ down[owner]).reshape(blocks * BLOCK, -1)[at]

    return run


@jax.custom_vjp
def _with_gradient(y: jax.Array, parameter: jax.Array, gradient: jax.Array) -> jax.Array:
    """``y``, and a parameter whose gradient is the one given, whatever comes of ``y``."""
    return y


_with_gradient.defvjp(
    lambda y, parameter, gradient: (y, gradient),
    lambda gradient, of_y: (of_y, gradient, jnp.zeros_like(gradient)),
)


def recipe(rung: Rung, *, experts: int, kind: type[RoutedLlamaConfig] = RoutedLlamaConfig, **changes: Any) -> Recipe:
    """The reference recipe at ``rung`` with ``experts`` experts, four of them a token, each half as wide as the model.

    The shared expert is as wide as the model; that makes 3 widths where the reference has 2.7 to 3.5. A micro rung has
    a quarter of the experts.
    """
    dense = reference.model(rung.name)
    model = dataclasses.replace(
        like(dense, kind),
        num_experts=experts // 4 if rung.is_micro else experts,
        moe_intermediate_dim=dense.hidden_dim // 2,
        shared_expert_intermediate_dim=dense.hidden_dim,
        **changes,
    )
    return reference.recipe(rung).replace(model=model)
