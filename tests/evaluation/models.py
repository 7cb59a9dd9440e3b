"""Tiny models for tests: one whose nats can be worked out by hand, and ones that break each a rule."""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from haliax import Axis
from levanter.models.lm_model import LmConfig, LmHeadModel

VOCAB = Axis("vocab", 258)
BOS, EOS = 256, 257


class ByteTokenizer:
    """A token a byte."""

    bos_token_id: int | None = BOS
    eos_token_id: int | None = EOS

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode()


@dataclass(frozen=True)
class BigramConfig(LmConfig):
    max_seq_len: int = 8

    @property
    def model_type(self):
        return Bigram

    @property
    def Embed(self) -> Axis:
        return Axis("embed", VOCAB.size)


class Bigram(LmHeadModel):
    """The next token's logits are a row of a table, given the last token."""

    table: hax.NamedArray
    _config: BigramConfig = eqx.field(static=True)

    @property
    def config(self) -> BigramConfig:
        return self._config

    @property
    def Vocab(self) -> Axis:
        return VOCAB

    @classmethod
    def init(cls, Vocab, config, *, key):
        return cls(hax.random.normal(key, (Axis("last", VOCAB.size), config.Embed)), config)

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        return self.table.take("last", input_ids)

    def get_lm_head(self):
        return hax.named(jnp.eye(VOCAB.size), (self.Embed, VOCAB))

    def resize_vocab(self, new_size, key=None):
        raise NotImplementedError


class Boastful(Bigram):
    """Says that it has no loss at all."""

    def compute_next_token_loss(self, *args, **kwargs):
        return hax.zeros(())


class Capped(Bigram):
    """Says other logits than it is trained on."""

    def __call__(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        return hax.tanh(super().__call__(input_ids, attn_mask, key=key))


class CappedInItsLossToo(Capped):
    """Caps its logits with a loss that does the same."""

    def compute_next_token_loss(self, *args, **kwargs):
        raise NotImplementedError


def two_back(tokens: hax.NamedArray) -> hax.NamedArray:
    """At each position what stands two before it, since all documents end in the same token; at the first two, the
    first."""
    return tokens.take("position", hax.maximum(hax.arange(tokens.resolve_axis("position")) - 2, 0))


class SeesAhead(Bigram):
    """Lets the token after the next one into its answer, a little."""

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        length = input_ids.axis_size("position")
        ahead = input_ids.take("position", hax.minimum(hax.arange(input_ids.resolve_axis("position")) + 2, length - 1))
        return self.table.take("last", input_ids) + 0.01 * self.table.take("last", ahead)


class LooksBack(Bigram):
    """Reads the token before the last one too, as a key that is shifted by one position does: also where that token
    ends another document."""

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        return self.table.take("last", input_ids) + 0.01 * self.table.take("last", two_back(input_ids))


class StaysInside(Bigram):
    """The same, but never across the beginning of a document."""

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        before = 0.01 * self.table.take("last", two_back(input_ids))
        if attn_mask.segment_ids is not None:
            segments = attn_mask.segment_ids[0]
            before = hax.where(two_back(segments) == segments, before, 0.0)
        return self.table.take("last", input_ids) + before


class LooksAround(Bigram):
    """Takes the mean over the batch out of its activations, as a normalization over the batch does."""

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        rows = self.table.take("last", input_ids)
        return rows - 0.1 * hax.mean(rows, "batch")


class Adapts(Bigram):
    """Gets a little better with every call, as a model that trains while it is evaluated does."""

    calls: ClassVar[list[int]] = []

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        def count(_: np.ndarray) -> np.ndarray:
            self.calls.append(1)
            # Only the first two are alike.
            return np.float32(max(0, len(self.calls) - 2))

        calls = jax.pure_callback(count, jax.ShapeDtypeStruct((), jnp.float32), input_ids.array)
        return self.table.take("last", input_ids) * (1 + 0.01 * calls)


class Stumbles(Bigram):
    """Has no number to say after one rare token."""

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        return hax.where(input_ids == 251, jnp.nan, self.table.take("last", input_ids))
