"""Our own records as the board reads them: every run, with what stands beside it and what is wrong with it.

They come from strangers, and so are data: read, checked, never run. A run's place is its folder, whatever the
record says of itself. What cannot be compared is flagged on its row and kept; `FLAGS` says what each flag means.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
    "other_evaluation": "it was scored on another set than the rung's",
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


def results_files(project: Project) -> list[tuple[str, str, Path]]:
    """(candidate, rung, results file) of our own, by candidate and then in ladder order."""
    if not project.results.is_dir():
        return []
    candidates = sorted(name for name in os.listdir(project.results) if SAFE_NAME.fullmatch(name))
    found = ((name, rung, f"{project.results}/{name}/{rung}/{RESULTS_FILE}") for name in candidates for rung in LADDER)
    return [(name, rung, Path(path)) for name, rung, path in found if os.path.isfile(path)]


def read_records(project: Project) -> list[Record]:
    """Every run of the project, flagged, by candidate, rung and seed.

    Raises:
        SpeedrunError: for a results file that cannot be read: a board must not leave one out in silence.
    """
    records, base = [], os.path.relpath(project.results, project.root)
    for candidate, rung, path in results_files(project):
        shown = f"{base}/{candidate}/{rung}/{RESULTS_FILE}"
        infos = sorted((run.run_info for run in read_results(path).runs), key=lambda info: info.seed)
        for info in infos:
            flags = (*_file_flags(info, infos), *_own_flags(info, candidate, rung))
            records.append(Record(candidate, rung, info, shown, flags))
    copies = _copies(record.info for record in records)
    return [
        replace(record, flags=(*record.flags, "copied")) if copies & set(_identities(record.info)) else record
        for record in records
    ]


def _own_flags(info: RunInfo, candidate: str, rung: str) -> Iterator[str]:
    if (info.candidate, info.rung) != (candidate, rung):
        yield "misplaced"
    if info.evaluation.protocol != PROTOCOL:
        yield "other_protocol"
    if info.corpus != "rung":
        yield "own_corpus"
    if info.evaluation_data:
        yield "other_evaluation"
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
