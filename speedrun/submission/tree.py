"""The files of a submission as they lie in the tree: which there are, of what kind and size. Nothing is opened.

Links are never followed, so that nothing outside the tree can be read through it.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from speedrun.candidate import SAFE_NAME
from speedrun.ladder import LADDER
from speedrun.project import CANDIDATES_FOLDER
from speedrun.records.preregistrations import FOLDER as PREREGISTRATIONS_FOLDER
from speedrun.records.store import MAX_STEP_LOG_BYTES

RESULTS_FOLDER = "results"
RESERVED = "marin"
"""``results/marin/`` holds the public board's figures, and is no candidate's."""
MAX_DEPTH = 8

KB, MB = 1_000, 1_000_000
_IN_RUNG_FOLDER: dict[str, int] = {
    r"speedrun_results\.json": 1 * MB,
    r"steps-(0|[1-9][0-9]{0,9})\.jsonl\.gz": MAX_STEP_LOG_BYTES,
    r"documents-(0|[1-9][0-9]{0,9})\.json\.gz": 2_000_000,
    r"sweep\.json": 1 * MB,
    r"attempts\.jsonl": 2 * MB,
    r"futility\.jsonl": 2 * MB,
    r"verification-(0|[1-9][0-9]{0,9})\.json": 20 * KB,
    # The tool's own lock; git does not keep an empty one from being committed, and it does no harm.
    r"\.lock": 0,
}
_IN_CANDIDATE_FOLDER: dict[str, int] = {r"check\.json": 1 * MB}
_CANDIDATE_FILE: dict[str, int] = {r"[a-z0-9][a-z0-9_-]{0,63}\.py": 200 * KB, r"__init__\.py": 200 * KB}
_PREREGISTRATION: dict[str, int] = {r"[a-z0-9][a-z0-9_-]{0,63}\.md": 1 * MB}

Kind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True)
class Entry:
    """One name in the tree."""

    path: str
    """From the project's root, with '/'."""
    kind: Kind
    size: int
    """Bytes; 0 for what is no file."""
    known: bool
    """Whether a file or folder of this name belongs where it stands."""
    limit: int
    """The most bytes that it may have."""

    @property
    def readable(self) -> bool:
        """Whether it is a file that may be opened."""
        return self.kind == "file" and self.known and self.size <= self.limit


def entries(root: Path) -> Iterator[Entry]:
    """Everything in the folders that submissions write to, parents first, in sorted order."""
    for folder in (CANDIDATES_FOLDER, PREREGISTRATIONS_FOLDER, RESULTS_FOLDER):
        path = root / folder
        if path.is_symlink():
            yield Entry(folder, "link", 0, True, 0)
        elif path.is_dir():
            yield from _below(path, (folder,))


def _below(folder: Path, parts: tuple[str, ...]) -> Iterator[Entry]:
    with os.scandir(folder) as found:
        children = sorted(found, key=lambda child: child.name)
    for child in children:
        here = (*parts, child.name)
        if here == (RESULTS_FOLDER, RESERVED) or child.name == "__pycache__":
            continue
        kind = _kind(child)
        size = child.stat(follow_symlinks=False).st_size if kind == "file" else 0
        limit = _limit(here, kind)
        yield Entry("/".join(here), kind, size, limit is not None, limit or 0)
        if kind == "folder" and len(here) < MAX_DEPTH:
            yield from _below(Path(child.path), here)


def _kind(child: os.DirEntry[str]) -> Kind:
    if child.is_symlink():
        return "link"
    if child.is_file(follow_symlinks=False):
        return "file"
    return "folder" if child.is_dir(follow_symlinks=False) else "other"


def _limit(parts: tuple[str, ...], kind: Kind) -> int | None:
    """The most bytes that this name may have; None for a name that does not belong there."""
    match parts, kind:
        case (("results", candidate), "folder"):
            return 0 if SAFE_NAME.fullmatch(candidate) else None
        case (("results", "README.md"), "file"):
            return 100 * KB
        case (("results", _, rung), "folder"):
            return 0 if rung in LADDER else None
        case (("results", _, name), "file"):
            return _of_pattern(name, _IN_CANDIDATE_FOLDER)
        case (("results", _, _, name), "file"):
            return _of_pattern(name, _IN_RUNG_FOLDER)
        case (("executor_steps", name), "file"):
            return _of_pattern(name, _CANDIDATE_FILE)
        case (("preregistrations", name), "file"):
            return _of_pattern(name, _PREREGISTRATION)
    # Whatever a link or a pipe is called, that it is one is what is wrong with it.
    return 0 if kind in ("link", "other") else None


def _of_pattern(name: str, patterns: dict[str, int]) -> int | None:
    return next((limit for pattern, limit in patterns.items() if re.fullmatch(pattern, name)), None)


def read_bytes(root: Path, path: str) -> bytes:
    """The file at ``path``, which must be no link.

    Raises:
        OSError: when it cannot be read.
    """
    handle = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as file:
        return file.read()
