"""Levanter's own figure, and what it counts in, against Levanter's own evaluator."""

import dataclasses
import math
from typing import Any

import haliax as hax
import jax
import jmp
import numpy as np
import pytest
from haliax import Axis
from levanter.data.dataset import ListAsyncDataset
from levanter.eval import TaggedEvaluator, _default_lm_eval_loss_fn
from levanter.models.lm_model import LmExample
from levanter.models.mixtral import MixtralConfig
from levanter.trainer import TrainerConfig

from speedrun.cost.abstract import training_mesh
from speedrun.evaluation.ledger import score_documents
from speedrun.evaluation.levanter_bpb import levanter_figures
from tests.evaluation.models import BOS, EOS, ByteTokenizer

MIXTRAL = MixtralConfig(
    max_seq_len=16,
    hidden_dim=16,
    intermediate_dim=32,
    num_layers=2,
    num_heads=2,
    num_kv_heads=2,
    n_routed_experts=4,
    num_experts_per_tok=2,
)


class Bytes(ByteTokenizer):
    """A byte-level tokenizer with two tokens a byte from 128 on, whose bytes Levanter takes for three."""

    all_special_ids = (BOS, EOS)

    def get_vocab(self) -> dict[str, int]:
        from tokenizers import pre_tokenizers

        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        return {character: at for at, character in enumerate(alphabet)} | {"<bos>": BOS, "<eos>": EOS}

    def convert_ids_to_tokens(self, at: int) -> str:
        return {at: token for token, at in self.get_vocab().items()}[at]

    def decode(self, ids: list[int]) -> str:
        return "." + "\ufffd" * (len(ids) - 1)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return list(text.encode())


@pytest.fixture(scope="module")
def trainer() -> TrainerConfig:
    return TrainerConfig(mesh=training_mesh(), require_accelerator=False)


@pytest.mark.slow
def test_it_is_levanter_s_own_figure_with_its_auxiliary_loss_and_less_without(trainer: TrainerConfig) -> None:
    random = np.random.default_rng(0)
    position = Axis("position", 16)
    rows = random.integers(0, 256, (5, 16), dtype=np.int32)
    dataset = ListAsyncDataset([LmExample.causal(hax.named(row, position), eos_id=EOS) for row in rows])
    policy = jmp.get_policy("f32")
    with trainer.use_device_mesh(), hax.axis_mapping(trainer.parameter_axis_mapping):
        found = {}
        for coefficient in (0.01, 10.0):
            config = dataclasses.replace(MIXTRAL, lbl_coef=coefficient)
            model = config.build(Axis("vocab", 258), key=jax.random.PRNGKey(2))
            mapping = trainer.compute_axis_mapping
            ours = levanter_figures(
                model, dataset, Bytes(), batch_size=2, policy=policy, mesh=trainer.device_mesh, mapping=mapping
            )
            axis = Axis("batch", 2)
            theirs = TaggedEvaluator(
                axis,
                [(dataset, ["heldout"])],
                lambda model, batch, axis=axis: _default_lm_eval_loss_fn(model, batch, EvalBatch=axis, mp=policy),
                Bytes(),
                trainer.device_mesh,
                mapping,
            ).evaluate(model)
            assert ours.bits_per_byte_with_auxiliary_loss == pytest.approx(theirs.micro_bpb, rel=1e-5)
            scored = score_documents(model, ["some text"], ByteTokenizer(), length=16, batch_size=2, mapping=mapping)
            found[coefficient] = (ours, scored.bits_per_byte)
    (little, score), (much, other_score) = found.values()
    assert much.bits_per_byte_with_auxiliary_loss > little.bits_per_byte_with_auxiliary_loss + 1
    assert (much.bits_per_byte, other_score) == (little.bits_per_byte, score)
    assert little.bits_per_byte < little.bits_per_byte_with_auxiliary_loss
    # Each of these tokens is a byte and counted as three.
    assert little.bits_per_byte_with_exact_bytes == pytest.approx(3 * little.bits_per_byte, rel=1e-6)
    assert (little.batch_size, little.sequences) == (2, 5)


@pytest.mark.slow
def test_a_run_has_levanter_s_figure_as_it_was_logged_in_training(record: dict[str, Any]) -> None:
    evaluation = record["evaluation"]
    figures = evaluation["levanter"]
    assert figures["bits_per_byte_with_auxiliary_loss"] == pytest.approx(record["eval/micro/heldout/bpb"], rel=1e-6)
    assert figures["bits_per_byte"] == figures["bits_per_byte_with_auxiliary_loss"], "a dense model has no such loss"
    assert figures["bits_per_byte_with_exact_bytes"] == pytest.approx(evaluation["bits_per_byte"], rel=0.02)
    assert evaluation["end_of_text_bits_per_byte"] > evaluation["bits_per_byte"]
    assert evaluation["bits_per_byte"] == pytest.approx(evaluation["nats"] / math.log(2) / evaluation["bytes"])
