"""The FLOPs that a record holds beside those that were charged, against sums done by hand."""

import pytest
from levanter.models.gpt2_hyena import Gpt2HyenaConfig
from levanter.models.hyena import HyenaConfig
from levanter.models.qwen import QwenConfig
from levanter.optim.muon import MuonConfig
from levanter.optim.soap import SoapConfig

from speedrun import LADDER, reference
from speedrun.cost.conventions import optimizer_share
from speedrun.steps.flops import count_recipe

RECIPE = reference.recipe(LADDER["micro_1"])
VOCAB = LADDER["micro_1"].vocab_size


def newton_schulz(m: int, n: int) -> int:
    """Five steps of X X', its square, and B X."""
    return 5 * (2 * m * m * n + 2 * m**3 + 2 * m * m * n)


def test_muons_own_flops_and_their_share_are_known() -> None:
    counted = count_recipe(RECIPE.replace(optimizer=MuonConfig()), VOCAB)
    by_hand = 2 * (4 * newton_schulz(48, 48) + 3 * newton_schulz(48, 128))
    assert counted.flops.optimizer_flops_per_step == by_hand
    model_flops_per_step = 3 * 408_576 * 8 * 256
    assert optimizer_share(model_flops_per_step, by_hand) == pytest.approx(1 / (1 + 2_510_290_944 / 68_567_040))


def test_an_optimizer_that_cannot_be_counted_has_no_figure_but_a_reason() -> None:
    flops = count_recipe(RECIPE.replace(optimizer=SoapConfig()), VOCAB).flops
    assert flops.optimizer_flops_per_step is None
    assert flops.traced_forward_flops_per_token == 405_504  # the model is counted all the same
    assert flops.unknown.keys() == {"optimizer_flops_per_step"}
    assert "at least" in flops.unknown["optimizer_flops_per_step"]


def test_a_model_without_a_formula_is_traced_and_says_so() -> None:
    model = Gpt2HyenaConfig(max_seq_len=64, num_layers=2, hyena=HyenaConfig(hidden_dim=32, max_seq_len=64))
    flops = count_recipe(RECIPE.replace(model=model, sequence_length=64), VOCAB).flops
    assert flops.convention_forward_flops_per_token is None
    assert flops.causal_forward_flops_per_token is None
    assert "Gpt2HyenaConfig has no formula" in flops.unknown["convention_forward_flops_per_token"]
    assert flops.traced_forward_flops_per_token


def test_a_run_that_was_trained_keeps_its_record_whatever_the_trace_says() -> None:
    shape = {"max_seq_len": 64, "hidden_dim": 48, "num_layers": 2, "num_heads": 2, "num_kv_heads": 2}
    untraceable = QwenConfig(**shape, sliding_window=16, use_sliding_window=True)
    counted = count_recipe(RECIPE.replace(model=untraceable, sequence_length=64), VOCAB)
    assert counted.active_parameters is None
    assert counted.flops.traced_forward_flops_per_token is None
    assert len(counted.flops.unknown) == 4
    assert all(counted.flops.unknown.values())
