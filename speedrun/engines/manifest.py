"""What was started: one small file a run, so that ``speedrun status`` can say how far each is.

A manifest only points: the state of a run is read from its steps' own files, which is what survives a
kill. Nothing here imports jax or marin.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from speedrun.engines.locks import Holder, holder_of, parse_holder
from speedrun.project import Project
from speedrun.records.store import write_json_atomically
from speedrun.storage import read_bytes

StepState = Literal["waiting", "running", "held", "stopped", "failed", "done"]
"""``held``: another process is at it. ``stopped``: whoever was at it is gone; a rerun resumes."""


@dataclass(frozen=True)
class Manifest:
    """One run as it was started."""

    key: str
    candidate: str
    """Name of its record."""
    rung: str
    seed: int
    hardware: str
    steps_total: int
    started: str
    log_file: str
    addresses: dict[str, str]
    """Path of each step of the DAG, by label, in order."""
    results_folder: str
    overrides: dict[str, Any]
    driver: str
    """The process that started it, as ``locks.process_name`` writes it."""
    flops_per_token: float | None = None
    """Model FLOPs of training per token; None in manifests of earlier versions."""


def write_manifest(project: Project, manifest: Manifest) -> None:
    """Keep ``manifest`` in the work folder, over an earlier one of the same run."""
    write_json_atomically(_folder(project) / f"{manifest.key}.json", asdict(manifest))


def read_manifests(project: Project) -> list[Manifest]:
    """Every run that was started in this project, oldest first. Damaged files are left out."""
    manifests = []
    for path in _folder(project).glob("*.json"):
        try:
            manifests.append(Manifest(**json.loads(path.read_text())))
        except (ValueError, TypeError):
            continue
    return sorted(manifests, key=lambda manifest: (manifest.started, manifest.rung, manifest.seed))


def step_state(path: str) -> tuple[StepState, Holder | None]:
    """(state of the step whose output lies at ``path``, who holds it)."""
    try:
        status = read_bytes(f"{path}/.executor_status").decode().strip()
    except FileNotFoundError:
        return "waiting", None
    if status == "SUCCESS":
        return "done", None
    if status in ("FAILED", "DEP_FAILED"):
        return "failed", None
    holder = holder_of(path)
    if holder is None or holder.is_known_dead():
        return "stopped", None
    return ("running" if holder.is_this_process else "held"), holder


def step_states(addresses: Mapping[str, str]) -> dict[str, tuple[StepState, Holder | None]]:
    """The state of every step, by label."""
    return {label: step_state(path) for label, path in addresses.items()}


def driver_of(manifest: Manifest) -> Holder | None:
    """The process that started the run, unless it is known to be gone."""
    driver = parse_holder(manifest.driver)
    return None if driver.is_known_dead() else driver


def _folder(project: Project) -> Path:
    return project.work / "runs"
