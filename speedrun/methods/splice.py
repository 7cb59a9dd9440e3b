"""KVSplice: the key-value cache holds a learned compression of each token's keys and values.

    z = LN(W_c [k; v]),  [k'; v'] = W_e z

trained end to end, without biases and without a loss of its own; attention uses k' and v'. Only z need be cached: k is
compressed before its rotary position, which k' gets. On latent attention the same goes for the latent vector from which
keys and values are made. W_c and W_e cost FLOPs, which are counted; the smaller cache is worth nothing to the score.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import haliax.nn as hnn
import jax
from haliax import Axis, NamedArray
from levanter.layers.attention import (
    Attention,
    AttentionConfig,
    MultiHeadLatentAttention,
    MultiHeadLatentAttentionConfig,
)
from levanter.models.lm_model import LmConfig, LmHeadModel

from speedrun.methods.llama import VariantLlamaConfig
from speedrun.records.schema import Metric

PAIR = Axis("key_value", 2)
BYTES_EACH = 2
"""Of a number in the cache: bfloat16."""


class Splice(eqx.Module):
    """W_e LN(W_c x)."""

    compress: hnn.Linear
    norm: hnn.LayerNorm
    expand: hnn.Linear

    @staticmethod
    def init(Whole: Axis | tuple[Axis, ...], ratio: float, *, key: jax.Array) -> "Splice":
        """From ``Whole`` to ``ratio`` times its size, and back."""
        k_compress, k_expand = jax.random.split(key)
        Spliced = Axis("spliced", max(1, round(ratio * hax.axis_size(Whole))))
        return Splice(
            hnn.Linear.init(Whole, Spliced, key=k_compress, use_bias=False, out_first=True),
            hnn.LayerNorm.init(Spliced, use_bias=False),
            hnn.Linear.init(Spliced, Whole, key=k_expand, use_bias=False, out_first=True),
        )

    @property
    def size(self) -> int:
        """Numbers in z."""
        return hax.axis_size(self.compress.Out)

    def __call__(self, x: NamedArray) -> NamedArray:
        return self.expand(self.norm(self.compress(x)))


class SplicedAttention(Attention):
    """Levanter's attention on keys and values that went through a splice."""

    splice: Splice | None = None

    @staticmethod
    def init(config: AttentionConfig, ratio: float, *, key: jax.Array) -> "SplicedAttention":
        """An attention whose cache is ``ratio`` of its keys' and values' size."""
        k_plain, k_splice = jax.random.split(key)
        plain = Attention.init(config, key=k_plain)
        fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
        whole = (PAIR, config.KVHeads, config.HeadSize)
        return SplicedAttention(**fields, splice=Splice.init(whole, ratio, key=k_splice))

    def _compute_qkv(self, x: NamedArray, *, key: Any, pos_ids: NamedArray | None = None) -> Any:
        assert self.splice is not None
        pair = self.splice(hax.stack(PAIR, (self.k_proj(x), self.v_proj(x))))
        given = {name: lambda x, key, at=at: pair[PAIR, at] for at, name in enumerate(("k_proj", "v_proj"))}
        return Attention._compute_qkv(dataclasses.replace(self, **given), x, key=key, pos_ids=pos_ids)


class SplicedLatentNorm(eqx.Module):
    """The norm of a latent vector, and a splice after it."""

    norm: Any
    splice: Splice

    def __call__(self, x: NamedArray) -> NamedArray:
        return self.splice(self.norm(x))


@LmConfig.register_subclass("llama_kvsplice")
@dataclass(frozen=True)
class SplicedLlamaConfig(VariantLlamaConfig):
    """A Llama whose cache holds ``splice_ratio`` of the keys and values."""

    splice_ratio: float = 0.5

    def init_attention(self, layer_type: str, *, key: jax.Array) -> SplicedAttention:
        return SplicedAttention.init(self.attention_config(), self.splice_ratio, key=key)

    def flops_per_token(self, vocab_size: int, context_length: int) -> float:
        """Forward FLOPs a token: Llama's, and those of W_c and W_e."""
        whole = 2 * self.num_kv_heads * self.actual_head_size
        added = self.num_layers * 2 * 2 * whole * round(self.splice_ratio * whole)
        return super().flops_per_token(vocab_size, context_length) + added


@LmConfig.register_subclass("llama_latent")
@dataclass(frozen=True)
class LatentLlamaConfig(VariantLlamaConfig):
    """A Llama with Levanter's multi-head latent attention, spliced or not.

    Half of each head's dimensions have rotary positions, which all heads share, and half come from the latent vector.
    """

    latent_share: float = 0.25
    """Size of the latent vector over the model's width."""
    splice_ratio: float | None = None
    """Of the latent vector, what is cached; None caches it whole."""

    def init_attention(self, layer_type: str, *, key: jax.Array) -> MultiHeadLatentAttention:
        k_latent, k_splice = jax.random.split(key)
        size = self.actual_head_size
        config = MultiHeadLatentAttentionConfig(
            Embed=self.Embed,
            num_heads=self.num_heads,
            kv_lora_rank=round(self.latent_share * self.hidden_dim),
            qk_rope_head_dim=size // 2,
            qk_nope_head_dim=size - size // 2,
            v_head_dim=size,
            upcast_attn=self.upcast_attn,
            attn_backend=self.attn_backend,
            flash_attention_block_size=self.flash_attention_block_size,
            rope=self.rope,
        )
        attention = MultiHeadLatentAttention.init(config, key=k_latent)
        if self.splice_ratio is None:
            return attention
        splice = Splice.init(config.LatentSize, self.splice_ratio, key=k_splice)
        return dataclasses.replace(attention, kv_a_norm=SplicedLatentNorm(attention.kv_a_norm, splice))

    def flops_per_token(self, vocab_size: int, context_length: int) -> None:
        """No formula: the trace is charged."""


def kv_cache(model: LmHeadModel) -> Metric:
    """What a finished model keeps of each token to generate the next."""
    config: Any = model.config
    plain = config.num_layers * 2 * config.num_kv_heads * config.actual_head_size
    layers: Any = eqx.filter_eval_shape(lambda model: model.transformer.layers.unstacked(), model)
    kept = sum(_cached(layer.self_attn) for layer in layers)
    return Metric(
        name="kv_cache",
        value=BYTES_EACH * kept,
        unit="bytes/token",
        meaning=f"Key-value cache in bfloat16, all layers. Plain attention with these heads: {BYTES_EACH * plain}.",
    )


def _cached(attention: Any) -> int:
    """Numbers that a layer's attention keeps of a token."""
    if isinstance(attention, SplicedAttention):
        assert attention.splice is not None
        return attention.splice.size
    if isinstance(attention, MultiHeadLatentAttention):
        norm, config = attention.kv_a_norm, attention.config
        latent = norm.splice.size if isinstance(norm, SplicedLatentNorm) else config.kv_lora_rank
        return latent + config.qk_rope_head_dim
    return 2 * attention.config.num_kv_heads * attention.config.head_size
