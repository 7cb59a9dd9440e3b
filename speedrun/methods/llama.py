"""Llamas of which a candidate replaces one part of the layers: the attention or the MLP. The rest stays Levanter's.

Levanter's Llama builds every layer alike, with its own attention and MLP. A ``VariantLlamaConfig`` is asked for both,
layer by layer; a subclass overrides what it changes. Layers of one type are scanned over, as in Levanter; layers of
several types run one after the other.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
from haliax import Axis, NamedArray
from haliax.jax_utils import shaped_rng_split
from haliax.nn.scan import BlockSeq, ScanCheckpointPolicy, Stacked
from levanter.layers.attention import Attention, AttentionConfig, AttentionMask, dot_product_attention
from levanter.models.llama import LlamaConfig, LlamaDecoderLayer, LlamaLMHeadModel, LlamaMlp

FULL, WINDOW, LINEAR = "full_attention", "sliding_attention", "linear_attention"
"""Types of layers, by the names that Hugging Face's configurations have for them."""


def every_fourth_and_last(num_layers: int, *, there: str, elsewhere: str) -> list[str]:
    """A type for each layer: ``there`` at every fourth and at the last, ``elsewhere`` at the others."""
    return [there if at % 4 == 0 or at == num_layers else elsewhere for at in range(1, num_layers + 1)]


@dataclass(frozen=True)
class VariantLlamaConfig(LlamaConfig):
    """A Llama that says itself what each layer is made of."""

    def get_layer_types(self) -> Sequence[str]:
        """The type of each layer."""
        return [FULL] * self.num_layers

    def init_attention(self, layer_type: str, *, key: jax.Array) -> eqx.Module:
        """The attention of a layer of this type; called as Levanter's ``Attention`` is."""
        return Attention.init(self.attention_config(), key=key)

    def init_mlp(self, *, key: jax.Array) -> eqx.Module:
        """What stands for the MLP of a layer; called as Levanter's ``LlamaMlp`` is."""
        return LlamaMlp.init(self.Embed, self.Mlp, self.activation_function, key=key, use_bias=self.use_bias)

    def build(self, Vocab: Axis, *, key: jax.Array) -> LlamaLMHeadModel:
        """Levanter's Llama with these layers."""
        model: Any = super().build(Vocab, key=key)
        layers = _layers(self, shaped_rng_split(jax.random.fold_in(key, 0), self.num_layers))
        return dataclasses.replace(model, transformer=dataclasses.replace(model.transformer, layers=layers))


def _layers(config: VariantLlamaConfig, keys: jax.Array) -> Any:
    types = config.get_layer_types()
    policy = config.gradient_checkpointing
    if len(set(types)) == 1 and config.scan_layers:
        return Stacked.init(config.Layers, VariantLayer, gradient_checkpointing=policy)(config, types[0], key=keys)
    layers = [VariantLayer.init(config, each, key=key) for each, key in zip(types, keys, strict=True)]
    if policy:
        # haliax recomputes activations in a scan only.
        layers = [dataclasses.replace(layer, recompute=True) for layer in layers]
    return BlockSeq(layers, config.Layers, ScanCheckpointPolicy._mk(policy))


class VariantLayer(LlamaDecoderLayer):
    """Levanter's layer with the attention and the MLP that its config gives."""

    recompute: bool = eqx.field(default=False, static=True)
    """Whether the backward pass computes the layer's activations again instead of keeping them."""

    @staticmethod
    def init(config: VariantLlamaConfig, layer_type: str, *, key: jax.Array) -> "VariantLayer":
        """A layer of ``layer_type``."""
        k_attention, k_mlp = jax.random.split(key, 2)
        return VariantLayer(
            config,
            config.init_attention(layer_type, key=k_attention),  # type: ignore[arg-type]
            config.init_mlp(key=k_mlp),  # type: ignore[arg-type]
            config.mk_LayerNorm(config.Embed),
            config.mk_LayerNorm(config.Embed),
        )

    def __call__(self, x: NamedArray, mask: Any, *, key: Any = None, pos_ids: NamedArray | None = None) -> NamedArray:
        def call(layer: VariantLayer, x: NamedArray, mask: Any) -> NamedArray:
            return LlamaDecoderLayer.__call__(layer, x, mask, key=key, pos_ids=pos_ids)

        return eqx.filter_checkpoint(call)(self, x, mask) if self.recompute else call(self, x, mask)


def attend(
    config: AttentionConfig, q: NamedArray, k: NamedArray, v: NamedArray, mask: AttentionMask | NamedArray | None
) -> NamedArray:
    """softmax(q k' / sqrt(head_size)) v as Levanter's ``Attention`` has it, for queries and keys made elsewhere.

    Args:
        q: position, head_size and heads, by whatever names.
        k: the same, with as many heads or fewer.
        v: as ``k``.
    """
    k, v = (each.rename({"position": "key_position"}) for each in (k, v))
    return dot_product_attention(
        "position",
        "key_position",
        "head_size",
        q,
        k,
        v,
        mask,
        attention_dtype=jax.numpy.float32 if config.upcast_attn else q.dtype,
        attn_backend=config.attn_backend,
        flash_block_size=config.flash_attention_block_size,
        scaling_factor=config.scaling_factor,
        logits_soft_cap=config.logits_soft_cap,
    )
