"""One attempt at a job on Ray: hosts reserved together, a rank on each, and how it ended."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import ray
from fray.types import get_tpu_topology
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from speedrun.engines.cluster import is_lost, labels_of
from speedrun.engines.placement import Need
from speedrun.engines.rank import Failure, Host, Job, Place, Rank, versions
from speedrun.errors import SpeedrunError

_POLL_SECONDS = 1.0
_CULPRIT_SECONDS = 10.0
"""When a rank of a gang raises, another one's death may be why; that is known a little later."""


@dataclass(frozen=True)
class Ending:
    """How an attempt ended."""

    how: Literal["finished", "failed", "crashed", "node lost", "stopped"]
    error: BaseException | None = None
    cause: str = ""
    wall_seconds: float = 0.0
    """Since its hosts were reserved."""


class Reservation:
    """Hosts for one attempt. Use ``wait`` until it is true; ``release`` in any case."""

    def __init__(self, need: Need):
        self._need = need
        self._slice: Any = None
        self._group: Any = None

    def wait(self, seconds: float) -> bool:
        """Whether the hosts are reserved, after waiting that long at most. The first call asks for them."""
        if self._group is None and not self._ask(seconds):
            return False
        return self._group.wait(seconds)

    def release(self) -> None:
        """Give the hosts back, or stop asking for them."""
        with contextlib.suppress(Exception):
            if self._slice is not None:
                self._slice.shutdown()
            elif self._group is not None:
                remove_placement_group(self._group)

    def bundles(self) -> list[int]:
        """The bundle of each rank. JAX wants the processes of a TPU slice in the slice's own order of workers."""
        hosts = range(self._need.hosts)
        if self._need.tpu_slice is None:
            return list(hosts)
        nodes = placement_group_table(self._group)["bundles_to_node_id"]
        labels = {bundle: labels_of(nodes[bundle]) for bundle in hosts}
        return sorted(hosts, key=lambda bundle: _worker_order(labels[bundle]))

    def start(self) -> list[Any]:
        """A rank on each host, in order."""
        options = _actor_options(self._need.bundle)
        actor = ray.remote(Rank)
        return [
            actor.options(
                **options,
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle),
            ).remote()
            for bundle in self.bundles()
        ]

    def _ask(self, seconds: float) -> bool:
        """Ask for the hosts; False when a TPU slice is not to be had yet, whose first host Ray asks for by itself."""
        need, kind = self._need, self._need.tpu_slice
        if kind is None:
            self._group = placement_group([dict(need.bundle)] * need.hosts, strategy="STRICT_SPREAD")
            return True
        from ray.util.tpu import slice_placement_group

        try:
            self._slice = slice_placement_group(
                topology=tpu_topology(kind),
                accelerator_version=kind.rpartition("-")[0],
                num_slices=need.slices,
                resources_per_bundle=dict(need.bundle),
                chips_per_vm=get_tpu_topology(kind).chips_per_vm,
                head_reservation_timeout_s=seconds,
            )
        except TimeoutError:
            return False
        self._group = self._slice.placement_group
        return True


class Gang:
    """The ranks of one attempt."""

    def __init__(self, ranks: Sequence[Any]):
        self._ranks = ranks
        self.hosts: list[Host] = []

    def look(self, marker: str | None, seconds: float) -> Ending | None:
        """Wait until every rank has said where it is; an ending if one of them did not live to.

        Raises:
            SpeedrunError: when a host has other versions, or cannot see the artifact store.
        """
        try:
            self.hosts = ray.get([rank.look.remote(marker) for rank in self._ranks], timeout=seconds)
        except RayActorError as error:
            return self._death(error)
        except GetTimeoutError:
            raise SpeedrunError(f"the workers did not start within {seconds:.0f} s of getting their hosts") from None
        own = versions()
        for host in self.hosts:
            if host.versions != own:
                differing = [
                    f"{name} {host.versions.get(name, 'missing')} (here {own.get(name, 'missing')})"
                    for name in sorted({*own, *host.versions})
                    if own.get(name) != host.versions.get(name)
                ]
                raise SpeedrunError(
                    f"the worker on {host.address} has {', '.join(differing)}: install the same on every node"
                )
            if not host.sees_store:
                raise SpeedrunError(
                    f"the worker on {host.address} cannot see the artifact store, where this process has just written "
                    f"{marker}. Set MARIN_PREFIX to a folder or bucket that every node sees (docs/clusters.md)"
                )
        return None

    def run(self, job: Job, environments: Sequence[Mapping[str, str]], is_stopped: Callable[[], bool]) -> Ending:
        """Run the job on all ranks to its end."""
        world = len(self._ranks)
        coordinator = f"{self.hosts[0].address}:{self.hosts[0].free_port}" if world > 1 else None
        pending = [
            rank.run.remote(job, environments[number], Place(number, world, coordinator))
            for number, rank in enumerate(self._ranks)
        ]
        while pending:
            done, pending = ray.wait(pending, timeout=_POLL_SECONDS)
            if is_stopped():
                # Whatever ended just now was killed by this process itself.
                return Ending("stopped")
            for reference in done:
                ending = self._ending(reference)
                if ending is not None and ending.how == "failed" and pending:
                    ending = self._culprit(pending) or ending
                if ending is not None:
                    return ending
        return Ending("finished")

    def kill(self) -> None:
        """End every rank at once."""
        for rank in self._ranks:
            with contextlib.suppress(Exception):
                ray.kill(rank)

    def _ending(self, reference: Any) -> Ending | None:
        try:
            failure: Failure | None = ray.get(reference)
        except RayActorError as error:
            return self._death(error)
        except RayError as error:
            return Ending("failed", error)
        return None if failure is None else Ending("failed", failure.exception())

    def _culprit(self, pending: list[Any]) -> Ending | None:
        """The death of another rank that explains why one raised."""
        end = time.monotonic() + _CULPRIT_SECONDS
        while pending and (left := end - time.monotonic()) > 0:
            done, pending = ray.wait(pending, timeout=left)
            for reference in done:
                ending = self._ending(reference)
                if ending is not None and ending.how != "failed":
                    return ending
        return None

    def _death(self, error: RayActorError) -> Ending:
        lost = [host.address for host in self.hosts if is_lost(host.node_id)]
        if lost:
            return Ending("node lost", error, f"node {', '.join(lost)} was lost")
        said = str(error)
        if "OUT_OF_MEMORY" in said or "memory monitor" in said.lower():
            return Ending("crashed", error, "Ray killed the process because its host ran out of memory")
        if "node has died" in said or "node was" in said.lower():
            return Ending("node lost", error, "its node was lost")
        return Ending("crashed", error, "the process died (killed, out of host memory, or a crash of native code)")


def tpu_topology(kind: str) -> str:
    """Ray's topology of a TPU slice: ``v5p-16`` is ``2x2x2``. The most cubic, where several have as many chips."""
    from ray._private.accelerators.tpu import VALID_TPU_TOPOLOGY, infer_tpu_pod_type_from_topology

    generation = kind.rpartition("-")[0]
    named = [
        topology
        for topology in VALID_TPU_TOPOLOGY.get(generation, ())
        if infer_tpu_pod_type_from_topology(topology, f"TPU-{generation.upper()}") == kind
    ]
    if not named:
        raise SpeedrunError(f"Ray knows no topology of TPU slice {kind}")

    def length(topology: str) -> tuple[float, str]:
        sides = [int(side) for side in topology.split("x")]
        return max(sides) / min(sides), topology

    return min(named, key=length)


def _worker_order(labels: Mapping[str, str]) -> tuple[str, int]:
    return labels.get("ray.io/tpu-slice-name", ""), int(labels.get("ray.io/tpu-worker-id", 0))


def _actor_options(bundle: Mapping[str, float]) -> dict[str, Any]:
    others = {name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU")}
    return {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0), "resources": others}
