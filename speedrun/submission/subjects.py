"""What rules look at: a folder of records, one run in it, and the world that they must agree with.

Reading is done here, once and with its problems kept; the rules only judge.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from speedrun.accelerators import Accelerator, accelerators
from speedrun.catalog import read_text
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec, parse_hardware
from speedrun.identity import methods_used, source_digest
from speedrun.ladder import LADDER, Rung
from speedrun.project import CANDIDATES_FOLDER
from speedrun.records import strict_json
from speedrun.records.attempts import ATTEMPTS_FILE, Attempted, parse_attempts
from speedrun.records.documents import Documents, documents_file, parse_documents
from speedrun.records.preregistrations import FOLDER as PREREGISTRATIONS_FOLDER
from speedrun.records.preregistrations import Preregistration, parse_preregistration
from speedrun.records.schema import SCHEMA_VERSION, ResultsFile, RunInfo
from speedrun.records.store import RESULTS_FILE
from speedrun.submission.step_log_file import StepLogFile, parse_step_log
from speedrun.submission.tree import Entry, read_bytes


@dataclass(frozen=True)
class CandidateText:
    """A candidate's file and its preregistration, as text."""

    name: str
    path: str
    listed: bool
    """Whether there is a candidate's file at all."""
    problem: str
    """Why the file cannot be read as a candidate."""
    digest: str | None
    """Its source digest, worked out from the files' text."""
    preregistration_path: str
    preregistration: Preregistration | None
    preregistration_problem: str


@dataclass
class World:
    """What a record must agree with beyond itself."""

    root: Path
    entries: Mapping[str, Entry]
    """Every file of the tree by path."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    originals: frozenset[str] | None = None
    """Candidates whose records are as they were before the change under review; None without one."""
    _candidates: dict[str, CandidateText] = field(default_factory=dict)
    _checks: dict[str, Any] = field(default_factory=dict)
    _hardware: dict[str, HardwareSpec | None] = field(default_factory=dict)

    @cached_property
    def by_folder(self) -> dict[str, list[str]]:
        """Paths of files by the folder that they stand in."""
        found: dict[str, list[str]] = {}
        for path, entry in self.entries.items():
            if entry.kind == "file":
                found.setdefault(path.rpartition("/")[0], []).append(path.rpartition("/")[2])
        return found

    @cached_property
    def accelerators(self) -> Mapping[str, Accelerator]:
        """The accelerators whose peaks are known to everybody: what a user declared on this machine is no evidence."""
        return accelerators(Path(os.devnull))

    def candidate(self, name: str) -> CandidateText:
        """What the tree says of candidate ``name``."""
        if name not in self._candidates:
            self._candidates[name] = self._read_candidate(name)
        return self._candidates[name]

    @cached_property
    def digests(self) -> dict[str, str]:
        """Candidate by source digest, for every candidate's file in the tree."""
        names = [Path(path).stem for path in self.entries if path.startswith(f"{CANDIDATES_FOLDER}/")]
        return {digest: name for name in names if (digest := self.candidate(name).digest)}

    def hardware(self, name: object) -> HardwareSpec | None:
        """The hardware that a record calls ``name``; None when nobody but its author knows it."""
        # A name is short; comparing an endless one with every known name would take as long.
        if not isinstance(name, str) or not 0 < len(name) <= 40 or "@" in name:
            return None
        if name not in self._hardware:
            try:
                specs = parse_hardware(name, self.accelerators)
            except SpeedrunError:
                specs = []
            self._hardware[name] = specs[0] if len(specs) == 1 else None
        return self._hardware[name]

    def check_result(self, candidate: str) -> Any:
        """What ``speedrun check --json`` left beside the records; None where there is nothing that can be read."""
        if candidate not in self._checks:
            content = self.read(f"results/{candidate}/check.json")
            try:
                self._checks[candidate] = None if content is None else strict_json.loads(content)
            except ValueError:
                self._checks[candidate] = None
        return self._checks[candidate]

    def read(self, path: str) -> bytes | None:
        """The file at ``path`` if it may be read."""
        entry = self.entries.get(path)
        if entry is None or not entry.readable:
            return None
        try:
            return read_bytes(self.root, path)
        except OSError:
            return None

    def _read_candidate(self, name: str) -> CandidateText:
        path, plan_path = f"{CANDIDATES_FOLDER}/{name}.py", f"{PREREGISTRATIONS_FOLDER}/{name}.md"
        content, plan = self.read(path), self.read(plan_path)
        preregistration, plan_problem = None, ""
        if plan is not None:
            try:
                preregistration = parse_preregistration(plan, plan_path)
            except SpeedrunError as error:
                plan_problem = str(error)
        digest, problem = None, ""
        if content is not None:
            try:
                problem = read_text(Path(path), content).problem
                package = self.root / "speedrun"
                parts = methods_used(self.root / path, package if package.is_dir() else None)
                digest = source_digest(self.root / path, parts)
            except (SpeedrunError, OSError) as error:
                problem = str(error)
        return CandidateText(name, path, content is not None, problem, digest, plan_path, preregistration, plan_problem)


@dataclass
class RecordFolder:
    """``results/<candidate>/<rung>``."""

    candidate: str
    rung_name: str
    world: World

    @property
    def path(self) -> str:
        """From the project's root."""
        return f"results/{self.candidate}/{self.rung_name}"

    @property
    def results_path(self) -> str:
        """Of the results file."""
        return f"{self.path}/{RESULTS_FILE}"

    @property
    def rung(self) -> Rung:
        """The rung that the folder is named for."""
        return LADDER[self.rung_name]

    def read(self, name: str) -> bytes | None:
        """A file of the folder, if it is there and may be read."""
        return self.world.read(f"{self.path}/{name}")

    @property
    def names(self) -> list[str]:
        """Names of the folder's files."""
        return self.world.by_folder.get(self.path, [])

    @property
    def has_results(self) -> bool:
        """Whether there is a results file that may be read."""
        entry = self.world.entries.get(self.results_path)
        return entry is not None and entry.readable

    @cached_property
    def content(self) -> tuple[Any, str]:
        """(what the results file holds, why it cannot be read)."""
        try:
            return strict_json.loads(self.read(RESULTS_FILE) or b""), ""
        except ValueError as error:
            return None, str(error)

    @property
    def version_problem(self) -> str:
        """What is wrong with the schema's version."""
        content, problem = self.content
        if problem or not isinstance(content, dict):
            return ""
        version = content.get("schema_version")
        if version == SCHEMA_VERSION and not isinstance(version, bool):
            return ""
        return f"schema_version is {version!r}; this program knows {SCHEMA_VERSION}"

    @cached_property
    def parsed(self) -> tuple[ResultsFile | None, list[tuple[str, str]]]:
        """(the results file, (field, problem) of whatever does not fit the schema)."""
        content, problem = self.content
        if problem:
            return None, []
        try:
            return ResultsFile.model_validate(content, strict=True), []
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            return None, [(".".join(map(str, fault["loc"])) or "the top level", fault["msg"]) for fault in faults]

    @property
    def runs(self) -> list[RunInfo]:
        """The runs, if the file can be read."""
        results, _ = self.parsed if self.has_results else (None, [])
        return [run.run_info for run in results.runs] if results else []

    @cached_property
    def attempts(self) -> tuple[list[Attempted] | None, str]:
        """(the attempts on record, why they cannot be read); None where there is no file."""
        content = self.read(ATTEMPTS_FILE)
        try:
            return (None, "") if content is None else (parse_attempts(content, ATTEMPTS_FILE), "")
        except SpeedrunError as error:
            return None, str(error)


@dataclass
class DocumentsFile:
    """A documents file; ``problem`` says why there is none."""

    problem: str = ""
    sha256: str = ""
    """Of the text."""
    documents: Documents | None = None


@dataclass
class RunCase:
    """One run of a folder."""

    info: RunInfo
    index: int
    folder: RecordFolder

    @property
    def world(self) -> World:
        """See ``World``."""
        return self.folder.world

    @property
    def rung(self) -> Rung:
        """The rung of its folder."""
        return self.folder.rung

    @cached_property
    def log(self) -> StepLogFile:
        """Its step log."""
        name = f"steps-{self.info.seed}.jsonl.gz"
        content = self.folder.read(name)
        return StepLogFile(f"{name} is not there") if content is None else parse_step_log(content)

    @cached_property
    def documents(self) -> DocumentsFile:
        """Its documents file."""
        name = documents_file(self.info.seed)
        content = self.folder.read(name)
        if content is None:
            return DocumentsFile(f"{name} is not there")
        try:
            documents, sha256 = parse_documents(content)
        except ValueError as error:
            return DocumentsFile(str(error))
        return DocumentsFile(sha256=sha256, documents=documents)
