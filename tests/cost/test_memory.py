"""Bytes per chip against sums done by hand."""

import dataclasses

import pytest
from levanter.models.llama import LlamaConfig
from levanter.optim.config import AdamConfig
from levanter.optim.muon import MuonConfig
from levanter.optim.soap import SoapConfig

from speedrun.cost.memory import estimate_memory
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError

GIB = 2**30
LARGE = LlamaConfig(
    max_seq_len=4096, hidden_dim=2048, intermediate_dim=7168, num_layers=16, num_heads=16, num_kv_heads=8
)
TINY = LlamaConfig(max_seq_len=64, hidden_dim=32, intermediate_dim=64, num_layers=2, num_heads=2, num_kv_heads=2)
TINY_PARAMETERS = 2 * 512 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32


def workload(model: LlamaConfig = TINY, optimizer: object = None, **changes: object) -> Workload:
    return dataclasses.replace(Workload(model, optimizer or AdamConfig(), 512, model.max_seq_len, 8), **changes)


def test_adam_needs_twelve_bytes_a_parameter_split_over_the_chips() -> None:
    large = workload(LARGE, vocab_size=128_256, batch_size=16)
    one, eight = estimate_memory(large, 1), estimate_memory(large, 8)
    assert one.parameters_bytes == 4 * 1_431_373_824
    assert one.optimizer_bytes == pytest.approx(8 * 1_431_373_824, abs=100)  # and a few counters
    assert one.state_bytes / GIB == pytest.approx(16.00, abs=0.005)
    assert eight.state_bytes / GIB == pytest.approx(2.00, abs=0.005)
    # Between the layers: 16 sequences of 4,096 positions, width 2,048, 16 layers, two bytes.
    assert one.saved_bytes == 16 * 4096 * 2048 * 16 * 2
    assert eight.saved_bytes == one.saved_bytes // 8
    # XLA's own figure for this step is 30.8 GiB on one H100 and 7.9 GiB on eight with batch 64.
    assert 25 < one.at_least_bytes / GIB < 30.8
    assert one.cannot_fit(24 * GIB) and not one.cannot_fit(80 * GIB)


def test_muon_keeps_one_moment_for_its_matrices() -> None:
    adam, muon = estimate_memory(workload(), 1), estimate_memory(workload(optimizer=MuonConfig()), 1)
    matrices = 2 * (4 * 32 * 32 + 3 * 32 * 64)
    assert adam.parameters_bytes == muon.parameters_bytes == 4 * TINY_PARAMETERS
    assert adam.optimizer_bytes - muon.optimizer_bytes == pytest.approx(4 * matrices, abs=64)


def test_arrays_without_names_are_held_whole_by_every_chip() -> None:
    assert estimate_memory(workload(), 8).replicated_bytes < 100
    soap = workload(optimizer=SoapConfig())
    one, eight = estimate_memory(soap, 1), estimate_memory(soap, 8)
    assert one.replicated_bytes == 0
    # A pair of 32 x 32 preconditioners for each projection, at the least.
    assert eight.replicated_bytes > 2 * 2 * 4 * 2 * 32 * 32 * 4
    assert eight.state_bytes > eight.replicated_bytes + one.parameters_bytes // 8


def test_precision_decides_the_bytes() -> None:
    half = estimate_memory(workload(precision="bfloat16"), 1)
    assert half.parameters_bytes == 2 * TINY_PARAMETERS


def test_a_width_that_cannot_be_split_is_a_clear_error() -> None:
    odd = dataclasses.replace(TINY, hidden_dim=36, num_heads=2)
    with pytest.raises(SpeedrunError, match="embed = 36 cannot be split evenly over 8 chips"):
        estimate_memory(workload(odd), 8)
    with pytest.raises(SpeedrunError, match="one chip or more"):
        estimate_memory(workload(), 0)
