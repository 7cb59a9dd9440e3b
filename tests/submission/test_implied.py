"""What a record's settings imply, against Levanter's own formulas and published counts."""

import dataclasses
import importlib
from typing import Any

import pytest

from speedrun.records.schema import RunInfo
from speedrun.submission import implied
from speedrun.submission.expected import EVALUATION_SETS, TOKENIZER_OF_DATA


@pytest.fixture
def info(tree: Any) -> RunInfo:
    """A record at 30m."""
    return RunInfo.model_validate(tree.info("adamw", "30m"))


def shaped(info: RunInfo, **settings: Any) -> RunInfo:
    return info.model_copy(update={"model_configuration": info.model_configuration | settings})


def scheduled(info: RunInfo, batch: Any, steps: int) -> RunInfo:
    return info.model_copy(update={"train_config": info.train_config | {"batch_size": batch, "steps": steps}})


@pytest.mark.parametrize(
    ("shape", "length", "flops", "parameters"),
    [
        # The ladder's published figures: 3 x forward in million per token, and parameters.
        ((128, 448, 4, 2, 2), 1024, 110.57, 33_784_960),
        ((256, 896, 8, 4, 4), 1024, 268.08, 73_273_600),
        ((768, 2688, 12, 12, 12), 1024, 1321.35, 299_649_792),
        ((2048, 7168, 16, 16, 8), 4096, 8631.88, 1_431_373_824),
    ],
)
def test_reference_shapes(info: RunInfo, shape: tuple, length: int, flops: float, parameters: int) -> None:
    names = ("hidden_dim", "intermediate_dim", "num_layers", "num_heads", "num_kv_heads")
    info = shaped(info, **dict(zip(names, shape, strict=True)))
    info = info.model_copy(update={"train_config": info.train_config | {"sequence_length": length}})
    counted = implied.forward_flops_per_token(info)
    assert counted is not None and round(3 * counted / 1e6, 2) == flops
    assert implied.parameters(info) == parameters


@pytest.mark.parametrize("name", sorted(implied.CONVENTION_TYPES))
def test_the_types_that_are_counted_by_the_convention_have_it_for_their_own(info: RunInfo, name: str) -> None:
    module, _, cls = name.rpartition(".")
    config_type = getattr(importlib.import_module(module), cls)
    shape = {"hidden_dim": 128, "intermediate_dim": 448, "num_layers": 4, "num_heads": 2, "num_kv_heads": 2}
    known = {field.name for field in dataclasses.fields(config_type)}
    config = config_type(**shape, **({"head_dim": 64} if "Gemma" in cls else {}))
    assert set(shape) <= known
    own = config.flops_per_token(128_256, 1024)
    assert implied.forward_flops_per_token(shaped(info, type=name, **shape)) == pytest.approx(own, rel=1e-12)


def test_a_model_or_head_that_the_convention_does_not_see_is_not_counted(info: RunInfo) -> None:
    assert implied.forward_flops_per_token(shaped(info, type="executor_steps.x.Mine")) is None
    assert implied.forward_flops_per_token(shaped(info, head_dim=128)) is None
    assert implied.forward_flops_per_token(shaped(info, head_dim=64)) is not None
    assert implied.forward_flops_per_token(shaped(info, hidden_dim="128")) is None
    assert implied.parameters(shaped(info, tie_word_embeddings=True)) is None


def test_tokens_of_a_batch_schedule(info: RunInfo) -> None:
    # 10 steps of 4, then 5 of 8, at a length of 1024: 80 sequences.
    schedule = [{"start": 0, "value": 4, "type": "levanter.schedule.ScheduleStep"}, {"start": 10, "value": 8}]
    assert implied.tokens_after(scheduled(info, schedule, 15), 15) == 80 * 1024
    assert implied.tokens_after(scheduled(info, schedule, 15), 10) == 40 * 1024
    assert implied.tokens_after(scheduled(info, schedule, 15), 3) == 12 * 1024
    assert implied.tokens_after(scheduled(info, 7, 3), 3) == 21 * 1024


@pytest.mark.parametrize("batch", [None, "8", 0, -1, [], [3], [{"start": 1, "value": 8}], [{"start": 0}], True])
def test_a_batch_that_is_none_implies_nothing(info: RunInfo, batch: Any) -> None:
    assert implied.tokens_after(scheduled(info, batch, 5), 5) is None


def test_the_tables_cover_the_ladder_and_agree_with_what_is_run() -> None:
    from speedrun.ladder import LADDER

    assert {rung.evaluation_data for rung in LADDER.values() if rung.is_micro} <= set(EVALUATION_SETS)
    assert {rung.training_data for rung in LADDER.values()} <= set(TOKENIZER_OF_DATA)
    for rung in LADDER.values():
        facts = implied.TOKENIZERS[TOKENIZER_OF_DATA[rung.training_data]]
        assert facts.vocab_size == rung.vocab_size
