"""A method that cheats, for tests to catch: partial key offset as it was first built."""

from dataclasses import dataclass

import haliax as hax
from haliax import Axis, NamedArray
from levanter.layers.attention import Attention
from levanter.models.lm_model import LmConfig

from speedrun.methods.offset import OFFSET, OffsetAttention, OffsetLlamaConfig


class LeakyOffsetAttention(OffsetAttention):
    """Shifts keys across packed documents: the first key of a document carries the last token of the one before."""

    def starts(self, mask: object, Pos: Axis) -> NamedArray:
        return hax.arange(Pos) == 0


@LmConfig.register_subclass("llama_leaky_offset")
@dataclass(frozen=True)
class LeakyOffsetLlamaConfig(OffsetLlamaConfig):
    """A Llama in which a document's logits depend on the document before it."""

    def init_attention(self, layer_type: str, *, key: object) -> Attention:
        built = super().init_attention(layer_type, key=key)
        return LeakyOffsetAttention(**vars(built)) if layer_type == OFFSET else built
