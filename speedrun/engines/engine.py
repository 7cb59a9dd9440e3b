"""The engine of a command: Marin's step runner over a fray client, in a thread beside the display.

Engines differ by their client alone, and this is the one place where a client is chosen.
"""

import os
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from speedrun.errors import SpeedrunError

if TYPE_CHECKING:
    from fray.client import Client
    from fray.types import ResourceConfig
    from marin.execution.artifact import Artifact
    from marin.execution.lazy import ArtifactStep

EngineName = Literal["local", "ray", "iris"]
ENGINES: tuple[EngineName, ...] = ("local", "ray", "iris")


def engine_found() -> EngineName:
    """The engine of whoever names none: Marin's own inside one of its Iris jobs, else this machine."""
    return "iris" if os.environ.get("IRIS_TASK_ID") else "local"


@dataclass
class Engine:
    """Where steps run, and how many at a time."""

    client: "Client"
    concurrency: int
    """Steps in hand at once."""
    name: EngineName
    notices: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)
    """Sentences for the user, as they come."""

    def hardware(self) -> str | None:
        """What runs without ``--hardware`` run on; None when this process's own chips are to be looked at.

        Raises:
            SpeedrunError: when a cluster has accelerators, so that somebody must say which.
        """
        if self.name != "ray":
            return None
        from speedrun.engines.cluster import hardware_or_refuse

        return hardware_or_refuse()

    def check(self, resources: "Sequence[ResourceConfig]") -> None:
        """Refuse jobs that could never be placed.

        Raises:
            SpeedrunError: naming what is needed, what there is and the nearest that would fit.
        """
        if self.name == "ray":
            from speedrun.engines.ray import RayClient

            assert isinstance(self.client, RayClient)
            self.client.check(resources)

    def news(self) -> list[str]:
        """The notices that came since the last look."""
        found = []
        while not self.notices.empty():
            found.append(self.notices.get())
        return found

    def build(self, goals: "Sequence[ArtifactStep[Artifact]]") -> "Build":
        """Begin building ``goals``; returns at once."""
        return Build(self, goals)

    def close(self) -> None:
        """End what runs elsewhere. Threads of this process cannot be ended, and need not be."""
        if self.name == "ray":
            self.client.shutdown(wait=False)


class Build:
    """Steps being built."""

    def __init__(self, engine: Engine, goals: "Sequence[ArtifactStep[Artifact]]"):
        from speedrun.engines.locks import name_holders
        from speedrun.storage import find_buckets_by_path

        self._engine, self._goals = engine, goals
        self.error: BaseException | None = None
        """What went wrong, once ``wait`` has said that it is over."""
        name_holders()
        find_buckets_by_path()
        self._thread = threading.Thread(target=self._run, name="speedrun-engine", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait that long at most; True when everything has been built or has failed."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        from fray.current_client import set_current_client
        from marin.execution.lazy import run

        try:
            with set_current_client(self._engine.client):
                run(*self._goals, max_concurrent=self._engine.concurrency)
        except BaseException as error:
            self.error = error


def open_engine(name: EngineName, store: str, *, ray_address: str | None = None) -> Engine:
    """The engine called ``name``.

    Args:
        store: prefix of the artifacts.
        ray_address: of the cluster to join; RAY_ADDRESS when not given, and a Ray on this machine without either.

    Raises:
        SpeedrunError: when it is not to be had here.
    """
    match name:
        case "local":
            from fray.local_backend import LocalClient

            # One at a time: two would only share the same chips.
            return Engine(LocalClient(), 1, name)
        case "ray":
            from speedrun.engines.ray import MOST_JOBS, RayClient

            notices: queue.SimpleQueue[str] = queue.SimpleQueue()
            return Engine(RayClient(ray_address, store, notices.put), MOST_JOBS, name, notices)
        case "iris":
            from fray.current_client import current_client
            from fray.local_backend import LocalClient

            client = current_client()
            if isinstance(client, LocalClient):
                raise SpeedrunError(
                    "--engine iris works inside a job of Marin's Iris, which passes on its own client, and this is none"
                )
            return Engine(client, 8, name)
