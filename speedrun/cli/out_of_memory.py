"""Running out of memory: recognised, and said with what the dry run had to say of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from speedrun.accelerators import GIB
from speedrun.errors import SpeedrunError

if TYPE_CHECKING:
    from speedrun.steps.dag import RunDag

# XLA's status of a chip without room, and Ray's word for a host without.
_SIGNS = ("RESOURCE_EXHAUSTED", "host ran out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a chip or a host ran out of memory, as far as its words tell."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS)


def memory_note(dags: "Sequence[RunDag]", step: str) -> str:
    """What the dry run estimates for the run that has a step of this name; "" where it can estimate nothing.

    Args:
        step: as the runner names it: the step's own name and a hash.
    """
    from speedrun.cost.memory import estimate_memory
    from speedrun.cost.workload import workload_of

    for dag in dags:
        if any(step.startswith(each.name) for each in (dag.train, dag.evaluate)):
            hardware = dag.identity.hardware
            try:
                estimate = estimate_memory(workload_of(dag.recipe, dag.data.vocab_size), hardware.chips)
            except SpeedrunError:
                return ""
            holds = hardware.accelerator.memory_bytes
            of = f" of the {holds / GIB:.0f} GiB that one has" if holds else ""
            return (
                f"out of memory. The dry run says that a training step needs at least "
                f"{estimate.at_least_bytes / GIB:.2f} GiB on each chip{of}, {estimate.state_bytes / GIB:.2f} of them "
                f"for parameters and optimizer; `speedrun dry-run {dag.identity.candidate.name} --compile "
                f"{hardware}` says what it needs in all"
            )
    return ""
