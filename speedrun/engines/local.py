"""The local engine: Marin's step runner over fray's in-process client, on this machine."""

import threading
from collections.abc import Sequence

from fray.current_client import set_current_client
from fray.local_backend import LocalClient
from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep, run

from speedrun.engines.locks import name_holders
from speedrun.hardware import HardwareSpec, parse_hardware


def detect_hardware() -> HardwareSpec:
    """What jax finds on this machine.

    Raises:
        SpeedrunError: for an accelerator that is not in the table, saying how to declare it.
    """
    import jax

    from speedrun.accelerators import accelerator_from_device_kind

    devices = jax.devices()
    if devices[0].platform == "cpu":
        return parse_hardware("cpu")[0]
    return HardwareSpec(accelerator_from_device_kind(devices[0].device_kind), len(devices), jax.process_count())


class LocalEngine:
    """Builds steps in a thread of this process, one at a time: two would only share the same chips."""

    def __init__(self, goals: Sequence[ArtifactStep[Artifact]]):
        self._goals = goals
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._build, name="speedrun-local-engine", daemon=True)

    def start(self) -> None:
        """Begin building; returns at once."""
        name_holders()
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait that long at most; True when everything has been built or has failed."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def error(self) -> BaseException | None:
        """What went wrong, once ``wait`` has said that it is over."""
        return self._error

    def _build(self) -> None:
        try:
            with set_current_client(LocalClient()):
                run(*self._goals, max_concurrent=1)
        except BaseException as error:
            self._error = error
