"""Probes: a sound model passes, and each way of being unsound is caught by its probe."""

import dataclasses

import haliax as hax
import jax
import pytest
from haliax import Axis

from speedrun import LADDER, reference
from speedrun.evaluation.nats import nats_function
from speedrun.evaluation.probes import ProbesFailed, check_probes, probe_model
from speedrun.methods.attention import like
from speedrun.methods.offset import HalfRotaryConfig, OffsetLlamaConfig
from speedrun.records.schema import PROBE_LIMITS, Probe
from tests.evaluation import models
from tests.evaluation.models import BOS, EOS, VOCAB, BigramConfig
from tests.methods.leaky import LeakyOffsetLlamaConfig

DOCUMENTS = [list(text.encode()) for text in ("one short text", "a longer one, " * 8, "x")]


def probe(model: hax.nn.Linear) -> dict[str, Probe]:
    found = probe_model(nats_function(model), DOCUMENTS, bos=BOS, end=EOS, vocab_size=VOCAB.size, length=64)
    assert [probe.name for probe in found] == list(PROBE_LIMITS)
    return {probe.name: probe for probe in found}


@pytest.mark.parametrize("kind", [models.Bigram, models.StaysInside])
def test_a_sound_model_passes(kind: type[models.Bigram]) -> None:
    table = models.Bigram.init(VOCAB, BigramConfig(max_seq_len=64), key=jax.random.PRNGKey(0)).table
    found = probe(kind(table, BigramConfig(max_seq_len=64)))
    assert all(probe.passed for probe in found.values()), found
    check_probes(list(found.values()))


@pytest.mark.slow
def test_a_real_llama_passes() -> None:
    llama = reference.recipe(LADDER["micro_1"]).model.build(Axis("vocab", 258), key=jax.random.PRNGKey(1))
    assert all(probe.passed for probe in probe(llama).values())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "failed"), [(OffsetLlamaConfig, set()), (LeakyOffsetLlamaConfig, {"isolation"})])
def test_keys_shifted_across_packed_documents_are_caught(kind: type[OffsetLlamaConfig], failed: set[str]) -> None:
    shape = like(reference.model("micro_2"), kind)
    config = dataclasses.replace(shape, rope=HalfRotaryConfig(), use_qk_norm=True)
    model = config.build(Axis("vocab", 258), key=jax.random.PRNGKey(1))
    assert {name for name, probe in probe(model).items() if not probe.passed} == failed


@pytest.mark.parametrize(
    ("kind", "caught_by"),
    [
        (models.SeesAhead, {"causality"}),
        (models.LooksBack, {"isolation"}),
        (models.LooksAround, {"batch"}),
        # Whatever is asked twice has another answer.
        (models.Adapts, {"causality", "batch", "state", "isolation"}),
        # The other probes may meet the token too.
        (models.Stumbles, {"finite"}),
    ],
)
def test_an_unsound_model_is_caught(kind: type[models.Bigram], caught_by: set[str]) -> None:
    models.Adapts.calls.clear()
    table = models.Bigram.init(VOCAB, BigramConfig(max_seq_len=64), key=jax.random.PRNGKey(0)).table
    found = probe(kind(table, BigramConfig(max_seq_len=64)))
    failed = {name for name, probe in found.items() if not probe.passed}
    assert failed == caught_by if kind is not models.Stumbles else failed >= caught_by
    with pytest.raises(ProbesFailed, match=f"{min(caught_by)}: .* limit "):
        check_probes(list(found.values()))
