"""Our own records as the board reads them: every run, with what stands beside it and what is wrong with it.

They come from strangers, and so are data: read, checked, never run. A run's place is its folder, whatever the
record says of itself. What cannot be compared is flagged on its row and kept; `FLAGS` says what each flag means.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from speedrun.candidate import SAFE_NAME
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.schema import PROTOCOL, RunInfo
from speedrun.records.store import RESULTS_FILE, read_results

CLOSE = 1e-9
"""Relative difference that rounding leaves."""

FLAGS = {
    "misplaced": "it names another candidate or rung than the folder that it stands in",
    "other_protocol": "it was scored by another version of the protocol",
    "own_corpus": "it was trained on texts of its author's own",
    "over_budget": "it spent more model FLOPs than its rung allows",
    "no_score": "its score or its FLOPs are not positive",
    "mixed_recipes": "the results file holds several recipes, which are no seeds of one",
    "repeated_seed": "its seed stands twice in the results file",
    "copied": "another record holds the same run",
}
"""Each keeps a run off the ranking. `speedrun validate` refuses all of these, and looks for much more."""


@dataclass(frozen=True)
class Record:
    """One run."""

    candidate: str
    rung: str
    info: RunInfo
    path: str
    """Of the results file, from the project's root."""
    flags: tuple[str, ...]

    @property
    def ladder(self) -> str:
        """Micro and standard rungs are two ladders, never one curve."""
        return LADDER[self.rung].ladder

    @property
    def key(self) -> tuple[str, str, int]:
        """Candidate, rung and seed."""
        return self.candidate, self.rung, self.info.seed


def results_files(project: Project) -> list[Path]:
    """Every results file of our own, by candidate and then in ladder order."""
    order = {rung: at for at, rung in enumerate(LADDER)}
    found = [path for path in project.results.glob(f"*/*/{RESULTS_FILE}") if _is_ours(path)]
    return sorted(found, key=lambda path: (path.parts[-3], order[path.parts[-2]]))


def _is_ours(path: Path) -> bool:
    return bool(SAFE_NAME.fullmatch(path.parts[-3])) and path.parts[-2] in LADDER


def read_records(project: Project) -> list[Record]:
    """Every run of the project, flagged, by candidate, rung and seed.

    Raises:
        SpeedrunError: for a results file that cannot be read: a board must not leave one out in silence.
    """
    runs = []
    for path in results_files(project):
        infos = [run.run_info for run in read_results(path).runs]
        runs += [(path, info, tuple(_file_flags(info, infos))) for info in sorted(infos, key=lambda info: info.seed)]
    copies = _copies(info for _, info, _ in runs)
    return [_record(project, path, info, flags, copies) for path, info, flags in runs]


def _record(project: Project, path: Path, info: RunInfo, flags: tuple[str, ...], copies: set[str]) -> Record:
    candidate, rung = path.parts[-3], path.parts[-2]
    own = _own_flags(info, candidate, rung)
    copied = ["copied"] if copies & set(_identities(info)) else []
    return Record(candidate, rung, info, path.relative_to(project.root).as_posix(), (*flags, *own, *copied))


def _own_flags(info: RunInfo, candidate: str, rung: str) -> Iterator[str]:
    if (info.candidate, info.rung) != (candidate, rung):
        yield "misplaced"
    if info.evaluation.protocol != PROTOCOL:
        yield "other_protocol"
    if info.corpus != "rung":
        yield "own_corpus"
    if info.model_flops > LADDER[rung].budget_flops * (1 + CLOSE):
        yield "over_budget"
    if info.bits_per_byte <= 0 or info.model_flops <= 0:
        yield "no_score"


def _file_flags(info: RunInfo, infos: list[RunInfo]) -> Iterator[str]:
    if any(other.recipe_fingerprint != info.recipe_fingerprint for other in infos):
        yield "mixed_recipes"
    if sum(other.seed == info.seed for other in infos) > 1:
        yield "repeated_seed"


def _identities(info: RunInfo) -> list[str]:
    """What no two runs share: the step log, and the run's link if there is one."""
    link = [info.wandb_run_link.rstrip("/")] if info.wandb_run_link else []
    return [info.step_log.sha256, *link]


def _copies(infos: Iterable[RunInfo]) -> set[str]:
    counts = Counter(identity for info in infos for identity in _identities(info))
    return {identity for identity, count in counts.items() if count > 1}
