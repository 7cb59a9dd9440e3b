"""Pruning while training: the weights of linear layers that matter least are set to zero, for good.

Two scores say what matters: "magnitude" |W|, and "fim" |W| (v + 1e-8)^(1/4), v being a running mean of squared
gradients without bias correction, an estimate of the Fisher information's diagonal. Everything else (schedule, masks,
masked optimizer state) is common to both, so that they differ in the score alone.

The schedule starts slowly: of the ramp's share p that is done, target p^3 of all weights are zero. At each of its
steps the k lowest scores over all layers together are dropped. A dropped weight stays zero, and so do its moments.
Gradients and the model's FLOPs stay dense.

The threshold is exact. Non-negative floats are ordered as their bits are, so the k-th smallest is found by bisection
over 31 bits: 31 counts over all scores, which read each once and gather nothing from other devices. Against sorting
that is one float a weight of memory, and on a mesh no communication but the counts. It happens 20 times in a run.

Source: github.com/mcgrof/knlp ("bitter7"), which estimates the threshold on a 2 % sample.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import optax
from levanter.models.lm_model import LmHeadModel
from levanter.optim.config import AdamConfig, OptimizerConfig
from levanter.optim.util import is_linear_like_module

from speedrun import reference
from speedrun.candidate import Recipe
from speedrun.ladder import Rung
from speedrun.records.schema import Metric

Score = Literal["fim", "magnitude"]


def weights_of(tree: Any) -> list[hax.NamedArray]:
    """The weight of every linear layer, head included, in ``tree``: a model, or anything shaped like one."""
    nodes = jax.tree.leaves(tree, is_leaf=is_linear_like_module)
    return [node.weight for node in nodes if is_linear_like_module(node)]


def schedule(target: float, start: int, end: int, updates: int) -> dict[int, float]:
    """The share of weights to be zero after each step at which that changes; steps count from 1.

    Args:
        target: share at the end.
        start: last step before the ramp.
        end: the ramp's last step.
        updates: changes in between, evenly spread.
    """
    steps = sorted({start + round((end - start) * at / updates) for at in range(1, updates + 1)} - {start})
    return {step: target * ((step - start) / (end - start)) ** 3 for step in steps}


def kth_smallest(arrays: Sequence[jax.Array], k: jax.Array) -> jax.Array:
    """The k-th smallest (from 1) of the non-negative float32 in all ``arrays`` together, exactly."""
    bits = [jax.lax.bitcast_convert_type(array, jnp.int32) for array in arrays]

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = low + (high - low) // 2
        enough = sum(jnp.sum(array <= middle, dtype=jnp.int32) for array in bits) >= k
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    infinity = 0x7F800000
    low, _ = jax.lax.fori_loop(0, 31, halve, (jnp.int32(0), jnp.int32(infinity)))
    return jax.lax.bitcast_convert_type(low, jnp.float32)


class PrunedState(NamedTuple):
    """What pruning keeps beside the optimizer's own state."""

    inner: Any
    step: jax.Array
    """Steps done."""
    masks: list[hax.NamedArray]
    """For each of ``weights_of(params)``: which weights live."""
    squares: list[hax.NamedArray]
    """Running mean of squared gradients of the same; empty for a score that needs none."""


def pruned(
    inner: optax.GradientTransformation, shares: dict[int, float], score: Score, beta2_for_score: float
) -> optax.GradientTransformation:
    """``inner``, and after each of its steps the masks: see the module.

    Args:
        inner: Adam with its learning rate; its updates are what is added to the parameters.
        shares: of the weights to be zero after a step, by step (``schedule``).
        beta2_for_score: decay of the running mean of squared gradients. Adam's own is often so short (0.95) that
            the score would be noise.
    """
    steps = jnp.array(list(shares), jnp.int32)

    def init(params: Any) -> PrunedState:
        weights = weights_of(params)
        size = sum(weight.array.size for weight in weights)
        if not 0 < size < 2**31:
            raise ValueError(f"pruning counts 1 to 2**31 - 1 weights of haliax linear layers, and here are {size}")
        masks = [hax.ones(weight.axes, dtype=jnp.bool_) for weight in weights]
        squares = [hax.zeros(weight.axes) for weight in weights] if score == "fim" else []
        return PrunedState(inner.init(params), jnp.zeros((), jnp.int32), masks, squares)

    def update(gradients: Any, state: PrunedState, params: Any = None, **extra: Any) -> tuple[Any, PrunedState]:
        updates, inner_state = optax.with_extra_args_support(inner).update(gradients, state.inner, params, **extra)
        step = state.step + 1
        squares = [
            beta2_for_score * old + (1 - beta2_for_score) * gradient**2
            for old, gradient in zip(state.squares, weights_of(gradients), strict=bool(state.squares))
        ]
        moved = [p + u for p, u in zip(weights_of(params), weights_of(updates), strict=True)]

        def prune(masks: list[hax.NamedArray]) -> list[hax.NamedArray]:
            live = [hax.where(mask, hax.abs(weight), 0.0) for mask, weight in zip(masks, moved, strict=True)]
            scores = [w * (v + 1e-8) ** 0.25 for w, v in zip(live, squares, strict=True)] if squares else live
            size = sum(each.array.size for each in scores)
            counts = jnp.array([int(share * size) for share in shares.values()], jnp.int32)
            k = counts[jnp.argmax(steps == step)]
            threshold = jnp.where(k > 0, kth_smallest([each.array for each in scores], k), -1.0)
            return [mask & (each > threshold) for mask, each in zip(masks, scores, strict=True)]

        masks = jax.lax.cond(jnp.any(steps == step), prune, lambda masks: masks, state.masks)
        # The optimizer's own update where a weight lives, and what brings it to zero exactly where it does not.
        kept = [
            hax.where(mask, u, -p) for mask, u, p in zip(masks, weights_of(updates), weights_of(params), strict=True)
        ]
        return eqx.tree_at(weights_of, updates, kept), PrunedState(
            _with_masked_moments(inner_state, masks), step, masks, _masked(squares, masks) if squares else []
        )

    return optax.GradientTransformationExtraArgs(init, update)


def _masked(arrays: Sequence[hax.NamedArray], masks: Sequence[hax.NamedArray]) -> list[hax.NamedArray]:
    return [hax.where(mask, array, 0.0) for mask, array in zip(masks, arrays, strict=True)]


def _with_masked_moments(state: Any, masks: Sequence[hax.NamedArray]) -> Any:
    def mask(node: Any) -> Any:
        if not isinstance(node, optax.ScaleByAdamState):
            return node
        mu, nu = (eqx.tree_at(weights_of, tree, _masked(weights_of(tree), masks)) for tree in (node.mu, node.nu))
        return node._replace(mu=mu, nu=nu)

    return jax.tree.map(mask, state, is_leaf=lambda node: isinstance(node, optax.ScaleByAdamState))


@OptimizerConfig.register_subclass("pruned_adam")
@dataclass(frozen=True)
class PrunedAdamConfig(AdamConfig):
    """AdamW that prunes as it goes."""

    sparsity: float = 0.5
    """Share of the weights of linear layers that is zero at the end."""
    score: Score = "fim"
    prune_start: float = 0.15
    """Share of the run after which the ramp starts."""
    prune_end: float = 0.45
    """Share of the run at which it ends."""
    prune_updates: int = 20
    """Steps of the ramp."""
    beta2_for_score: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.sparsity < 1 and 0 <= self.prune_start < self.prune_end <= 1 and self.prune_updates > 0):
            raise ValueError("pruning needs 0 < sparsity < 1, 0 <= prune_start < prune_end <= 1 and prune_updates > 0")

    def build(self, num_train_steps: int) -> optax.GradientTransformation:
        """Clipping, then Adam with decay and learning rate, and the masks around that."""
        start, end = round(self.prune_start * num_train_steps), round(self.prune_end * num_train_steps)
        shares = schedule(self.sparsity, start, max(end, start + 1), self.prune_updates)

        def optimizer(learning_rate: Any) -> optax.GradientTransformation:
            adamw = optax.chain(
                optax.scale_by_adam(self.beta1, self.beta2, self.epsilon),
                optax.add_decayed_weights(self.weight_decay, self.build_weight_decay_mask()),
                optax.scale(-learning_rate),
            )
            clip = optax.clip_by_global_norm(self.max_grad_norm) if self.max_grad_norm else optax.identity()
            return optax.chain(clip, pruned(adamw, shares, self.score, self.beta2_for_score))

        return optax.inject_hyperparams(optimizer)(learning_rate=self.lr_scheduler(num_train_steps))


def recipe(rung: Rung, *, score: Score, sparsity: float) -> Recipe:
    """The reference recipe at ``rung``, pruned."""
    dense = reference.recipe(rung)
    assert type(dense.optimizer) is AdamConfig
    settings = {field.name: getattr(dense.optimizer, field.name) for field in dataclasses.fields(AdamConfig)}
    return dense.replace(optimizer=PrunedAdamConfig(**settings, score=score, sparsity=sparsity))


def zeros(model: LmHeadModel) -> Metric:
    """The sparsity that a finished model really has."""
    weights = weights_of(model)
    share = sum(float((weight.array == 0).sum()) for weight in weights) / sum(weight.array.size for weight in weights)
    meaning = "Weights of linear layers, head included, that are exactly zero in the finished model."
    return Metric(name="sparsity", value=share, unit="share", meaning=meaning)
