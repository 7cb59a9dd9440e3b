"""What a compiler must be told of hardware that is not there: its topology, its memory, its plug-in.

This module imports no jax.
"""

import importlib.metadata
import math
from dataclasses import dataclass

from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec

GIB = 2**30

GPU_MEMORY_FRACTION = 0.75
"""What JAX takes of a GPU's memory unless ``XLA_PYTHON_CLIENT_MEM_FRACTION`` says otherwise."""

_THREE_DIMENSIONS = {
    1: "1x1x1",
    4: "2x2x1",
    8: "2x2x2",
    16: "2x2x4",
    32: "2x4x4",
    64: "4x4x4",
    128: "4x4x8",
    256: "4x8x8",
    512: "8x8x8",
    1024: "8x8x16",
    2048: "8x16x16",
    4096: "16x16x16",
    6144: "16x16x24",
}
_TWO_DIMENSIONS = {1: "1x1", 2: "1x2", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_LAYOUTS = {"v4": _THREE_DIMENSIONS, "v5p": _THREE_DIMENSIONS, "v5e": _TWO_DIMENSIONS, "v6e": _TWO_DIMENSIONS}

_H100 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: %(memory)d
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 }
runtime_version { major: 13 minor: 0 patch: 0 }
device_description_str: "%(name)s"
"""
"""XLA's description of an H100 SXM: figures of NVIDIA's data sheet and of the CUDA programming guide's table for
compute capability 9.0. The compiler asks nothing else of a GPU that it cannot see. An H200 is the same chip with
more memory."""

_GPUS = {"h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200"}


@dataclass(frozen=True)
class Target:
    """Hardware as a compiler sees it."""

    name: str
    platform: str
    """jax's name of it: "tpu" or "cuda"."""
    topology: str
    options: dict[str, object]
    """Further arguments of ``jax.experimental.topologies.get_topology_desc``."""
    chips: int
    capacity_bytes: int
    """Memory of one chip as sold."""
    requirements: tuple[str, ...]
    """Packages that hold the compiler."""


def target_for(spec: HardwareSpec) -> Target:
    """The compiler's target for ``spec``.

    Raises:
        SpeedrunError: for hardware that nothing here can compile for without having it.
    """
    accelerator = spec.accelerator
    assert accelerator.memory_bytes is not None or accelerator.family == "cpu"
    if accelerator.name in _LAYOUTS:
        return _tpu_target(spec)
    if accelerator.name in _GPUS:
        memory = accelerator.memory_bytes
        return Target(
            name=str(spec),
            platform="cuda",
            topology=f"1x{spec.hosts}x{spec.chips // spec.hosts}",
            options={"target_config": _H100 % {"memory": memory, "name": _GPUS[accelerator.name]}},
            chips=spec.chips,
            capacity_bytes=memory,
            requirements=(f"jax-cuda13-plugin[with-cuda]=={importlib.metadata.version('jax')}",),
        )
    known = ", ".join([*_GPUS, *_LAYOUTS])
    raise SpeedrunError(
        f"nothing here can compile for {spec} without having one; it can for {known}. `--compile` one of those, or "
        "read the memory estimate"
    )


def _tpu_target(spec: HardwareSpec) -> Target:
    accelerator = spec.accelerator
    layout = _LAYOUTS[accelerator.name].get(spec.chips)
    if layout is None:
        sizes = ", ".join(map(str, _LAYOUTS[accelerator.name]))
        raise SpeedrunError(f"{spec}: a slice of {accelerator.name} has {sizes} chips, not {spec.chips}")
    options: dict[str, object] = {}
    if accelerator.name == "v4":
        options["chip_config_name"] = "megacore"  # one device a chip, as jobs run; the default is one a core
    if spec.hosts == 1 and len(layout.split("x")) == 2:
        options["chips_per_host_bounds"] = (*map(int, layout.split("x")), 1)
    return Target(
        name=str(spec),
        platform="tpu",
        topology=f"{accelerator.name}:{layout}",
        options=options,
        chips=math.prod(map(int, layout.split("x"))),
        capacity_bytes=accelerator.memory_bytes or 0,
        requirements=("libtpu==0.0.46.*",),
    )
