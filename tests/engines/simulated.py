"""A Ray cluster of made-up machines, all on this one: real raylets, workers and schedulers, no accelerator."""

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

H100 = {"num_cpus": 8, "num_gpus": 8, "resources": {"accelerator_type:H100": 1}}


def tpu(kind: str, chips: int, slice_name: str, worker: int, topology: str) -> dict[str, Any]:
    """A TPU host, as Ray finds it on a real one: its head resource, its labels, its environment."""
    head = {f"TPU-{kind}-head": 1} if worker == 0 else {}
    return {
        "num_cpus": 8,
        "resources": {"TPU": chips, slice_name: 1, **head},
        "labels": {
            "ray.io/tpu-slice-name": slice_name,
            "ray.io/tpu-worker-id": str(worker),
            "ray.io/tpu-pod-type": kind,
            "ray.io/tpu-topology": topology,
        },
        "env_vars": {
            "TPU_NAME": slice_name,
            "TPU_WORKER_ID": str(worker),
            "TPU_ACCELERATOR_TYPE": kind,
            "TPU_TOPOLOGY": topology,
        },
    }


MACHINES = {
    "h100-a": H100,
    "h100-b": H100,
    # The last worker of the slice first: the order of nodes is not that of workers.
    "v5p-16-worker-1": tpu("v5p-16", 4, "slice-of-two", 1, "2x2x2"),
    "v5p-16-worker-0": tpu("v5p-16", 4, "slice-of-two", 0, "2x2x2"),
    "v6e-4": tpu("v6e-4", 4, "slice-v6e", 0, "2x2"),
    "v5p-8": tpu("v5p-8", 4, "slice-of-one", 0, "2x2x1"),
}


@dataclass(frozen=True)
class Simulated:
    """The cluster."""

    cluster: Any
    token: str
    """Stands in the environment of all of its processes, and of no other's."""
    nodes: dict[str, Any]
    """Ray's handle of each machine, by name."""

    @property
    def address(self) -> str:
        return self.cluster.address

    @property
    def logs(self) -> Path:
        """Where Ray and the ranks write."""
        return Path(self.cluster.head_node.get_logs_dir_path())

    def ranks(self) -> dict[int, str]:
        """(machine) of each live rank, by process number."""
        found = {}
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(b"ray::Rank"):
                    environment = dict(
                        entry.split("=", 1) for entry in (folder / "environ").read_text().split("\0") if "=" in entry
                    )
                    if environment.get("SIMULATED_CLUSTER") == self.token:
                        found[int(folder.name)] = environment["SIMULATED_MACHINE"]
            except OSError:
                continue
        return found

    def second_rank(self) -> int | None:
        """Process number of the live rank 1, which alone names its log by it."""
        ranks = self.ranks()
        for log in self.logs.glob("speedrun-rank-1-*.log"):
            if (pid := int(log.stem.rpartition("-")[2])) in ranks:
                return pid
        return None

    def lose(self, machine: str) -> None:
        """Kill the raylet of a machine, which to Ray is losing the machine, and what it leaves running there."""
        os.kill(self.nodes[machine].all_processes["raylet"][0].process.pid, signal.SIGKILL)
        for rank in [pid for pid, where in self.ranks().items() if where == machine]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, signal.SIGKILL)


def wait_for_nodes_patiently(services: Any) -> None:
    """Ray gives a node 30 s to start, which is short on a machine that has much else to do."""
    ask = services.get_node

    def patiently(*words: Any) -> Any:
        for _ in range(100):
            with contextlib.suppress(RuntimeError):
                return ask(*words)
            time.sleep(1)
        return ask(*words)

    services.get_node = patiently


def simulated_cluster() -> Iterator[Simulated]:
    """Starts the cluster, and ends it."""
    from ray._private import services
    from ray.cluster_utils import Cluster

    # As users have it, and with time to start on a machine that has much else to do.
    os.environ |= {"RAY_worker_niceness": "0", "RAY_agent_register_timeout_ms": "300000"}
    wait_for_nodes_patiently(services)
    token = uuid.uuid4().hex
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = {}
    for name, machine in MACHINES.items():
        own = {"SIMULATED_CLUSTER": token, "SIMULATED_MACHINE": name}
        environment = {**machine.get("env_vars", {}), **own}
        nodes[name] = cluster.add_node(wait=False, **{**machine, "env_vars": environment})
    cluster.wait_for_nodes(timeout=180)
    try:
        yield Simulated(cluster, token, nodes)
    finally:
        cluster.shutdown()
