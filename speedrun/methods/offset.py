"""Partial key offset and the half-rotary positions that it stands on.

Positions rotate the first half of each head's dimensions only. In the layers with an offset, the other half of a key
is that of the position before, so that a query finds a token by what preceded it: with one layer what otherwise takes
two (an induction head). The first key of a document has zeros there instead, else it would carry the last token of the
document before it, across the mask. Keys are normalised after the shift.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import jax
from haliax import Axis, NamedArray
from levanter.layers.attention import Attention, AttentionMask
from levanter.layers.rotary import DefaultRotaryEmbeddingsConfig, RotaryEmbeddings, RotaryEmbeddingsConfig
from levanter.models.lm_model import LmConfig

from speedrun.methods.llama import FULL, VariantLlamaConfig, every_fourth_and_last
from speedrun.methods.packing import document_starts

OFFSET = "offset_attention"
"""Type of the layers whose keys are shifted."""


class HalfRotary(RotaryEmbeddings):
    """Rotary positions on the first half of the head's dimensions."""

    HeadSize: Axis = eqx.field(static=True)
    rotary: RotaryEmbeddings

    def __call__(self, q: NamedArray, position_ids: NamedArray) -> NamedArray:
        half = self.HeadSize.size // 2
        rotated = self.rotary(q[self.HeadSize, :half], position_ids)
        return hax.concatenate(self.HeadSize, (rotated, q[self.HeadSize, half:]))


@RotaryEmbeddingsConfig.register_subclass("half")
@dataclass(frozen=True)
class HalfRotaryConfig(DefaultRotaryEmbeddingsConfig):
    """Rotary positions on half of the head's dimensions, at the frequencies of a head of that size."""

    def build(self, HeadSize: Axis) -> HalfRotary:
        return HalfRotary(HeadSize, super().build(HeadSize.resize(HeadSize.size // 2)))


class ShiftedKeys(eqx.Module):
    """A projection to keys of which the second half moves on by one position."""

    projection: Any
    starts: NamedArray

    def __call__(self, x: NamedArray, *, key: Any = None) -> NamedArray:
        k = self.projection(x, key=key)
        half = k.axis_size("head_size") // 2
        before = hax.roll(k["head_size", half:], 1, "position")
        return hax.concatenate("head_size", (k["head_size", :half], hax.where(self.starts, 0.0, before)))


class OffsetAttention(Attention):
    """Levanter's attention with shifted keys."""

    def starts(self, mask: AttentionMask | NamedArray | None, Pos: Axis) -> NamedArray:
        """Whether each position has no key before it to take from."""
        return document_starts(mask, Pos)

    def __call__(self, x: NamedArray, mask: Any, *, key: Any = None, pos_ids: NamedArray | None = None) -> NamedArray:
        shifted = ShiftedKeys(self.k_proj, self.starts(mask, x.resolve_axis("position")))
        return Attention.__call__(dataclasses.replace(self, k_proj=shifted), x, mask, key=key, pos_ids=pos_ids)


@LmConfig.register_subclass("llama_offset")
@dataclass(frozen=True)
class OffsetLlamaConfig(VariantLlamaConfig):
    """A Llama with partial key offset in every fourth layer and the last."""

    def get_layer_types(self) -> Sequence[str]:
        return every_fourth_and_last(self.num_layers, there=OFFSET, elsewhere=FULL)

    def init_attention(self, layer_type: str, *, key: jax.Array) -> Attention:
        plain = Attention.init(self.attention_config(), key=key)
        if layer_type != OFFSET:
            return plain
        return OffsetAttention(**{field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)})
