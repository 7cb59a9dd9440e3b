"""Validating records as data: every rule over every file, record and change. No candidate is imported or run."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speedrun.candidate import SAFE_NAME
from speedrun.errors import UnknownNameError
from speedrun.ladder import LADDER
from speedrun.project import CANDIDATES_FOLDER, Project
from speedrun.records.preregistrations import FOLDER as PREREGISTRATIONS_FOLDER
from speedrun.submission.change import Change, read_change
from speedrun.submission.rule import Fault, Finding, Rule, Severity
from speedrun.submission.rules import CHANGE_RULES, COPY_RULES, ENTRY_RULES, FOLDER_RULES, RUN_RULES
from speedrun.submission.rules_copies import Sketch, sketch
from speedrun.submission.rules_files import CANDIDATE_RULES
from speedrun.submission.subjects import RecordFolder, RunCase, World
from speedrun.submission.tree import RESULTS_FOLDER, Entry, entries

RULE_FAILED = "rule-failed"
"""Finding that stands for a bug in a rule: what could not be checked is refused."""


@dataclass(frozen=True)
class Report:
    """What validation found."""

    findings: tuple[Finding, ...]
    records: int
    """Results files that were validated."""
    runs: int

    @property
    def errors(self) -> list[Finding]:
        """What refuses the submission."""
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]

    def of(self, severity: Severity) -> list[Finding]:
        """Findings of one severity."""
        return [finding for finding in self.findings if finding.severity is severity]


def validate(project: Project, paths: Sequence[str] = (), *, base: str | None = None) -> Report:
    """Every finding on the records, candidates and preregistrations of ``project``.

    Args:
        paths: files or folders, from the project's root, to which findings are limited; all by default. Copies
            are looked for among all records all the same.
        base: a git ref; what changed since is held to the rules of a pull request. Findings are then limited to
            the candidates that the change touches; a change that touches none is of the tool, and all are validated.

    Raises:
        SpeedrunError: when git cannot tell what changed, or a path is none.
    """
    change = read_change(project.root, base) if base is not None else None
    found = {entry.path: entry for entry in entries(project.root)}
    for path in paths:
        if path not in found and not (project.root / path).is_dir():
            raise UnknownNameError("path", path, found, advice="Paths are given from the project's folder.")
    world = World(project.root, found, originals=_originals(found, change))
    wanted = _Selection(tuple(path.rstrip("/") for path in paths if path not in (".", "")) or _touched(change))
    with _garbage_uncollected():
        findings, sketches, records = _validate_tree(world, wanted)
        findings += _apply(COPY_RULES, sketches, "")
        shown = [finding for finding in findings if wanted.has(finding.path)]
        if change is not None and change.names:
            shown += _apply(CHANGE_RULES, change, "")
    order = {severity: at for at, severity in enumerate(Severity)}
    shown.sort(key=lambda finding: (order[finding.severity], finding.path, finding.field))
    return Report(tuple(shown), records, sum(wanted.has(each.path) for each in sketches))


@dataclass(frozen=True)
class _Selection:
    paths: tuple[str, ...]

    def has(self, path: str) -> bool:
        """Whether ``path`` is one of the selected, or lies below or above one."""
        return not self.paths or any(
            path == each or path.startswith(f"{each}/") or each.startswith(f"{path}/") for each in self.paths
        )


def _validate_tree(world: World, wanted: _Selection) -> tuple[list[Finding], list[Sketch], int]:
    findings: list[Finding] = []
    sketches: list[Sketch] = []
    records = 0
    for entry in world.entries.values():
        findings += _apply(ENTRY_RULES, entry, entry.path)
    for name in _candidate_names(world.entries.values()):
        findings += _apply(CANDIDATE_RULES, world.candidate(name), f"{CANDIDATES_FOLDER}/{name}.py")
    for folder in _record_folders(world):
        cases = [RunCase(info, at, folder) for at, info in enumerate(folder.runs)]
        is_original = world.originals is not None and folder.candidate in world.originals
        sketches += [
            sketch(
                case.info,
                path=folder.results_path,
                index=case.index,
                candidate=folder.candidate,
                is_original=is_original,
            )
            for case in cases
        ]
        if not wanted.has(folder.path):
            continue
        records += folder.has_results
        findings += _apply(FOLDER_RULES, folder, folder.results_path)
        for case in cases:
            findings += _apply(RUN_RULES, case, folder.results_path, before=f"runs[{case.index}].run_info.")
    return findings, sketches, records


def _apply(rules: Iterable[Rule[Any]], subject: Any, path: str, before: str = "") -> Iterator[Finding]:
    for rule in rules:
        try:
            faults = list(rule.check(subject))
        except Exception as error:
            # A hole in a rule must refuse what made it show, and not end in a traceback.
            message = f"{rule.id} could not be applied ({type(error).__name__}: {str(error)[:200]!a})"
            yield Finding(RULE_FAILED, Severity.ERROR, path, "", message)
            continue
        for fault in faults:
            yield Finding(rule.id, rule.severity, fault.path or path, _field(fault, before), fault.message)


def _field(fault: Fault, before: str) -> str:
    return f"{before}{fault.field}" if fault.field and not fault.path else fault.field


def _candidate_names(found: Iterable[Entry]) -> list[str]:
    folders = (CANDIDATES_FOLDER, PREREGISTRATIONS_FOLDER)
    paths = (Path(entry.path) for entry in found if entry.readable and entry.path.startswith(folders))
    return sorted({path.stem for path in paths if SAFE_NAME.fullmatch(path.stem)})


def _record_folders(world: World) -> Iterator[RecordFolder]:
    for entry in world.entries.values():
        parts = entry.path.split("/")
        if entry.kind == "folder" and len(parts) == 3 and parts[0] == RESULTS_FOLDER and parts[2] in LADDER:
            if SAFE_NAME.fullmatch(parts[1]):
                yield RecordFolder(parts[1], parts[2], world)


def _touched(change: Change | None) -> tuple[str, ...]:
    """Where the candidates that a change touches have their files, and the other files that it changes there."""
    if change is None or not change.names:
        return ()
    own = [f"{RESULTS_FOLDER}/{name}" for name in change.names]
    own += [f"{CANDIDATES_FOLDER}/{name}.py" for name in change.names]
    own += [f"{PREREGISTRATIONS_FOLDER}/{name}.md" for name in change.names]
    return (*own, *change.paths)


def _originals(found: Iterable[str], change: Change | None) -> frozenset[str] | None:
    """Candidates whose records the change leaves alone."""
    if change is None:
        return None
    folders = (path.split("/") for path in found if path.startswith(f"{RESULTS_FOLDER}/"))
    return frozenset(parts[1] for parts in folders if len(parts) > 1) - change.names


@contextmanager
def _garbage_uncollected() -> Iterator[None]:
    """Reading ten thousand records makes millions of objects and no cycles worth looking for."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
