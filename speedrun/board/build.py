"""The board of a project: worked out from its records, or taken from the cache while nothing has changed.

Scoring imports pandas and scipy, which takes longer than all else that `speedrun leaderboard` does. The board is
a function of the records and of this package's source, so its result is kept under the digest of both.
"""

import gc
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedrun.board.badges import gate_one
from speedrun.board.model import Board, CandidateInfo
from speedrun.board.records import Record, read_records, results_files
from speedrun.errors import SpeedrunError
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.preregistrations import FOLDER
from speedrun.records.store import write_bytes_atomically

PACKAGE = Path(__file__).parents[1]
BESIDE = ("sweep", "verification-", "futility")
"""What the names of files begin with that tell the board something beside the record."""
_SOURCE = ("board/*.py", "scoring/*.py", "records/*.py", "cost/conventions.py", "ladder.py", "accelerators.py")


def board(project: Project) -> Board:
    """The board, from the cache where it is still right.

    Raises:
        SpeedrunError: for a record that cannot be read.
    """
    cached = project.work / "cache" / "board" / f"{_digest(project)}.json"
    if cached.is_file():
        try:
            return Board.model_validate_json(cached.read_bytes())
        except (OSError, ValueError):
            pass  # a damaged cache is only slower
    with without_collector():
        built = build_board(project, read_records(project))
    _keep(cached, built)
    return built


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's collector, which walks all that lives again and again, would double the time that many records take."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def build_board(project: Project, records: list[Record]) -> Board:
    """The board from records that have been read."""
    from speedrun.board.ladder import ladder_board
    from speedrun.board.public import public_board

    names = dict.fromkeys(rung.ladder for rung in LADDER.values())
    by_ladder = {name: [record for record in records if record.ladder == name] for name in names}
    hypotheses = {record.candidate: record.info.description for record in records}
    return Board(
        candidates=[
            CandidateInfo(name=name, hypothesis=text, gate_one=gate_one(project, name))
            for name, text in sorted(hypotheses.items())
        ],
        ladders=[ladder_board(project, name, own) for name, own in by_ladder.items() if own],
        public=public_board(project),
    )


def _keep(cached: Path, built: Board) -> None:
    """Keep the board, and only the newest."""
    try:
        write_bytes_atomically(cached, built.model_dump_json().encode())
    except SpeedrunError:
        return  # a read-only checkout has a board all the same
    for stale in cached.parent.glob("*.json"):
        if stale != cached:
            stale.unlink(missing_ok=True)


def _digest(project: Project) -> str:
    digest = hashlib.sha256()
    for path in _inputs(project):
        digest.update(f"{path}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:24]


def _inputs(project: Project) -> Iterator[Path]:
    """Every file that the board is made from, and the source of what makes it."""
    for _, _, path in results_files(project):
        yield path
        beside = sorted(os.listdir(path.parent))
        yield from (path.with_name(name) for name in beside if name.startswith(BESIDE))
    yield from sorted(project.results.glob("*/check.json"))
    yield from sorted((project.root / FOLDER).glob("*.md"))
    yield from sorted(project.results.glob("marin/board.json"))
    for pattern in _SOURCE:
        yield from sorted(PACKAGE.glob(pattern))
