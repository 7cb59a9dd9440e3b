"""``speedrun cancel``: stop the process that drives a run, and free the steps that it holds."""

import os
import signal
import time
from collections.abc import Sequence

import click

from speedrun.engines.locks import Holder, release_dead
from speedrun.engines.manifest import Manifest, driver_of, read_manifests
from speedrun.engines.watch import look_at
from speedrun.errors import SpeedrunError
from speedrun.project import find_project

_POLITE_SECONDS = 20.0
"""A driver that was interrupted says how to resume and leaves; one that does not in this time is killed."""


@click.command("cancel")
@click.argument("what", required=False, metavar="[NAME|KEY]")
def command(what: str | None) -> None:
    """Stop what runs of candidate NAME, or the run with KEY; everything that runs here if neither is given.

    One process may drive several runs: all of its runs stop. Nothing is lost: the same `speedrun run` goes on
    from the last checkpoint.
    """
    project = find_project()
    drivers = running(read_manifests(project), what)
    if not drivers:
        raise SpeedrunError(f"nothing runs{f' of {what!r}' if what else ''}. `speedrun status` shows what there is.")
    here = os.uname().nodename
    elsewhere = [driver for driver in drivers if driver.host != here]
    if elsewhere:
        raise SpeedrunError(
            "\n".join(f"{driver} cannot be reached from {here}: run `speedrun cancel` there" for driver in elsewhere)
        )
    for driver, manifests in drivers.items():
        stop(driver)
        if project.store_is_local:
            release_dead({path for manifest in manifests for path in manifest.addresses.values()})
        for manifest in manifests:
            click.echo(f"cancelled {manifest.candidate} {manifest.rung} seed {manifest.seed} ({driver})")


def running(manifests: Sequence[Manifest], what: str | None) -> dict[Holder, list[Manifest]]:
    """The runs that stop if those called ``what`` are cancelled, by the live process that drives them."""
    live: dict[Holder, list[Manifest]] = {}
    for manifest in manifests:
        driver = driver_of(manifest)
        if driver is not None and driver.pid and not look_at(manifest).is_done:
            live.setdefault(driver, []).append(manifest)
    return {
        driver: runs for driver, runs in live.items() if what is None or any(what in (m.candidate, m.key) for m in runs)
    }


def stop(driver: Holder) -> None:
    """Interrupt the process as Ctrl-C does; kill it when that does not help."""
    for sign, patience in ((signal.SIGINT, _POLITE_SECONDS), (signal.SIGKILL, _POLITE_SECONDS)):
        # Looked up again before each signal: numbers of ended processes are given anew.
        if driver.is_known_dead():
            return
        os.kill(driver.pid, sign)
        end = time.monotonic() + patience
        while time.monotonic() < end and not driver.is_known_dead():
            time.sleep(0.1)
    if not driver.is_known_dead():
        raise SpeedrunError(f"{driver} does not end")
