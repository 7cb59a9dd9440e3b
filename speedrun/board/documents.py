"""Two arms compared document by document, from the documents files beside their records."""

from collections.abc import Sequence

from speedrun.board.model import Figure
from speedrun.board.records import Record
from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.records.documents import Documents, documents_file, parse_documents
from speedrun.records.store import MAX_STEP_LOG_BYTES


def difference_over_documents(project: Project, candidate: Sequence[Record], baseline: Sequence[Record]) -> Figure:
    """Candidate's minus baseline's bits per byte with its interval over documents, or the reason why there is none.

    Args:
        candidate: the runs of its arm that are compared.
    """
    from speedrun.scoring.documents import paired_difference

    try:
        if len({record.info.evaluation.texts_sha256 for record in [*candidate, *baseline]}) > 1:
            raise SpeedrunError("they were not scored on the same texts")
        sides = [[_documents(project, record) for record in side] for side in (candidate, baseline)]
        found = paired_difference(*sides)
    except SpeedrunError as problem:
        return Figure(value=None, reason=str(problem))
    return Figure(value=found.bits_per_byte, low=found.low, high=found.high)


def _documents(project: Project, record: Record) -> Documents:
    """What stands beside a record.

    Raises:
        SpeedrunError: where it is missing, or not what the record says.
    """
    seed, said = record.info.seed, record.info.evaluation.documents_file
    where = f"{record.candidate} at {record.rung}, seed {seed}"
    if said is None:
        raise SpeedrunError(f"{where} keeps no figures of single documents: `speedrun evaluate` adds them")
    path = (project.root / record.path).with_name(documents_file(seed))
    try:
        if path.stat().st_size > MAX_STEP_LOG_BYTES:
            raise ValueError("it is too large")
        documents, digest = parse_documents(path.read_bytes())
    except OSError as problem:
        raise SpeedrunError(f"the documents of {where} cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        raise SpeedrunError(f"the documents of {where} cannot be read: {problem}") from None
    if digest != said.sha256:
        raise SpeedrunError(f"the documents of {where} are not those of its record")
    return documents
