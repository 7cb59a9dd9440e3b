"""Levanter's own bits per byte for a checkpoint, and what stands between it and the score.

It scores packed sequences in the run's precision and averages the batches' ratios, weighted by tokens, so it
moves with the batch. Here the same sequences come from Levanter's own loader in the same batches; the auxiliary
loss that Levanter counts in, and the bytes of its tokens, are told apart. Never ranked on (docs/scoring.md).
"""

from collections.abc import Sequence
from typing import Any

import haliax as hax
import jax
import jax.numpy as jnp
import jmp
import numpy as np
from haliax.partitioning import ResourceMapping
from jax.sharding import Mesh
from levanter.data.dataset import AsyncDataset
from levanter.data.loader import DataLoader
from levanter.models.lm_model import LmExample, LmHeadModel, split_activations
from levanter.models.loss import maybe_fused_next_token_loss
from levanter.tokenizers import MarinTokenizer
from levanter.utils.hf_utils import byte_length_of_token
from levanter.utils.tree_utils import inference_mode

from speedrun.evaluation.token_bytes import token_bytes
from speedrun.records.schema import LevanterFigures


def levanter_figures(
    model: LmHeadModel,
    dataset: AsyncDataset[LmExample],
    tokenizer: MarinTokenizer,
    *,
    batch_size: int,
    policy: jmp.Policy,
    mesh: Mesh,
    mapping: ResourceMapping,
) -> LevanterFigures:
    """Count ``dataset``, the evaluation set as Levanter packs it.

    Args:
        batch_size: sequences in a batch; Levanter's figure moves with it, so it is pinned.
        policy: the run's precision.
        mapping: Haliax axes to mesh axes, for computing.
    """
    axis = hax.Axis("batch", batch_size)
    loader = DataLoader(dataset, axis, max_buffered_batches=100, mesh=mesh, axis_resources=mapping)
    levanter_bytes = np.array([byte_length_of_token(tokenizer, at) for at in range(len(tokenizer.get_vocab()))])
    exact_bytes = token_bytes(tokenizer)
    tables = jnp.stack([_as_table(levanter_bytes), _as_table(levanter_bytes if exact_bytes is None else exact_bytes)])
    own_loss = type(model).compute_next_token_loss is not LmHeadModel.compute_next_token_loss

    @hax.named_jit(axis_resources=mapping)
    def sums(model: LmHeadModel, batch: LmExample, tables: jax.Array) -> tuple[jax.Array, ...]:
        model = policy.cast_to_compute(inference_mode(model, True))
        activations, auxiliary = split_activations(model.activations(batch.tokens, batch.attn_mask, key=None))
        plain = maybe_fused_next_token_loss(
            model.Pos,
            model.Embed,
            model.Vocab,
            activations,
            model.get_lm_head(),
            batch.tokens,
            loss_weight=batch.loss_weight,
            reduction=None,
            reduction_axis=None,
            dtype=jnp.float32,
        )
        if own_loss:
            logged: Any = model.compute_next_token_loss(batch, reduction=None, reduction_axis=())
        else:
            logged = plain + auxiliary
        weights = batch.loss_weight.rearrange((axis, model.Pos.name)).array
        targets = jnp.roll(batch.tokens.rearrange((axis, model.Pos.name)).array, -1, axis=-1)
        losses = (loss.rearrange((axis, model.Pos.name)).array for loss in (plain, logged))
        counted = tuple((loss * weights).sum() for loss in losses)
        return weights.sum(), *counted, *((jnp.take(table, targets) * weights).sum() for table in tables)

    def one_batch(batch: LmExample) -> list[float]:
        return [float(value) for value in sums(model, batch, tables)]

    table = np.array([one_batch(batch) for batch in loader])
    weights, plain, logged, levanter_count, exact_count = table.T
    return LevanterFigures(
        batch_size=batch_size,
        sequences=len(dataset.as_sync_dataset()),
        bits_per_byte=_mean_of_ratios(plain, levanter_count, weights),
        bits_per_byte_with_auxiliary_loss=_mean_of_ratios(logged, levanter_count, weights),
        bits_per_byte_with_exact_bytes=None if exact_bytes is None else _mean_of_ratios(plain, exact_count, weights),
    )


def _mean_of_ratios(nats: np.ndarray, utf8_bytes: np.ndarray, weights: np.ndarray) -> float:
    """Each batch's bits over its bytes (or over 1, if it has none), weighted by its tokens: Levanter's average."""
    ratios = nats / np.maximum(utf8_bytes, 1.0) / np.log(2)
    return float((ratios * weights).sum() / weights.sum())


def _as_table(lengths: Sequence[int] | np.ndarray) -> jax.Array:
    return jnp.asarray(lengths, dtype=jnp.float32)
