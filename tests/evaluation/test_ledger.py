"""The ledger against nats worked out by hand, for a model whose probabilities are known."""

import math
from dataclasses import dataclass

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from haliax import Axis
from levanter.models.lm_model import LmConfig, LmHeadModel

from speedrun import LADDER, reference
from speedrun.evaluation.ledger import bits_per_byte, score_documents

VOCAB = Axis("vocab", 258)
BOS, EOS = 256, 257


class ByteTokenizer:
    """A token a byte."""

    bos_token_id: int | None = BOS
    eos_token_id: int | None = EOS

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return list(text.encode())


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

    def compute_next_token_loss(self, *args, **kwargs):
        # What a model says of its own loss must not enter the score.
        return hax.zeros(())


@pytest.fixture(scope="module")
def model() -> Bigram:
    return Bigram.init(VOCAB, BigramConfig(), key=jax.random.PRNGKey(0))


def by_hand(model: Bigram, text: str) -> float:
    """Nats of one text under the bigram table, in float64."""
    table = np.asarray(model.table.array, dtype=np.float64)
    tokens = [BOS, *text.encode()]
    return sum(
        math.log(sum(math.exp(value) for value in table[last])) - table[last][token]
        for last, token in zip(tokens, tokens[1:], strict=False)
    )


TEXTS = ["hello", "", "é世界🙂", "  two\n\n\nlines ", "longer than one window of eight tokens", "<|end_of_text|>"]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_nats_equal_those_worked_out_by_hand(model: Bigram, batch_size: int) -> None:
    ledger = score_documents(model, TEXTS, ByteTokenizer(), length=8, batch_size=batch_size)
    expected = [by_hand(model, text) for text in TEXTS]
    assert ledger.nats == pytest.approx(expected, rel=1e-5)
    assert list(ledger.bytes) == [len(text.encode()) for text in TEXTS]
    assert list(ledger.tokens) == list(ledger.bytes)
    assert ledger.documents == 5
    total = sum(expected) / math.log(2) / sum(len(text.encode()) for text in TEXTS)
    assert ledger.bits_per_byte == pytest.approx(total, rel=1e-6)


def test_a_uniform_model_takes_log2_of_the_vocabulary_per_byte(model: Bigram) -> None:
    uniform = eqx.tree_at(lambda m: m.table, model, model.table * 0)
    ledger = score_documents(uniform, ["abc"], ByteTokenizer(), length=8, batch_size=2)
    assert ledger.bits_per_byte == pytest.approx(math.log2(258), rel=1e-6)


def test_without_bos_the_end_of_text_token_begins_a_document(model: Bigram) -> None:
    tokenizer = ByteTokenizer()
    tokenizer.bos_token_id = None
    ledger = score_documents(model, ["a"], tokenizer, length=8, batch_size=1)
    row = np.asarray(model.table.array, dtype=np.float64)[EOS]
    assert ledger.nats[0] == pytest.approx(math.log(np.exp(row).sum()) - row[ord("a")], rel=1e-5)


def test_a_value_that_is_not_finite_is_refused(model: Bigram) -> None:
    broken = eqx.tree_at(lambda m: m.table, model, model.table.at["last", ord("q")].set(jnp.nan))
    with pytest.raises(ValueError, match="not finite on document 1"):
        score_documents(broken, ["fine", "quite bad"], ByteTokenizer(), length=8, batch_size=2)
    assert score_documents(broken, ["fine"], ByteTokenizer(), length=8, batch_size=2).bits_per_byte > 0


def test_a_real_llama_does_not_depend_on_the_batch() -> None:
    config = reference.recipe(LADDER["micro_1"]).model
    llama = config.build(Axis("vocab", 258), key=jax.random.PRNGKey(1))
    texts = ["a b c" * n for n in (1, 7, 80)]
    scores = [
        score_documents(llama, texts, ByteTokenizer(), length=32, batch_size=size).bits_per_byte for size in (1, 5, 16)
    ]
    assert scores == pytest.approx([scores[0]] * 3, rel=1e-6)


def test_no_text_has_no_score() -> None:
    with pytest.raises(ValueError, match="no text was scored"):
        bits_per_byte(1.0, 0)
