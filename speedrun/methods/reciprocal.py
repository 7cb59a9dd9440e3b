"""Reciprocal attention: a few heads attend once more with queries and keys exchanged.

    y = W_o SDPA(q, k, v) + tanh(b) LN(W_r SDPA(k_S, q_S, v_S))

S are the last ``heads`` query heads; where queries share a key head, it stands for each of them. b is a scalar of the
layer that starts at 0, so that the model starts as a plain one. Both attentions are causal.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import haliax as hax
import haliax.nn as hnn
import jax
from haliax import Axis, NamedArray
from levanter.layers.attention import Attention, AttentionConfig
from levanter.models.lm_model import LmConfig

from speedrun.methods.llama import VariantLlamaConfig, attend


class ReciprocalAttention(Attention):
    """See the module."""

    reciprocal_proj: hnn.Linear | None = None
    reciprocal_norm: hnn.LayerNorm | None = None
    reciprocal_gate: NamedArray | None = None

    @staticmethod
    def init(config: AttentionConfig, heads: int = 1, *, key: jax.Array) -> "ReciprocalAttention":
        """An attention whose last ``heads`` heads are reciprocal too."""
        k_plain, k_reciprocal = jax.random.split(key)
        plain = Attention.init(config, key=k_plain)
        into = (Axis("reciprocal_heads", heads), config.HeadSize)
        return ReciprocalAttention(
            **{field.name: getattr(plain, field.name) for field in dataclasses.fields(Attention)},
            reciprocal_proj=hnn.Linear.init(into, config.Embed, key=k_reciprocal, use_bias=False, out_first=True),
            reciprocal_norm=hnn.LayerNorm.init(config.Embed, use_bias=False),
            reciprocal_gate=hax.zeros(()),
        )

    def __call__(self, x: NamedArray, mask: Any, *, key: Any = None, pos_ids: NamedArray | None = None) -> NamedArray:
        assert self.reciprocal_proj and self.reciprocal_norm and self.reciprocal_gate is not None
        config, heads = self.config, ("kv_head", "q_heads_per_group")
        q, k, v = self._compute_qkv(x, key=key, pos_ids=pos_ids)
        y = attend(config, q, k, v, mask).flatten_axes(heads, "heads").astype(x.dtype)
        count = self.reciprocal_proj.In[0].size

        def last(each: NamedArray) -> NamedArray:
            whole = each.broadcast_axis(config.QHeadsPerGroup).rearrange((..., *heads, "position", "head_size"))
            some = whole.flatten_axes(heads, "heads")["heads", hax.ds(config.num_heads - count, count)]
            return some.rename({"heads": "reciprocal_heads"})

        again = self.reciprocal_norm(self.reciprocal_proj(attend(config, last(k), last(q), last(v), mask)))
        return self.o_proj(y) + hax.tanh(self.reciprocal_gate) * again.astype(x.dtype)


@LmConfig.register_subclass("llama_reciprocal")
@dataclass(frozen=True)
class ReciprocalLlamaConfig(VariantLlamaConfig):
    """A Llama with reciprocal attention."""

    reciprocal_heads: int = 1

    def init_attention(self, layer_type: str, *, key: jax.Array) -> ReciprocalAttention:
        return ReciprocalAttention.init(self.attention_config(), self.reciprocal_heads, key=key)

    def flops_per_token(self, vocab_size: int, context_length: int) -> float:
        """Forward FLOPs a token: Llama's, and for each reciprocal head its scores, softmax, weighted sum and W_r."""
        size = self.actual_head_size
        a_head = 4 * context_length * size + 3 * context_length + 2 * size * self.hidden_dim
        added = self.num_layers * self.reciprocal_heads * a_head
        return super().flops_per_token(vocab_size, context_length) + added
