"""Compiles Levanter's training step for hardware that is not there. Runs in a process of its own.

    python -m speedrun.cost.compile_worker JOB RESULT

JOB is a pickled ``CompileJob`` and RESULT the JSON file to write. What is under way is told on standard
output, one line each. The process must be started with ``JAX_PLATFORMS=cpu`` and with the target's plug-in
on its path.
"""

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from speedrun.cost.targets import Target
from speedrun.cost.workload import Workload
from speedrun.errors import in_one_line

_NEEDED_OF = re.compile(
    r"[Uu]sed ([\d.]+)([KMGT]) of ([\d.]+)([KMGT])|\(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)"
)
"""The two ways in which a TPU's compiler says how much there is too much; the second counts temporaries alone."""


@dataclass(frozen=True)
class CompileJob:
    """What to compile for what. Without a target: for so many of this machine's own CPU devices."""

    workload: Workload
    target: Target | None
    chips: int


def main(job_path: str, result_path: str) -> None:
    """Compile the job at ``job_path`` and write its memory, or what went wrong, to ``result_path``."""
    import cloudpickle

    say("importing jax and levanter")
    job: CompileJob = cloudpickle.loads(Path(job_path).read_bytes())
    try:
        result = compile_job(job, say)
    except Exception as error:
        result = {"error": in_one_line(error)}
    Path(result_path).write_text(json.dumps(result))


def say(what: str) -> None:
    """Tell the parent what is under way."""
    print(what, flush=True)


def compile_job(job: CompileJob, say: Callable[[str], None]) -> dict[str, Any]:
    """Compile the training step; bytes per chip, or what the compiler said of its memory."""
    import jax
    from jax.experimental import topologies

    if job.target is None:
        devices: Sequence[Any] = jax.devices("cpu")[: job.chips]
        belief: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    else:
        say(f"loading the compiler of {job.target.name}")
        # A TPU's plug-in takes the topology as its name, a GPU's as an option.
        shape = {"topology" if job.target.platform == "cuda" else "topology_name": job.target.topology}
        topology = topologies.get_topology_desc(platform=job.target.platform, **shape, **job.target.options)
        devices = topology.devices
        belief = _as_if_on(devices, "tpu" if job.target.platform == "tpu" else "gpu")
    with belief:
        say(f"tracing the training step for {len(devices)} chips")
        lowered = _lowered_step(job.workload, devices)
        say("compiling (about a quarter of a minute for a GPU, one or two for a TPU)")
        start = time.monotonic()
        try:
            memory = lowered.compile().memory_analysis()
        except Exception as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return _exhausted(str(error))
    return {
        "arguments_bytes": memory.argument_size_in_bytes,
        "outputs_bytes": memory.output_size_in_bytes,
        "aliased_bytes": memory.alias_size_in_bytes,
        "temporaries_bytes": memory.temp_size_in_bytes,
        "code_bytes": memory.generated_code_size_in_bytes,
        "compile_seconds": time.monotonic() - start,
    }


def _exhausted(message: str) -> dict[str, Any]:
    """The compiler's own verdict, with its figures where it gives them."""
    scale = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    found = _NEEDED_OF.search(message)
    figures = [group for group in found.groups() if group is not None] if found else []
    sizes = [round(float(number) * scale[unit]) for number, unit in zip(figures[::2], figures[1::2], strict=True)]
    needed, limit = sizes or (None, None)
    return {"exhausted": message.splitlines()[0][:500], "needed_bytes": needed, "limit_bytes": limit}


@contextlib.contextmanager
def _as_if_on(devices: Sequence[Any], backend: str) -> Iterator[None]:
    """Within, libraries that ask jax where they are find ``devices``, and so choose the kernels, block sizes
    and meshes that they would choose there. jax itself goes on computing on the CPU.
    """
    import haliax.partitioning
    import jax

    os.environ["LEVANTER_PALLAS_CE_AUTOTUNE_ON_MISS"] = "0"  # which would run kernels to time them
    answers: dict[str, Callable[..., Any]] = {
        "devices": lambda *_: list(devices),
        "local_devices": lambda *_, **__: list(devices),
        "device_count": lambda *_: len(devices),
        "local_device_count": lambda *_: len(devices),
        "default_backend": lambda: backend,
    }
    with contextlib.ExitStack() as patches:
        for name, answer in answers.items():
            patches.enter_context(mock.patch.object(jax, name, answer))
        # With a concrete mesh, jax would send every little computation of a constant to devices that are not
        # there. An abstract one says the same of axes and sizes.
        meshes = {
            "set_mesh": lambda mesh: jax.sharding.use_abstract_mesh(mesh.abstract_mesh),
            "get_concrete_mesh": lambda: None,
        }
        for name, answer in meshes.items():
            patches.enter_context(mock.patch.object(haliax.partitioning, name, answer))
        yield


def _lowered_step(workload: Workload, devices: Sequence[Any]) -> Any:
    import jax

    from speedrun.cost import abstract

    with abstract.trainer_for(workload, devices) as trainer:
        mesh = trainer.device_mesh
        state = _placed(abstract.abstract_state(trainer, workload), trainer.parameter_axis_mapping, mesh)
        batch = _placed(abstract.abstract_batch(workload, chips=len(devices)), trainer.compute_axis_mapping, mesh)
        step, arrays = abstract.on_arrays(abstract.step_function(trainer), state, batch)
        return jax.jit(step, donate_argnums=0).lower(*arrays)


def _placed(tree: Any, mapping: Any, mesh: Any) -> Any:
    """``tree`` of shapes with each array's sharding."""
    import haliax as hax
    import haliax.tree_util as htu
    import jax

    from speedrun.cost.abstract import is_shape

    def place(leaf: Any, spec: Any) -> Any:
        array = leaf.array if isinstance(leaf, hax.NamedArray) else leaf
        if not is_shape(array):
            return leaf
        sharding = jax.sharding.NamedSharding(mesh, spec)
        placed = jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)
        return hax.NamedArray(placed, leaf.axes) if isinstance(leaf, hax.NamedArray) else placed

    return htu.tree_map(place, tree, hax.partitioning.pspec_for(tree, mapping))


if __name__ == "__main__":
    main(*sys.argv[1:])
