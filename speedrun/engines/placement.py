"""What a job asks of a Ray cluster, and whether that cluster can ever give it.

Ray itself waits for ever, and says nothing, for what no node will ever have. Here the totals of the nodes that
are there and of those that an autoscaler may add are looked at before anything is submitted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fray.types import GpuConfig, ResourceConfig, TpuConfig, get_tpu_topology

_GPU_LABELS: dict[str, str | None] = {"A100-40G": "A100", "A100-80G": "A100", "auto": None, "AUTO": None}
"""Fray's names of GPUs where Ray's own label for the node differs."""
_GPU_TYPE = "accelerator_type:"
_WHOLE_MACHINE = 8
"""GPUs of a machine that may be one of several in a job."""
_TINY = 0.001
"""How much of a node's label is asked for: it only says which type is meant."""


@dataclass(frozen=True)
class Node:
    """What one node has in all, or would have: used or not."""

    resources: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    most: int = 1
    """How many such nodes there are or may become."""


@dataclass(frozen=True)
class Need:
    """The same bundle of resources on each of so many hosts."""

    bundle: Mapping[str, float]
    hosts: int
    """Each on a node of its own."""
    tpu_slice: str | None = None
    """The kind of TPU slice whose hosts are meant, where it has several."""
    slices: int = 1

    def __str__(self) -> str:
        wanted = ", ".join(_shown(name, amount) for name, amount in self.bundle.items() if amount)
        apart = " on distinct nodes" if self.hosts > 1 else ""
        of_slice = f" in {self.slices} slice(s) {self.tpu_slice}" if self.tpu_slice else ""
        return f"{self.hosts} x {{{wanted}}}{apart}{of_slice}"


def need_of(resources: ResourceConfig, hosts: int) -> Need:
    """What a job with so many hosts asks for. Memory is not asked for: Ray's figure of it is only a promise."""
    bundle: dict[str, float] = {"CPU": resources.cpu}
    device = resources.device
    if isinstance(device, GpuConfig):
        bundle["GPU"] = device.count
        label = _GPU_LABELS.get(device.variant, device.variant)
        if label is not None:
            bundle[_GPU_TYPE + label] = _TINY
    elif isinstance(device, TpuConfig):
        topology = get_tpu_topology(device.variant)
        bundle["TPU"] = topology.chips_per_vm
        if topology.vm_count == 1:
            # Without it, a slice of one host could land on any host with as many chips, of whatever generation.
            bundle[_head(device.variant)] = 1
        else:
            return Need(bundle, hosts, device.variant, max(1, hosts // topology.vm_count))
    return Need(bundle, hosts)


def refusal(need: Need, nodes: Iterable[Node]) -> str | None:
    """Why no wait would help, with what there is and what would fit; None when the cluster can hold the job."""
    nodes = list(nodes)
    held = _hosts_held(need, nodes)
    if held >= need.hosts:
        return None
    have = "; ".join(f"{node.most} x {{{_described(node)}}}" for node in _alike(nodes)) or "no node"
    return f"it needs {need}; the cluster can ever hold {held}. It has {have}. {_nearest(need, nodes)}"


def _hosts_held(need: Need, nodes: Sequence[Node]) -> int:
    fitting = [node for node in nodes if _fits(need.bundle, node)]
    if need.tpu_slice is None:
        return sum(node.most for node in fitting)
    per_slice = get_tpu_topology(need.tpu_slice).vm_count
    by_slice: dict[str, int] = {}
    grown = 0
    for node in fitting:
        if node.labels.get("ray.io/tpu-pod-type") == need.tpu_slice:
            name = node.labels.get("ray.io/tpu-slice-name", "")
            by_slice[name] = by_slice.get(name, 0) + node.most
        elif not node.labels and node.most >= per_slice:
            # An autoscaler's group says what its nodes hold, and not of which slice they will be.
            grown += node.most // per_slice
    return per_slice * (sum(count >= per_slice for count in by_slice.values()) + grown)


def _fits(bundle: Mapping[str, float], node: Node) -> bool:
    return all(node.resources.get(name, 0) + 1e-9 >= amount for name, amount in bundle.items())


def _nearest(need: Need, nodes: Sequence[Node]) -> str:
    """What could be asked for instead."""
    accelerators = {name: amount for name, amount in need.bundle.items() if name != "CPU"}
    without_cpu = Need(accelerators, need.hosts, need.tpu_slice, need.slices)
    if accelerators and _hosts_held(without_cpu, nodes) >= need.hosts:
        fitting = sorted((node.resources.get("CPU", 0) for node in nodes if _fits(accelerators, node)), reverse=True)
        cpus = fitting[min(need.hosts, len(fitting)) - 1]
        return f"With --cpus-per-host {cpus:g} it would fit."
    offers = [offer for node in _alike(nodes) if (offer := offer_of(node))]
    if not offers:
        most = max((node.resources.get("CPU", 0) for node in nodes), default=0)
        return f"There is no accelerator; the nearest that would fit is --hardware cpu with up to {most:g} CPUs."
    wanted = next((name for name in need.bundle if name.startswith(_GPU_TYPE)), need.tpu_slice or "")
    same = [offer for offer in offers if offer.startswith(wanted.removeprefix(_GPU_TYPE).lower() + "x")]
    return f"The nearest that would fit: --hardware {max(same or offers, key=_size)}."


def offer_of(node: Node) -> str | None:
    """The most that such nodes give together, as ``--hardware`` is written."""
    for name in node.resources:
        if name.startswith("TPU-") and name.endswith("-head"):
            return name.removeprefix("TPU-").removesuffix("-head")
    kind = next((name for name in node.resources if name.startswith(_GPU_TYPE)), None)
    gpus = int(node.resources.get("GPU", 0))
    if gpus >= _WHOLE_MACHINE:
        gpus *= node.most
    return f"{kind.removeprefix(_GPU_TYPE).lower()}x{gpus}" if kind and gpus else None


def _size(offer: str) -> int:
    digits = offer.replace("-", "x").rpartition("x")[2]
    return int(digits) if digits.isdigit() else 0


def _alike(nodes: Sequence[Node]) -> list[Node]:
    """Nodes that have the same, counted together."""
    counted: dict[str, Node] = {}
    for node in nodes:
        known = counted.get(_described(node))
        counted[_described(node)] = Node(node.resources, node.labels, node.most + (known.most if known else 0))
    return list(counted.values())


def _described(node: Node) -> str:
    hidden = ("node:", "object_store_memory", "memory")
    shown = {
        name: amount
        for name, amount in sorted(node.resources.items())
        if not name.startswith(hidden) and name != node.labels.get("ray.io/tpu-slice-name")
    }
    return ", ".join(_shown(name, amount) for name, amount in shown.items())


def _shown(name: str, amount: float) -> str:
    """A type has no amount that means anything."""
    return name.removeprefix(_GPU_TYPE) if name.startswith(_GPU_TYPE) else f"{name}: {amount:g}"


def _head(variant: str) -> str:
    return f"TPU-{variant}-head"
