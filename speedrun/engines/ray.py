"""Fray's client on Ray: what a step submits runs on the cluster, and survives what a cluster does to it.

Only ``submit`` differs from fray's local client. Zephyr's tokenizing workers so stay in the driver: anything
but a local client makes it start a cold interpreter for each shard.
"""

import contextlib
import dataclasses
import json
import os
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import cloudpickle
from fray.local_backend import LocalClient, LocalJobHandle
from fray.types import Entrypoint, JobRequest, ResourceConfig

from speedrun.engines.cluster import connect, disconnect, free_now, nodes_ever
from speedrun.engines.gang import Ending, Gang, Reservation
from speedrun.engines.placement import Need, need_of, refusal
from speedrun.engines.rank import Candidate, Job
from speedrun.errors import SpeedrunError
from speedrun.project import CANDIDATES_FOLDER
from speedrun.records.steps import ATTEMPT_VARIABLE

MOST_JOBS = 64
"""Jobs in hand at once; how many of them run is the cluster's own affair."""
MOST_CRASHES = 3
"""A process that dies so often and once more is not the cluster's bad luck."""
PLACEMENT_TIMEOUT_SECONDS = 1800.0

_LEAVING_SECONDS = 30.0

_PASSED_NAMES = ("MARIN_PREFIX", "HF_TOKEN", "XLA_FLAGS", "LIBTPU_INIT_ARGS", "TQDM_DISABLE", "TOKENIZERS_PARALLELISM")
_PASSED_PREFIXES = ("WANDB_", "HF_", "JAX_", "AWS_", "FSSPEC_", "SPEEDRUN_")


class Stopped(Exception):
    """The engine was stopped while the job ran or waited."""


class RayClient(LocalClient):
    """Runs jobs on the cluster at ``address``, or on a Ray of its own on this machine.

    Args:
        store: prefix of the artifacts, which every node must see.
        notify: told, in a sentence, what the user should know: that a job waits, or lost its node.
    """

    def __init__(
        self,
        address: str | None,
        store: str,
        notify: Callable[[str], None],
        placement_timeout: float = PLACEMENT_TIMEOUT_SECONDS,
    ):
        super().__init__(max_threads=MOST_JOBS)
        self._store, self._notify, self._placement_timeout = store, notify, placement_timeout
        self._stopped = threading.Event()
        self._line: deque[object] = deque()
        self._running: dict[str, Gang] = {}
        connect(address)

    def check(self, resources: Sequence[ResourceConfig]) -> None:
        """Refuse what the cluster can never hold.

        Raises:
            SpeedrunError: with what is needed, what there is and the nearest that would fit.
        """
        nodes = nodes_ever()
        for each in resources:
            if (why := refusal(need_of(each, each.replicas), nodes)) is not None:
                raise SpeedrunError(f"this run does not fit the cluster: {why} Nothing has been run.")

    def submit(self, request: JobRequest, adopt_existing: bool = True) -> LocalJobHandle:
        """Run the job on the cluster; a thread here sees it through."""
        driven = Entrypoint.from_callable(lambda: self._see_through(request))
        return super().submit(dataclasses.replace(request, entrypoint=driven), adopt_existing)

    def shutdown(self, wait: bool = True) -> None:
        """End what runs, and leave the cluster."""
        self._stopped.set()
        for gang in list(self._running.values()):
            gang.kill()
        disconnect()
        super().shutdown(wait=False)

    def _see_through(self, request: JobRequest) -> None:
        """Attempt after attempt, until the job is done or it makes no sense to go on."""
        need = need_of(request.resources, request.replicas or 1)
        self.check([dataclasses.replace(request.resources, replicas=need.hosts)])
        job = _job(request.entrypoint)
        crashes = losses = 0
        ended: dict[str, dict[str, object]] = {}
        while True:
            attempt = uuid.uuid4().hex[:12]
            told = {"id": attempt, "ended": ended}
            try:
                ending = self._attempt(request.name, need, job, _environment(request), told)
            except Exception:
                if not self._stopped.is_set():
                    raise
                # Whatever Ray makes of being left.
                ending = Ending("stopped")
            if self._stopped.is_set():
                # Not one call to Ray more: it would start a cluster of its own for a process that is leaving.
                ending = Ending("stopped")
            if ending.how == "finished":
                return
            if ending.how == "stopped":
                # The process is leaving. An error before it has left would mark the step as failed.
                time.sleep(_LEAVING_SECONDS)
                raise Stopped(request.name)
            if ending.how == "failed":
                assert ending.error is not None
                raise ending.error
            ended[attempt] = {"cause": ending.cause, "wall_seconds": ending.wall_seconds}
            crashes += ending.how == "crashed"
            losses += ending.how == "node lost"
            if crashes > MOST_CRASHES or losses > request.max_retries_preemption:
                raise RuntimeError(
                    f"{request.name} was given up after {crashes} crashes and {losses} lost nodes; the last time, "
                    f"{ending.cause}"
                ) from ending.error
            self._notify(f"{request.name}: {ending.cause}; starting it again (crash {crashes}, lost nodes {losses})")

    def _attempt(
        self, name: str, need: Need, job: Job, environment: Mapping[str, str], told: Mapping[str, object]
    ) -> Ending:
        reservation = Reservation(need)
        gang = None
        try:
            self._place(name, need, reservation)
            began = time.time()
            environment = dict(environment) | {ATTEMPT_VARIABLE: json.dumps(dict(told) | {"began": began})}
            gang = self._running[name] = Gang(reservation.start())
            with _marker(self._store) as marker:
                died = gang.look(marker, self._placement_timeout)
            ending = died or gang.run(job, _environments(environment, need, gang), self._stopped.is_set)
            return dataclasses.replace(ending, wall_seconds=time.time() - began)
        finally:
            self._running.pop(name, None)
            if gang is not None:
                gang.kill()
            reservation.release()

    def _place(self, name: str, need: Need, reservation: Reservation) -> None:
        """Wait for the hosts, behind the jobs that came earlier: cheap rungs are submitted first.

        Raises:
            SpeedrunError: when the cluster was busy with others' work for too long.
        """
        patience = time.monotonic() + self._placement_timeout
        said = False
        with self._in_line() as is_first:
            while not (is_first() and reservation.wait(_short(said))):
                if self._stopped.is_set():
                    raise Stopped(name)
                if self._running or not is_first():
                    # It waits for this command's own jobs, which is as it should be.
                    patience = time.monotonic() + self._placement_timeout
                    time.sleep(0.2)
                elif not said:
                    said = True
                    self._notify(f"{name} waits for {need}; free now: {free_now()}")
                if time.monotonic() > patience:
                    raise SpeedrunError(
                        f"{name} got no place within {self._placement_timeout:.0f} s: it needs {need}; free now: "
                        f"{free_now()}. Run the same command again when the cluster is less busy"
                    )

    @contextlib.contextmanager
    def _in_line(self) -> Iterator[Callable[[], bool]]:
        ticket = object()
        self._line.append(ticket)
        try:
            yield lambda: self._line[0] is ticket
        finally:
            self._line.remove(ticket)


def _short(said: bool) -> float:
    """Seconds for one look: a job that is placed at once should not be said to wait."""
    return 5.0 if not said else 2.0


def _job(entrypoint: Entrypoint) -> Job:
    """The job, with the candidates' files that were loaded here."""
    loaded = [name for name in sys.modules if name.startswith(f"{CANDIDATES_FOLDER}.")]
    files = [(name, file) for name in loaded if (file := sys.modules[name].__file__) is not None]
    candidates = tuple(Candidate(name, file, Path(file).read_text(encoding="utf-8")) for name, file in files)
    return Job(cloudpickle.dumps(entrypoint), candidates)


def _environment(request: JobRequest) -> dict[str, str]:
    """What a rank's environment is set to: an allowlist of this process's, the request's and the device's own.

    It travels with the call and not in Ray's runtime_env, which Ray writes into its logs, secrets and all.
    """
    passed = {
        name: value for name, value in os.environ.items() if name in _PASSED_NAMES or name.startswith(_PASSED_PREFIXES)
    }
    if (token := _hub_token()) is not None:
        passed.setdefault("HF_TOKEN", token)
    passed |= request.environment.env_vars if request.environment else {}
    device = request.resources.device.default_env_vars()
    # Said even when it is "": workers on this machine inherit this process's own.
    return device | passed | {"JAX_PLATFORMS": device["JAX_PLATFORMS"]}


def _environments(environment: Mapping[str, str], need: Need, gang: Gang) -> list[dict[str, str]]:
    """The environment of each rank; hosts of several TPU slices are told which is theirs."""
    if need.slices == 1:
        return [dict(environment)] * need.hosts
    from ray.util.tpu import get_tpu_coordinator_env_vars

    per_slice = need.hosts // need.slices
    address = gang.hosts[0].address
    return [
        dict(environment) | get_tpu_coordinator_env_vars(address, need.slices, rank // per_slice)
        for rank in range(need.hosts)
    ]


def _hub_token() -> str | None:
    """This user's Hugging Face token, which workers elsewhere would not find."""
    from huggingface_hub import get_token

    return get_token()


@contextlib.contextmanager
def _marker(store: str) -> Iterator[str | None]:
    """A file in a store on disk, by which each worker tells whether it sees the same store."""
    if "://" in store:
        yield None
        return
    path = Path(store) / f".speedrun-{uuid.uuid4().hex[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
