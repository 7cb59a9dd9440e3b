"""Who holds a step, and is he still alive?

Marin's step lock is a lease of 90 seconds that names a host and a thread. A process that was killed
leaves it behind, and whoever comes next on the same machine would wait for it to run out. Here the
holder's name says which process it is, so that a dead one's lock can be taken away at once, and whoever
does wait can be told for whom.
"""

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from speedrun.storage import read_bytes

LEASE_SECONDS = 90.0
"""After so long without a heartbeat Marin takes a lock for abandoned."""

_SEPARATOR = "|"


def lock_path(step_path: str) -> str:
    """The lock file of the step whose output lies at ``step_path``."""
    return f"{step_path}/.executor_status.lock"


@dataclass(frozen=True)
class Holder:
    """A process that holds, or held, a step's lock."""

    host: str
    pid_space: str
    """The process-number space: the boot and the namespace in which ``pid`` means something."""
    pid: int
    started: str
    """Start time of the process, since numbers are given anew."""

    def is_known_dead(self) -> bool:
        """Whether the holder ran on this machine and is gone. False when it cannot be known from here."""
        here = _this_process()
        if (self.host, self.pid_space) != (here.host, here.pid_space):
            return False
        return _start_time(self.pid) != self.started

    @property
    def is_this_process(self) -> bool:
        """Whether it is the process that asks."""
        return self == _this_process()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def name_holders() -> None:
    """Make Marin's step locks say which process holds them. Call before running steps."""
    from marin.execution import step_status

    step_status.worker_id = process_name


def holder_of(step_path: str) -> Holder | None:
    """The process whose lease on the step at ``step_path`` is running; None when nobody's is."""
    for _ in range(3):
        try:
            lease = json.loads(read_bytes(lock_path(step_path)))
            stale = time.time() - float(lease["timestamp"]) > LEASE_SECONDS
            return None if stale else parse_holder(str(lease["worker_id"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            # The heartbeat is just writing it.
            time.sleep(0.02)
    return None


def release_dead(step_paths: Iterable[str]) -> list[str]:
    """Take away the locks of dead processes of this machine. Returns the paths of the steps that were held."""
    released = []
    for path in step_paths:
        holder = holder_of(path)
        if holder is not None and holder.is_known_dead():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(lock_path(path))
            released.append(path)
    return released


def process_name() -> str:
    """This process and thread, as a lock names its holder."""
    here = _this_process()
    parts = (here.host, here.pid_space, str(here.pid), here.started, str(threading.get_ident()))
    return _SEPARATOR.join(parts)


def parse_holder(worker: str) -> Holder:
    """The process that a lock names."""
    parts = worker.split(_SEPARATOR)
    if len(parts) != 5 or not parts[2].isdigit():
        # A lock that another program wrote: its holder cannot be looked up from here.
        return Holder(worker, "", 0, "")
    return Holder(parts[0], parts[1], int(parts[2]), parts[3])


@functools.cache
def _identify(pid: int) -> Holder:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
        return Holder(os.uname().nodename, f"{boot}/{namespace}", pid, _start_time(pid))
    return Holder(os.uname().nodename, "", pid, _start_time(pid))


def _this_process() -> Holder:
    return _identify(os.getpid())


def _start_time(pid: int) -> str:
    """When the process with this number started, in the kernel's own unit; "" if there is none.

    A zombie counts as gone: it only waits for its parent to notice.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return "" if not _exists(pid) else "alive"
    return "" if fields[0] in "ZX" else fields[19]


def _exists(pid: int) -> bool:
    """For systems without /proc."""
    if Path("/proc").is_dir():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
