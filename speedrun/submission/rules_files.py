"""Rules about files: what lies in the tree, and whether it can be read as what it claims to be."""

from collections.abc import Iterator

from speedrun.errors import SpeedrunError
from speedrun.records import strict_json
from speedrun.records.documents import documents_file
from speedrun.records.sweeps import SWEEP_FILE, Sweep
from speedrun.records.verifications import FILE_NAME, parse_verification
from speedrun.submission.rule import Fault, Rule, Severity, show
from speedrun.submission.subjects import CandidateText, RecordFolder
from speedrun.submission.tree import Entry


def plain_file(entry: Entry) -> Iterator[Fault]:
    """No symbolic link, pipe or device stands where a file should: through a link, what is outside the tree would be
    read or published."""
    if entry.kind in ("link", "other"):
        yield Fault("", f"it is a {'symbolic link' if entry.kind == 'link' else 'special file'}: commit a plain file")


def file_name(entry: Entry) -> Iterator[Fault]:
    """Every file and folder has a name that belongs where it stands: candidates are named with lower-case letters,
    digits, '_' and '-', rungs as in the ladder, and a record's folder holds nothing but the record."""
    if not entry.known:
        where = entry.path.rpartition("/")[0]
        yield Fault("", f"no {entry.kind} of this name belongs in {show(where)}: rename it or take it away")


def file_size(entry: Entry) -> Iterator[Fault]:
    """No file is larger than its kind ever is."""
    if entry.known and entry.kind == "file" and entry.size > entry.limit:
        yield Fault("", f"it has {entry.size:,} bytes; at most {entry.limit:,} are read")


def is_json(folder: RecordFolder) -> Iterator[Fault]:
    """The results file is strict JSON in UTF-8: no NaN or infinity, no key twice, no endless nesting or numbers."""
    _, problem = folder.content if folder.has_results else (None, "")
    if problem:
        yield Fault("", problem)


def schema_version(folder: RecordFolder) -> Iterator[Fault]:
    """The results file has a schema version that this program knows."""
    if folder.has_results and folder.version_problem:
        yield Fault("schema_version", folder.version_problem)


def schema(folder: RecordFolder) -> Iterator[Fault]:
    """Every field is there and of its type (a number written as text is none); unknown fields are let be."""
    if folder.has_results and not folder.version_problem:
        _, faults = folder.parsed
        yield from (Fault(field, message) for field, message in faults[:20])


def has_runs(folder: RecordFolder) -> Iterator[Fault]:
    """A results file holds at least one run."""
    results, _ = folder.parsed if folder.has_results else (None, [])
    if results is not None and not results.runs:
        yield Fault("runs", "it is empty: a record without a run says nothing")


def stray_file(folder: RecordFolder) -> Iterator[Fault]:
    """Every step log and every documents file belongs to a run of the results file beside it."""
    if folder.has_results and folder.parsed[0] is None:
        return
    wanted = {name for info in folder.runs for name in (f"steps-{info.seed}.jsonl.gz", documents_file(info.seed))}
    for name in folder.names:
        if name.startswith(("steps-", "documents-")) and name not in wanted:
            yield Fault("", "no run of this seed is on record", f"{folder.path}/{name}")


def sweep_file(folder: RecordFolder) -> Iterator[Fault]:
    """A sweep, where there is one, can be read."""
    content = folder.read(SWEEP_FILE)
    if content is not None:
        try:
            Sweep.model_validate(strict_json.loads(content))
        except ValueError as error:
            yield Fault("", show(str(error).splitlines()[0], 200), f"{folder.path}/{SWEEP_FILE}")


def verification_file(folder: RecordFolder) -> Iterator[Fault]:
    """A verification, where there is one, can be read, and is one of the record that stands beside it now."""
    runs = {info.seed: info for info in folder.runs}
    for name in folder.names:
        if match := FILE_NAME.fullmatch(name):
            path = f"{folder.path}/{name}"
            try:
                verification = parse_verification(folder.read(name) or b"", name)
            except SpeedrunError as error:
                yield Fault("", str(error), path)
                continue
            info = runs.get(int(match[1]))
            if info is None or not verification.stands_for(info):
                yield Fault("", "it is of another record than the one beside it: run `speedrun reproduce` again", path)


def attempts_file(folder: RecordFolder) -> Iterator[Fault]:
    """The list of attempts, where there is one, can be read."""
    _, problem = folder.attempts
    if problem:
        yield Fault("", problem, f"{folder.path}/attempts.jsonl")


def candidate_file(candidate: CandidateText) -> Iterator[Fault]:
    """A candidate's file is Python and sets CANDIDATE once, as far as its text shows; it is not run."""
    if candidate.listed and candidate.problem:
        yield Fault("", candidate.problem, candidate.path)


def preregistration_intact(candidate: CandidateText) -> Iterator[Fault]:
    """A preregistration can be read, is of the candidate that its file is named for, and is as it was written."""
    path, found = candidate.preregistration_path, candidate.preregistration
    if candidate.preregistration_problem:
        yield Fault("", candidate.preregistration_problem, path)
    elif found is not None and found.plan.candidate != candidate.name:
        yield Fault("candidate", f"it is of {show(found.plan.candidate)}", path)
    elif found is not None and not found.intact:
        yield Fault("", "its text is not what its digest was taken of: it was edited after it was written", path)


ENTRY_RULES: tuple[Rule[Entry], ...] = (
    Rule("plain-file", Severity.ERROR, plain_file),
    Rule("file-name", Severity.ERROR, file_name),
    Rule("file-size", Severity.ERROR, file_size),
)
FOLDER_FILE_RULES: tuple[Rule[RecordFolder], ...] = (
    Rule("json", Severity.ERROR, is_json),
    Rule("schema-version", Severity.ERROR, schema_version),
    Rule("schema", Severity.ERROR, schema),
    Rule("has-runs", Severity.ERROR, has_runs),
    Rule("stray-file", Severity.ERROR, stray_file),
    Rule("sweep-file", Severity.ERROR, sweep_file),
    Rule("verification-file", Severity.ERROR, verification_file),
    Rule("attempts-file", Severity.ERROR, attempts_file),
)
CANDIDATE_RULES: tuple[Rule[CandidateText], ...] = (
    Rule("candidate-file", Severity.ERROR, candidate_file),
    Rule("preregistration-intact", Severity.ERROR, preregistration_intact),
)
