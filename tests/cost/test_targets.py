"""What compilers are told of hardware."""

import pytest

from speedrun.cost.targets import target_for
from speedrun.errors import SpeedrunError
from speedrun.hardware import parse_hardware

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "topology", "chips", "gib"),
    [
        ("v5p-8", "v5p:2x2x1", 4, 95),  # cores in the name, chips in the topology
        ("v5p-64", "v5p:2x4x4", 32, 95),
        ("v4-8", "v4:2x2x1", 4, 32),
        ("v5litepod-4", "v5e:2x2", 4, 16),
        ("v5e-8", "v5e:2x4", 8, 16),
        ("v6e-8", "v6e:2x4", 8, 32),
        ("h100x1", "1x1x1", 1, 80),
        ("h100x8", "1x1x8", 8, 80),
        ("h100x16", "1x2x8", 16, 80),
        ("h200x8", "1x1x8", 8, 141),
    ],
)
def test_topologies(name: str, topology: str, chips: int, gib: int) -> None:
    target = target_for(parse_hardware(name)[0])
    assert (target.topology, target.chips, target.capacity_bytes) == (topology, chips, gib * GIB)


def test_a_v4_chip_is_one_device_and_a_small_slice_one_host() -> None:
    assert target_for(parse_hardware("v4-8")[0]).options == {"chip_config_name": "megacore"}
    assert target_for(parse_hardware("v6e-8")[0]).options == {"chips_per_host_bounds": (2, 4, 1)}
    assert target_for(parse_hardware("v5litepod-16")[0]).options == {}


@pytest.mark.parametrize("name", ["a100-80g", "cpu", "w7900"])
def test_what_cannot_be_compiled_for_is_refused_with_what_can(name: str) -> None:
    with pytest.raises(SpeedrunError, match="h100.*v5p"):
        target_for(parse_hardware(name)[0])
