"""Where things are: the project's folders, the work folder and the artifact store."""

import os
from dataclasses import dataclass
from pathlib import Path

from speedrun.errors import SpeedrunError

CANDIDATES_FOLDER = "executor_steps"


@dataclass(frozen=True)
class Project:
    """The folders of one checkout. Nothing here creates any of them."""

    root: Path
    results_elsewhere: Path | None = None
    """A folder that takes the place of ``results/``."""

    @property
    def candidates(self) -> Path:
        """One file a candidate."""
        return self.root / CANDIDATES_FOLDER

    @property
    def results(self) -> Path:
        """``results/<candidate>/<rung>/speedrun_results.json``."""
        return self.results_elsewhere or self.root / "results"

    @property
    def work(self) -> Path:
        """What can be made again: logs, run manifests, sweeps, scratch records. Not committed."""
        return self.root / ".speedrun"

    @property
    def store(self) -> str:
        """Prefix under which Marin keeps artifacts: ``MARIN_PREFIX``, else a folder in the work folder.

        A relative ``MARIN_PREFIX`` is made absolute here, since a worker elsewhere would resolve it
        against its own folder.
        """
        prefix = os.environ.get("MARIN_PREFIX", "")
        if not prefix:
            return str(self.work / "store")
        return prefix if "://" in prefix else str(Path(prefix).expanduser().absolute())

    @property
    def store_is_local(self) -> bool:
        """Whether artifacts lie on a file system of this machine (or one mounted into it)."""
        return "://" not in self.store


def find_project(start: Path | None = None) -> Project:
    """The project that holds ``start`` (the current folder when not given).

    ``SPEEDRUN_PROJECT`` names it outright.

    Raises:
        SpeedrunError: when no parent folder holds ``executor_steps/``.
    """
    named = os.environ.get("SPEEDRUN_PROJECT")
    start = (Path(named) if named else start or Path.cwd()).absolute()
    for folder in (start,) if named else (start, *start.parents):
        if (folder / CANDIDATES_FOLDER).is_dir():
            return Project(folder)
    raise SpeedrunError(
        f"no {CANDIDATES_FOLDER}/ folder in {start}"
        + ("" if named else " or above it")
        + ": run this inside a checkout of the project, or set SPEEDRUN_PROJECT to it"
    )
