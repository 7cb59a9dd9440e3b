"""A Ray cluster as the engine sees it: joining or starting one, its nodes, and which of them are lost."""

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Any

from speedrun.engines.placement import Node, offer_of
from speedrun.errors import SpeedrunError

_CONNECT_SECONDS = 5.0
_UNBOUNDED = 10**6
"""An autoscaler's group without a maximum."""


def connect(address: str | None) -> None:
    """Join the cluster at ``address`` (RAY_ADDRESS if None), or start Ray on this machine when there is neither.

    Raises:
        SpeedrunError: when it cannot be joined, or is of another version.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address.startswith("ray://"):
        raise SpeedrunError(
            f"{address}: Ray's client protocol cannot hold a gang together. Run this on a machine of the cluster "
            f"(`ray job submit`, docs/clusters.md) with --ray-address auto, or give the head's HOST:6379"
        )
    # Lines that several hosts or steps have in common would be left out.
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's workers give way to everything else (nice 15), which on a machine of one's own is no use to anybody.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # What Ray will do one day; unset, it warns of that at each start.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if ray.is_initialized():
        return
    try:
        _init(address)
    except ConnectionError as error:
        raise SpeedrunError(f"there is no Ray cluster at {address}: {_first_line(error)}") from None
    except Exception as error:
        # Ray has no class of its own for it: other versions, a token that is not the head's, a start that takes long.
        what = "Ray cannot be started here" if address == "local" else f"the Ray cluster at {address} cannot be joined"
        raise SpeedrunError(f"{what}: {_first_line(error)}") from None


def _init(address: str) -> None:
    import ray

    # No working_dir: it would make each worker's current folder a temporary one.
    if address != "local":
        ray.init(address=address, namespace="speedrun")
        return
    try:
        ray.init(address=address, namespace="speedrun", include_dashboard=False)
    except Exception:
        # Ray gives itself 30 s to start, which is short on a machine that has much else to do.
        ray.shutdown()
        ray.init(address=address, namespace="speedrun", include_dashboard=False)


def disconnect() -> None:
    """Leave the cluster: what this process runs there ends. A cluster that it started ends too."""
    import ray

    ray.shutdown()


def nodes_ever() -> list[Node]:
    """The nodes that are alive, and those that an autoscaler may add."""
    import ray

    live = [Node(node["Resources"], node["Labels"]) for node in ray.nodes() if node["Alive"]]
    return live + _autoscaled()


def free_now() -> str:
    """What is free, for people."""
    import ray

    free = ray.available_resources()
    hidden = ("node:", "object_store_memory", "memory", "accelerator_type:")
    return ", ".join(f"{name}: {free[name]:g}" for name in sorted(free) if not name.startswith(hidden)) or "nothing"


def hardware_or_refuse() -> str:
    """``cpu`` on a cluster without accelerators.

    Raises:
        SpeedrunError: on another one: this process sees none of its chips, and a guess would be priced wrongly.
    """
    offers = sorted({offer for node in nodes_ever() if (offer := offer_of(node))})
    if offers:
        raise SpeedrunError(f"say which hardware of the cluster: --hardware {' or '.join(offers)}")
    return "cpu"


def labels_of(node_id: str) -> Mapping[str, str]:
    """Ray's labels of a node."""
    return _node(node_id).get("Labels", {})


def is_lost(node_id: str) -> bool:
    """Whether the node itself is gone, rather than a process on it.

    Asked of the node, since the cluster's own view of a dead node may be half a minute old.
    """
    node = _node(node_id)
    if not node.get("Alive"):
        return True
    with contextlib.suppress(OSError):
        socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), _CONNECT_SECONDS).close()
        return False
    return True


def _node(node_id: str) -> dict[str, Any]:
    import ray

    return next((node for node in ray.nodes() if node["NodeID"] == node_id), {})


def _autoscaled() -> list[Node]:
    from ray._private.state import state

    try:
        config = state.get_cluster_config()
    except Exception:
        # No public way to ask exists; without an answer, what is there is all there is.
        return []
    groups = config.node_group_configs if config is not None else ()
    return [
        Node(dict(group.resources), most=group.max_count if group.max_count >= 0 else _UNBOUNDED) for group in groups
    ]


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:400]
