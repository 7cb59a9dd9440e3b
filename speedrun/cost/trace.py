"""Model FLOPs and the training step's own, counted on what the candidate would really compute.

The loss and Levanter's training step are traced on shapes, so a model of any size takes a second or two
and no memory.

- **Model FLOPs** are three times the forward pass, traced with plain attention and a plain loss, so that
  they belong to the model and not to a kernel.
- **The step** is traced as it stands. What it does beyond model FLOPs is taken apart: activations computed
  again, the fused loss (its padding, and its logits computed again), the optimizer, and what the attention
  kernel does differently from plain attention (a kernel that skips masked blocks makes this negative).

The step is traced for this process's device. A kernel chosen on a TPU or GPU may pad and recompute
otherwise; model FLOPs are the same everywhere.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
from levanter.utils.jax_utils import is_inexact_arrayish

from speedrun.cost import abstract
from speedrun.cost.conventions import TRAINING_PER_FORWARD
from speedrun.cost.jaxpr import Count, count_flops
from speedrun.cost.kernels import plain_attention_by_default, plain_loss, with_open_attention
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError, in_one_line


@dataclass(frozen=True)
class Parameters:
    """How many parameters a model has, by what they are for."""

    total: int
    embedding: int
    """Whose number grows with the vocabulary: input embedding and output head."""
    lookup: int
    """Of the input embedding where it is not tied to the head: looked up, never multiplied."""
    idle: int
    """Of experts that a token does not pass through, as far as the trace shows (ragged products)."""

    @property
    def non_embedding(self) -> int:
        """Everything but input embedding and output head."""
        return self.total - self.embedding

    @property
    def active(self) -> int:
        """What one token meets."""
        return self.total - self.idle


@dataclass(frozen=True)
class Excess:
    """What a step computes beyond model FLOPs, per step. The parts add up to the whole."""

    recomputation: float
    """Activations computed again in the backward pass (gradient checkpointing). Negative where parts of the
    model get no gradient, so that their backward pass costs less than twice their forward pass."""
    loss_padding: float
    """The fused loss's vocabulary, and its last block of rows, filled up to whole blocks."""
    loss_recomputation: float
    """Logits that the fused loss computes again in its backward pass."""
    optimizer: float
    attention_kernel: float
    """The attention kernel used on this machine against plain attention; negative where it skips blocks."""

    @property
    def total(self) -> float:
        """Step FLOPs less model FLOPs."""
        return self.recomputation + self.loss_padding + self.loss_recomputation + self.optimizer + self.attention_kernel


@dataclass(frozen=True)
class Traced:
    """What tracing one training step says of it."""

    tokens_per_step: int
    forward: Count
    """The forward pass of one step with plain attention and plain loss."""
    step: Count
    """The whole step as it stands."""
    excess: Excess
    parameters: Parameters
    optimizer_uncounted: list[str]
    """What could not be counted of the optimizer, in words; then ``excess.optimizer`` is a lower bound."""
    cannot_train: str
    """Why Levanter's trainer would fail on the step although it can be counted; empty when it would not."""

    @property
    def forward_flops_per_token(self) -> float:
        """Forward model FLOPs per token."""
        return self.forward.flops / self.tokens_per_step

    @property
    def model_flops_per_token(self) -> float:
        """Training model FLOPs per token: three times the forward pass."""
        return TRAINING_PER_FORWARD * self.forward_flops_per_token

    @property
    def step_flops_per_token(self) -> float:
        """What the step computes, per token."""
        return self.step.flops / self.tokens_per_step

    @property
    def is_lower_bound(self) -> bool:
        """Whether part of the forward pass could not be counted. Such a figure is no basis for a budget."""
        return self.forward.is_lower_bound

    @property
    def uncounted(self) -> list[str]:
        """What could not be counted, in the forward pass or elsewhere in the step, in words."""
        return _uncounted(self.forward + self.step)

    @property
    def caveats(self) -> list[str]:
        """What was counted on somebody's word or as the costliest case, in words."""
        everything = self.forward + self.step
        return [f"costliest branch: {name}" for name in sorted(everything.guessed)] + [
            f"as declared by the kernel: {name}" for name in sorted(everything.declared)
        ]


def trace(workload: Workload) -> Traced:
    """Trace the loss and the training step of ``workload``.

    Raises:
        SpeedrunError: when the model cannot be built, its loss cannot be traced or has no gradient, or
            this jax writes its jaxprs in a way that is not known here.
    """
    plain = replace(workload, model=with_open_attention(workload.model))
    with plain_attention_by_default(), abstract.trainer_for(plain) as trainer:
        state, batch = abstract.abstract_state(trainer, plain), abstract.abstract_batch(plain)
        loss, gradient = abstract.loss_function(trainer), abstract.gradient_function(trainer)
        with plain_loss():
            forward = _count("loss", loss, state.model, batch)
            plain_gradient = _count("gradient", gradient, state, batch)
        padded_forward = _count("loss", loss, state.model, batch)
        fused_gradient = _count("gradient", gradient, state, batch)
        plain_step = _count("training step", abstract.step_function(trainer), state, batch)
        parameters = count_parameters(plain, state.model, forward)
    cannot_train = ""
    try:
        step = _count_step(workload, collect_logs=False)
    except SpeedrunError as error:
        step = _count_step(workload, collect_logs=True)
        cannot_train = f"{error}: the model logs from inside its loss"
    padding = TRAINING_PER_FORWARD * (padded_forward.flops - forward.flops)
    return Traced(
        tokens_per_step=workload.tokens_per_step,
        forward=forward,
        step=step,
        excess=Excess(
            recomputation=plain_gradient.flops - TRAINING_PER_FORWARD * forward.flops,
            loss_padding=padding,
            loss_recomputation=fused_gradient.flops - plain_gradient.flops - padding,
            optimizer=plain_step.flops - fused_gradient.flops,
            attention_kernel=step.flops - plain_step.flops,
        ),
        parameters=parameters,
        optimizer_uncounted=sorted({*_uncounted(plain_step)} - {*_uncounted(fused_gradient)}),
        cannot_train=cannot_train,
    )


def _uncounted(count: Count) -> list[str]:
    return [f"opaque: {name}" for name in sorted(count.opaque)] + [
        f"unknown number of trips: {name}" for name in sorted(count.endless)
    ]


def _count_step(workload: Workload, *, collect_logs: bool) -> Count:
    with abstract.trainer_for(workload, collect_logs=collect_logs) as trainer:
        state, batch = abstract.abstract_state(trainer, workload), abstract.abstract_batch(workload)
        return _count("training step", abstract.step_function(trainer), state, batch)


def count_parameters(workload: Workload, model: Any, forward: Count) -> Parameters:
    """Count the parameters of ``model`` (as shapes), of which ``forward`` is the traced forward pass.

    Embeddings are the parameters whose number changes with the vocabulary, so that no name or layout has
    to be known.
    """
    sizes = _sizes(model)
    larger = _sizes(abstract.abstract_model(workload, vocab_size=2 * workload.vocab_size))
    embedding = sum(size for size, other in zip(sizes, larger, strict=True) if size != other)
    head = math.prod(eqx.filter_eval_shape(lambda m: m.get_lm_head(), model).array.shape)
    return Parameters(
        total=sum(sizes),
        embedding=embedding,
        lookup=max(0, embedding - head),
        idle=_idle(forward, workload.tokens_per_step),
    )


def _idle(forward: Count, tokens: int) -> int:
    """Expert parameters less those that one token meets: a ragged product of [rows, k] with [experts, k, n]
    passes each row through one expert, and there are rows / tokens rows a token."""
    idle = 0.0
    for kind, flops in forward.contractions.items():
        if kind.primitive == "ragged_dot_general" and len(kind.right) == 3:
            rows, (experts, k, n) = kind.left[0], kind.right
            times = flops / (2 * rows * k * n)
            idle += times * max(0.0, experts - rows / tokens) * k * n
    return round(idle)


def _sizes(model: Any) -> list[int]:
    return [math.prod(leaf.shape) for leaf in jax.tree.leaves(model) if is_inexact_arrayish(leaf)]


def _count(what: str, function: Callable[..., Any], *trees: Any) -> Count:
    of_arrays, arrays = abstract.on_arrays(function, *trees)
    try:
        return count_flops(of_arrays, *arrays)
    except SpeedrunError:
        raise
    except Exception as error:
        raise SpeedrunError(f"the {what} cannot be traced: {in_one_line(error)}") from error
