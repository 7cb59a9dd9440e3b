"""Layers that look back a little, and in every fourth and the last one that look back all the way.

- ``WindowLlamaConfig``: the others see a window, and have rotary positions; the global ones have none.
- ``DeltaNetLlamaConfig``: the others are Gated DeltaNets, which keep a state of fixed size instead of looking back.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
from haliax import NamedArray
from levanter.layers.attention import Attention
from levanter.layers.gated_deltanet import GatedDeltaNet, GatedDeltaNetConfig, chunk_gated_delta_rule
from levanter.models.lm_model import LmConfig

from speedrun.methods.llama import FULL, LINEAR, WINDOW, VariantLlamaConfig, every_fourth_and_last
from speedrun.methods.packing import document_starts

FORGET = -200.0
"""Logarithm of the decay at which float32 leaves nothing of a state."""
CHUNK = 32
"""Positions that the delta rule takes at once."""


@LmConfig.register_subclass("llama_windows")
@dataclass(frozen=True)
class WindowLlamaConfig(VariantLlamaConfig):
    """A Llama of windows, and global layers without positions. FLOPs are Llama's: the budget counts every position."""

    sliding_window: int = 1024
    """Positions that a query sees in the layers with a window, its own included."""

    def get_layer_types(self) -> Sequence[str]:
        return every_fourth_and_last(self.num_layers, there=FULL, elsewhere=WINDOW)

    def init_attention(self, layer_type: str, *, key: jax.Array) -> Attention:
        config = self.attention_config()
        if layer_type == FULL:
            return Attention.init(dataclasses.replace(config, rope=None), key=key)
        return Attention.init(dataclasses.replace(config, sliding_window=self.sliding_window), key=key)


@LmConfig.register_subclass("llama_deltanet")
@dataclass(frozen=True)
class DeltaNetLlamaConfig(VariantLlamaConfig):
    """A Llama of Gated DeltaNets, and layers with attention."""

    def get_layer_types(self) -> Sequence[str]:
        return every_fourth_and_last(self.num_layers, there=FULL, elsewhere=LINEAR)

    def init_attention(self, layer_type: str, *, key: jax.Array) -> eqx.Module:
        if layer_type == FULL:
            return Attention.init(self.attention_config(), key=key)
        heads, size = self.num_heads, self.actual_head_size
        net = GatedDeltaNet.init(GatedDeltaNetConfig(self.Embed, heads, heads, size, size), key=key)
        return DocumentDeltaNet(**{field.name: getattr(net, field.name) for field in dataclasses.fields(net)})

    def flops_per_token(self, vocab_size: int, context_length: int) -> None:
        """No formula: the trace is charged."""


class DocumentDeltaNet(GatedDeltaNet):
    """Levanter's Gated DeltaNet, of which nothing passes from one packed document into the next.

    Levanter's own call knows no documents: its state would carry one into the next, and its convolution the last three
    tokens. Here the state decays to nothing where a document starts, and the convolution sees zeros before that. The
    projections, the delta rule and the gated norm are Levanter's. The delta rule inverts a triangle element by element;
    the counter takes matrix products only and so leaves that out, as it does a softmax: 2 CHUNK^2 FLOPs a head and
    token, 1 % of micro_1's forward pass and less above.
    """

    def __call__(self, x: NamedArray, mask: Any, *, key: Any = None, pos_ids: NamedArray | None = None) -> NamedArray:  # type: ignore[override]
        config = self.config
        Pos = x.resolve_axis("position")
        starts = document_starts(mask, Pos)
        parts = self._fix_qkvz_ordering(self.in_proj_qkvz(x), self.in_proj_ba(x))
        q, k, v, z, b, a = (part.rename({"k_heads": "v_heads"}) if part.has_axis("k_heads") else part for part in parts)
        filters = jnp.split(self.conv_weight.astype(jnp.float32), [config.key_dim, 2 * config.key_dim])
        age = _age(starts, Pos)
        q, k, v = (_convolved(part, filter, age) for part, filter in zip((q, k, v), filters, strict=True))
        rate = hax.exp(hax.named(self.A_log.astype(jnp.float32), config.VHeads))
        decay = -rate * hax.nn.softplus(a.astype(jnp.float32) + hax.named(self.dt_bias, config.VHeads))
        arguments = (q, k, v, hax.where(starts, FORGET, decay), hax.nn.sigmoid(b))
        out, _ = chunk_gated_delta_rule(*(each.rename({"v_heads": "heads"}) for each in arguments), chunk_size=CHUNK)
        return self.out_proj(self.o_norm(out.rename({"heads": "v_heads"}), gate=z).astype(x.dtype))


def _age(starts: NamedArray, Pos: hax.Axis) -> NamedArray:
    """How many tokens of its document stand before each position."""
    at = hax.arange(Pos)
    begun = hax.where(starts, at, 0)
    axis = begun.axes.index(Pos)
    return at - dataclasses.replace(begun, array=jax.lax.cummax(begun.array, axis=axis))


def _convolved(x: NamedArray, filter: jax.Array, age: NamedArray) -> NamedArray:
    """silu of a causal convolution of each channel, with zeros before a document's first token.

    Args:
        x: channels as (v_heads, size of a head).
        filter: (channels, taps), the last tap for the token itself.
    """
    channels = tuple(axis for axis in x.axes if axis.name == "v_heads" or axis.name.endswith("head_dim"))
    taps = filter.shape[1]
    y = 0
    for back in range(taps):
        tap = hax.named(filter[:, taps - 1 - back].reshape([axis.size for axis in channels]), channels)
        y = y + tap * hax.where(age >= back, hax.roll(x, back, "position"), 0.0)
    return hax.nn.silu(y)
