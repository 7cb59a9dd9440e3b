"""One host's process of a job on Ray: a Ray actor, so that no job finds another's environment or JAX state.

jax, levanter and marin are imported only when the job is unpickled, after its environment has been set.
"""

import contextlib
import importlib.metadata
import linecache
import os
import platform
import socket
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import ray

if TYPE_CHECKING:
    from fray.types import Entrypoint

_COORDINATOR, _PROCESSES, _PROCESS = "SPEEDRUN_COORDINATOR", "SPEEDRUN_PROCESSES", "SPEEDRUN_PROCESS"
_ALIKE_PACKAGES = ("ray", "marin-speedrun", "marin-levanter", "jax", "cloudpickle")


@dataclass(frozen=True)
class Host:
    """Where a rank runs, as it sees it."""

    address: str
    free_port: int
    versions: Mapping[str, str]
    sees_store: bool
    node_id: str
    pid: int


@dataclass(frozen=True)
class Failure:
    """An exception that the job raised, with what does not survive the way back by itself."""

    error: bytes
    """The exception, pickled; or a RuntimeError with its type and message, if it can't be."""
    frames: tuple[tuple[str, int, str], ...]
    """(file, line, function), outermost first."""
    text: str
    """The traceback."""

    def exception(self) -> BaseException:
        """The exception, with the frames as ``remote_frames``."""
        error: Any = cloudpickle.loads(self.error)
        error.remote_frames = self.frames
        return error


@dataclass(frozen=True)
class Place:
    """A rank's part in its gang."""

    rank: int
    world: int
    coordinator: str | None = None
    """"address:port" of rank 0; None for a job with one process."""


@dataclass(frozen=True)
class Candidate:
    """A candidate's file, which is part of no package that a worker could import."""

    module: str
    path: str
    text: str

    def load(self) -> None:
        """Run the file as a module, as the driver has done: its classes register themselves where they must."""
        package = self.module.partition(".")[0]
        if package not in sys.modules:
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = []
        module = types.ModuleType(self.module)
        module.__file__ = self.path
        sys.modules[self.module] = module
        # A traceback shows its lines though the file may not be here.
        linecache.cache[self.path] = (len(self.text), None, self.text.splitlines(keepends=True), self.path)
        exec(compile(self.text, self.path, "exec"), module.__dict__)


@dataclass(frozen=True)
class Job:
    """What the ranks of a gang run."""

    entrypoint: bytes
    """Fray's entry point, pickled."""
    candidates: tuple[Candidate, ...] = ()


class Rank:
    """The actor."""

    def look(self, marker: str | None) -> Host:
        """Say where this is.

        Args:
            marker: a file that the driver wrote into the artifact store.
        """
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        return Host(
            address=ray.util.get_node_ip_address(),
            free_port=port,
            versions=versions(),
            sees_store=marker is None or Path(marker).exists(),
            node_id=ray.get_runtime_context().get_node_id(),
            pid=os.getpid(),
        )

    def run(self, job: "Job", environment: Mapping[str, str], place: Place) -> Failure | None:
        """Run a job. An exception comes back as a ``Failure``."""
        os.environ.update(environment)
        if place.rank > 0:
            _divert_output(f"rank-{place.rank}-{os.getpid()}.log")
        try:
            _prepare(place)
            for candidate in job.candidates:
                candidate.load()
            _call(cloudpickle.loads(job.entrypoint))
            _finish(place)
        except BaseException as error:
            return _failure(error)
        return None


def versions() -> dict[str, str]:
    """What must be the same on every node."""
    found = {"python": platform.python_version()}
    for package in _ALIKE_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _prepare(place: Place) -> None:
    from rigging.log_setup import configure_logging

    from speedrun.storage import find_buckets_by_path

    # Otherwise what the step says at level INFO is lost.
    configure_logging()
    find_buckets_by_path()
    if place.coordinator is not None:
        os.environ |= {
            _COORDINATOR: place.coordinator,
            _PROCESSES: str(place.world),
            _PROCESS: str(place.rank),
        }
        if os.environ.get("JAX_PLATFORMS") == "cpu":
            os.environ.setdefault("JAX_CPU_COLLECTIVES_IMPLEMENTATION", "gloo")
        _register_cluster()


def _call(entrypoint: "Entrypoint") -> None:
    from fray.current_client import set_current_client
    from fray.local_backend import LocalClient

    # Jobs within the job are part of it, and run in this process.
    with set_current_client(LocalClient()):
        if entrypoint.callable_entrypoint is not None:
            called = entrypoint.callable_entrypoint
            called.callable(*called.args, **called.kwargs)
        elif entrypoint.binary_entrypoint is not None:
            subprocess.run([entrypoint.binary_entrypoint.command, *entrypoint.binary_entrypoint.args], check=True)


def _finish(place: Place) -> None:
    if "wandb" in sys.modules:
        # The actor is killed when it has answered; what wandb does at exit would never be done.
        with contextlib.suppress(Exception):
            sys.modules["wandb"].finish()
    if place.world > 1 and "jax" in sys.modules:
        with contextlib.suppress(Exception):
            sys.modules["jax"].distributed.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()


def _register_cluster() -> None:
    """Make Levanter find this gang as it finds a Slurm or a TPU one: first in jax's list of clusters."""
    from jax._src import clusters

    class RayClusterEnv(clusters.ClusterEnv):
        name = "ray"

        @classmethod
        def is_env_present(cls) -> bool:
            return _COORDINATOR in os.environ

        @classmethod
        def get_coordinator_address(cls, timeout_secs: int | None = None, override_coordinator_port: Any = None) -> str:
            return os.environ[_COORDINATOR]

        @classmethod
        def get_process_count(cls) -> int:
            return int(os.environ[_PROCESSES])

        @classmethod
        def get_process_id(cls) -> int:
            return int(os.environ[_PROCESS])

        @classmethod
        def get_local_process_id(cls) -> int | None:
            # None: jax takes all devices that this process sees; Ray has hidden those of others.
            return None

    known = clusters.ClusterEnv._cluster_types
    known.remove(RayClusterEnv)
    known.insert(0, RayClusterEnv)


def _divert_output(name: str) -> None:
    """Keep the output of this rank in a file on its node: rank 0 says the same in the run's own log."""
    folder = Path(ray._private.worker.global_worker.node.get_logs_dir_path() or tempfile.gettempdir())
    log = os.open(folder / f"speedrun-{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)


def _failure(error: BaseException) -> Failure:
    frames = tuple(
        (frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(error.__traceback__)
    )
    text = "".join(traceback.format_exception(error))
    print(text, file=sys.stderr, flush=True)
    try:
        # By value, with what it holds: the driver may not have the module that it comes from.
        pickled = cloudpickle.dumps(error.with_traceback(None))
        cloudpickle.loads(pickled)
    except Exception:
        pickled = cloudpickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return Failure(pickled, frames, text)
