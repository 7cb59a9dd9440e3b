"""Git, by its command line: arguments as lists, never a shell, and its own words in the error."""

import os
import subprocess
from pathlib import Path

from speedrun.errors import SpeedrunError

TIMEOUT_SECONDS = 300


class GitError(SpeedrunError):
    """A git command that failed."""


def git(root: Path, *words: str, timeout: float = TIMEOUT_SECONDS) -> str:
    """What ``git -C root`` prints for ``words``.

    Raises:
        GitError: when it fails, with the last line that it said; or when there is no git.
    """
    return git_bytes(root, *words, timeout=timeout).decode("utf-8", errors="surrogateescape")


def git_bytes(root: Path, *words: str, timeout: float = TIMEOUT_SECONDS) -> bytes:
    """See ``git``."""
    # It must not wait for a password that nobody is there to type.
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, timeout=timeout, env=environment, check=False
        )
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {words[0]} did not answer within {timeout:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").split("\n")[-1]
        raise GitError(f"git {' '.join(words[:2])} failed: {said.removeprefix('fatal: ').removeprefix('error: ')}")
    return done.stdout


def top_of(root: Path) -> Path:
    """The top folder of the repository that holds ``root``.

    Raises:
        GitError: outside a repository.
    """
    return Path(git(root, "rev-parse", "--show-toplevel").rstrip("\n"))


def commit_of(root: Path, ref: str) -> str:
    """The commit that ``ref`` means.

    Raises:
        GitError: when there is no such commit.
    """
    return git(root, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").strip()
