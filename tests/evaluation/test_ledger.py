"""The ledger against nats worked out by hand, for a model whose probabilities are known."""

import math
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from haliax import Axis

from speedrun import LADDER, reference
from speedrun.errors import SpeedrunError
from speedrun.evaluation.ledger import bits_per_byte, padded_widths, score_documents
from tests.evaluation.models import (
    BOS,
    EOS,
    VOCAB,
    Bigram,
    BigramConfig,
    Boastful,
    ByteTokenizer,
    Capped,
    CappedInItsLossToo,
)

TEXTS = {
    "ASCII": "hello",
    "empty": "",
    "accents": "é ñ, e\u0301 (combining)",
    "CJK": "世界 こんにちは",
    "emoji": "🙂👩\u200d👩\u200d👧",
    "spaces and newlines": "  two\n\n\nlines \t ",
    "longer than the context": "longer than one window of eight tokens",
    "just as long as two windows": "sixteen letters!",
    "ends in a space": "the end ",
    "spells end-of-text": "<|end_of_text|>",
}


@pytest.fixture(scope="module")
def model() -> Bigram:
    return Bigram.init(VOCAB, BigramConfig(), key=jax.random.PRNGKey(0))


def by_hand(model: Bigram, tokens: list[int]) -> float:
    """Nats of tokens after BOS under the bigram table, in float64."""
    table = np.asarray(model.table.array, dtype=np.float64)
    return sum(
        math.log(sum(math.exp(value) for value in table[last])) - table[last][token]
        for last, token in zip([BOS, *tokens], tokens, strict=False)
    )


@pytest.mark.parametrize("kind", TEXTS)
def test_nats_equal_those_worked_out_by_hand(model: Bigram, kind: str) -> None:
    text = TEXTS[kind]
    ledger = score_documents(model, [text, "x"], ByteTokenizer(), length=8, batch_size=4)
    utf8 = list(text.encode())
    assert ledger.nats[0] == pytest.approx(by_hand(model, utf8), rel=1e-5)
    assert (ledger.bytes[0], ledger.tokens[0], ledger.documents) == (len(utf8), len(utf8), 2 if text else 1)
    with_end = by_hand(model, [*utf8, EOS]) + by_hand(model, [ord("x"), EOS]) if text else by_hand(model, [120, EOS])
    assert ledger.end_of_text_bits_per_byte == pytest.approx(with_end / math.log(2) / (len(utf8) + 1), rel=1e-5)


@pytest.mark.parametrize("batch_size", [1, 8, 64])
@pytest.mark.parametrize("block", [7, 100, 258, 8192])
def test_neither_batch_nor_blocks_of_the_vocabulary_change_a_score(model: Bigram, batch_size: int, block: int) -> None:
    texts = list(TEXTS.values())
    ledger = score_documents(model, texts, ByteTokenizer(), length=8, batch_size=batch_size, block=block)
    expected = [by_hand(model, list(text.encode())) for text in texts]
    assert ledger.nats == pytest.approx(expected, rel=1e-5)
    total = sum(expected) / math.log(2) / sum(len(text.encode()) for text in texts)
    assert ledger.bits_per_byte == pytest.approx(total, rel=1e-6)


def test_windows_are_padded_by_less_than_three_tenths() -> None:
    assert padded_widths(8) == [8]
    assert padded_widths(64) == [32, 46, 64]  # 64 / 2, 64 / sqrt 2 = 45.25..., 64
    widths = padded_widths(4096)
    for tokens in range(33, 4097):
        width = next(width for width in widths if width >= tokens)
        assert (width - tokens) / width < 0.3


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
    tokenizer.eos_token_id = None
    with pytest.raises(SpeedrunError, match="neither a BOS nor an end-of-text token"):
        score_documents(model, ["a"], tokenizer, length=8, batch_size=1)


def test_a_value_that_is_not_finite_is_refused(model: Bigram) -> None:
    broken = eqx.tree_at(lambda m: m.table, model, model.table.at["last", ord("q")].set(jnp.nan))
    with pytest.raises(ValueError, match="not finite on document 1"):
        score_documents(broken, ["fine", "quite bad"], ByteTokenizer(), length=8, batch_size=2)
    assert score_documents(broken, ["fine"], ByteTokenizer(), length=8, batch_size=2).bits_per_byte > 0


def test_a_model_gains_nothing_by_a_loss_of_its_own(model: Bigram) -> None:
    boastful = Boastful(model.table, model.config)
    assert float(boastful.compute_next_token_loss(None).array) == 0
    honest, said = (
        score_documents(each, ["some text"], ByteTokenizer(), length=8, batch_size=1) for each in (model, boastful)
    )
    assert said.bits_per_byte == honest.bits_per_byte > 1


def test_logits_that_no_loss_trains_are_refused(model: Bigram) -> None:
    capped = Capped(model.table, model.config)
    with pytest.raises(SpeedrunError, match="Capped's logits are not its activations times its head"):
        score_documents(capped, ["text"], ByteTokenizer(), length=8, batch_size=1)


def test_logits_that_a_loss_of_its_own_trains_are_scored_whole(model: Bigram) -> None:
    capped = CappedInItsLossToo(model.table, model.config)
    ledger = score_documents(capped, ["text"], ByteTokenizer(), length=8, batch_size=1, block=100)
    logits = np.tanh(np.asarray(model.table.array, dtype=np.float64))
    pairs = zip([BOS, *b"tex"], b"text", strict=True)
    expected = sum(math.log(np.exp(logits[last]).sum()) - logits[last][token] for last, token in pairs)
    assert ledger.nats[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_a_real_llama_does_not_depend_on_the_batch() -> None:
    config = reference.recipe(LADDER["micro_1"]).model
    llama = config.build(Axis("vocab", 258), key=jax.random.PRNGKey(1))
    texts = ["a b c" * n for n in (1, 7, 80)]
    scores = [
        score_documents(llama, texts, ByteTokenizer(), length=32, batch_size=size, block=block).bits_per_byte
        for size, block in ((1, 8192), (8, 50), (64, 8192))
    ]
    assert scores == pytest.approx([scores[0]] * 3, rel=1e-6)


EIGHT_DEVICES = """
import haliax as hax, jax, numpy as np
from haliax import Axis
from levanter.trainer import TrainerConfig
from speedrun import LADDER, reference
from speedrun.cost.abstract import training_mesh
from speedrun.evaluation.ledger import score_documents
from tests.evaluation.models import ByteTokenizer

trainer = TrainerConfig(mesh=training_mesh(), require_accelerator=False)
texts = ["a b c" * n for n in (1, 7, 80)]
with trainer.use_device_mesh(), hax.axis_mapping(trainer.parameter_axis_mapping):
    config = reference.recipe(LADDER["micro_1"]).model
    model = hax.named_jit(lambda key: config.build(Axis("vocab", 264), key=key))(jax.random.PRNGKey(1))
    for size in (1, 8, 64):
        mapping = trainer.compute_axis_mapping
        ledger = score_documents(model, texts, ByteTokenizer(), length=32, batch_size=size, mapping=mapping)
        print(jax.device_count(), repr(ledger.bits_per_byte))
"""


@pytest.mark.slow
def test_one_device_and_eight_agree() -> None:
    def scores(devices: int) -> list[float]:
        flags = f"--xla_force_host_platform_device_count={devices}"
        environment = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [sys.executable, "-c", EIGHT_DEVICES], env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        counted = [line.split() for line in done.stdout.splitlines()]
        assert [int(count) for count, _ in counted] == [devices] * 3
        return [float(score) for _, score in counted]

    one, eight = scores(1), scores(8)
    assert [*one, *eight] == pytest.approx([one[0]] * 6, rel=1e-6)


def test_no_text_has_no_score() -> None:
    with pytest.raises(ValueError, match="no text was scored"):
        bits_per_byte(1.0, 0)
