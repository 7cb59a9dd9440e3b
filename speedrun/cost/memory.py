"""Memory per chip before anything is compiled: the state exactly, the rest as a lower bound.

What a compiler adds (fusions' temporaries, blocks of logits, communication buffers) can only be had by
compiling: ``speedrun.cost.compiled``.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import haliax as hax
import haliax.tree_util as htu
import jax
from jax.extend.core import Jaxpr, Literal
from jax.interpreters.partial_eval import dce_jaxpr
from jax.sharding import PartitionSpec
from levanter.trainer_state import TrainerState

from speedrun.cost import abstract
from speedrun.cost.primitives import CALLS
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on one chip of so many, sharded as Levanter shards them."""

    chips: int
    parameters_bytes: int
    optimizer_bytes: int
    """The optimizer's state, whatever the optimizer."""
    other_state_bytes: int
    """Step counter, random key, and the like."""
    replicated_bytes: int
    """Of the above, what every chip holds whole although it is larger than a scalar: arrays without names
    (a preconditioner, say), or whose axes the mesh does not split."""
    gradients_bytes: int
    """One gradient for each parameter, in its own type."""
    saved_bytes: int
    """Activations that the forward pass leaves for the backward pass between the layers' scans. Temporaries
    within a layer and the loss's logits come on top: this is a lower bound, and 0 for a model that does not
    scan over its layers."""

    @property
    def state_bytes(self) -> int:
        """What lies in memory between two steps. Exact."""
        return self.parameters_bytes + self.optimizer_bytes + self.other_state_bytes

    @property
    def at_least_bytes(self) -> int:
        """What one step needs at the very least."""
        return self.state_bytes + self.gradients_bytes + self.saved_bytes

    def cannot_fit(self, capacity_bytes: int) -> bool:
        """True when the step cannot fit into ``capacity_bytes``. False does not mean that it does."""
        return self.at_least_bytes > capacity_bytes


def estimate_memory(workload: Workload, chips: int) -> MemoryEstimate:
    """Estimate the memory of ``workload`` on each of ``chips`` chips.

    Raises:
        SpeedrunError: when the model cannot be built, or an axis cannot be split evenly over the chips,
            which Levanter requires.
    """
    found = estimate_memories(workload, [chips])[chips]
    if isinstance(found, SpeedrunError):
        raise found
    return found


def estimate_memories(workload: Workload, chip_counts: Sequence[int]) -> dict[int, MemoryEstimate | SpeedrunError]:
    """The memory of ``workload`` by number of chips, from one trace; an error for a number that cannot be had.

    Raises:
        SpeedrunError: when the model cannot be built.
    """
    mapping = abstract.training_mesh().resolved_param_mapping
    with abstract.trainer_for(workload) as trainer:
        state, batch = abstract.abstract_state(trainer, workload), abstract.abstract_batch(workload)
        specs = hax.partitioning.pspec_for(state, mapping)
        gradients, arrays = abstract.on_arrays(abstract.gradient_function(trainer), state, batch)
        traced = jax.make_jaxpr(gradients)(*arrays)
    live, _ = dce_jaxpr(traced.jaxpr, [True] * len(traced.jaxpr.outvars), instantiate=True)
    saved = saved_between_scans(live)
    found: dict[int, MemoryEstimate | SpeedrunError] = {}
    for chips in chip_counts:
        try:
            found[chips] = _on_each(chips, state, specs, saved)
        except SpeedrunError as error:
            found[chips] = error
    return found


def _on_each(chips: int, state: TrainerState, specs: Any, saved_bytes: int) -> MemoryEstimate:
    if chips < 1:
        raise SpeedrunError(f"memory is estimated for one chip or more, got {chips}")
    ici, dcn = abstract.training_mesh().axis_shapes(chips, 1)
    sizes = {name: ici.get(name, 1) * dcn.get(name, 1) for name in {*ici, *dcn}}
    shards = _shards(state.model, specs.model, sizes)
    of_optimizer = _shards(state.opt_state, specs.opt_state, sizes)
    rest = dataclasses.replace(state, model=None, opt_state=None)
    of_rest = _shards(rest, dataclasses.replace(specs, model=None, opt_state=None), sizes)
    return MemoryEstimate(
        chips=chips,
        parameters_bytes=_total(shards),
        optimizer_bytes=_total(of_optimizer),
        other_state_bytes=_total(of_rest),
        replicated_bytes=0 if chips == 1 else _replicated([*shards, *of_optimizer, *of_rest]),
        gradients_bytes=_total(shards),
        # Divided over all chips: activations are split by the batch.
        saved_bytes=saved_bytes // chips,
    )


def saved_between_scans(jaxpr: Jaxpr) -> int:
    """Bytes of what one scan stacks up and a later scan reads: what a forward pass leaves for the backward pass."""
    stacked: dict[Any, int] = {}
    read: dict[Any, int] = {}
    inner = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name == "scan":
            constants, carried = (len(part) for part in equation.params["ft_in"].unpack()[:2])
            for variable in equation.invars[constants + carried :]:
                if not isinstance(variable, Literal) and variable in stacked:
                    read[variable] = stacked[variable]
            for variable in equation.outvars[carried:]:
                stacked[variable] = _bytes(variable.aval)
            inner = max(inner, saved_between_scans(equation.params["jaxpr"]))  # microbatches, one after the other
        elif name in CALLS:
            inner = max(inner, saved_between_scans(equation.params[CALLS[name]]))
    return sum(read.values()) + inner


@dataclass(frozen=True)
class _Shard:
    """One array of the state as one chip holds it."""

    size_bytes: int
    is_whole: bool


def _shards(tree: Any, specs: Any, sizes: Mapping[str, int]) -> list[_Shard]:
    def shard(leaf: Any, spec: Any) -> _Shard | None:
        array = leaf.array if isinstance(leaf, hax.NamedArray) else leaf
        if not abstract.is_shape(array):
            return None
        parts = [_parts(entry, sizes) for entry in spec or PartitionSpec()]
        for axis, (length, count) in enumerate(zip(array.shape, parts, strict=False)):
            if length % count:
                what = leaf.axes[axis].name if isinstance(leaf, hax.NamedArray) else f"axis {axis}"
                raise SpeedrunError(
                    f"{what} = {length} cannot be split evenly over {count} chips: make it a multiple of {count}, or "
                    "use fewer chips"
                )
        return _Shard(_bytes(array) // math.prod(parts), math.prod(parts) == 1 and bool(array.shape))

    return [leaf for leaf in jax.tree.leaves(htu.tree_map(shard, tree, specs)) if isinstance(leaf, _Shard)]


def _parts(entry: str | Sequence[str] | None, sizes: Mapping[str, int]) -> int:
    """How many chips an entry of a partition specification spreads its axis over."""
    if entry is None or entry is PartitionSpec.UNCONSTRAINED:
        return 1
    return math.prod(sizes[name] for name in ([entry] if isinstance(entry, str) else entry))


def _total(shards: Sequence[_Shard]) -> int:
    return sum(shard.size_bytes for shard in shards)


def _replicated(shards: Sequence[_Shard]) -> int:
    return sum(shard.size_bytes for shard in shards if shard.is_whole)


def _bytes(aval: Any) -> int:
    return math.prod(aval.shape) * aval.dtype.itemsize
