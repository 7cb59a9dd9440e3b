"""A clean worktree of a commit, in a folder of its own that is gone afterwards."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from speedrun.submission.git import GitError, git


@contextlib.contextmanager
def worktree(root: Path, commit: str) -> Iterator[Path]:
    """A worktree of ``commit``, on no branch. The user's own tree, index and branches are not touched.

    Raises:
        GitError: when git cannot make it.
    """
    folder = Path(tempfile.mkdtemp(prefix="speedrun-")).resolve()
    path = folder / "project"
    try:
        git(root, "worktree", "add", "--quiet", "--detach", str(path), commit)
        yield path
    finally:
        with contextlib.suppress(GitError):
            git(root, "worktree", "remove", "--force", str(path))
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(GitError):
            git(root, "worktree", "prune")
