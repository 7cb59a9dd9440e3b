"""Who is at the keyboard, as git knows."""

from pathlib import Path

from speedrun.submission.git import GitError, git


def git_name(root: Path) -> str:
    """The user's name in git's configuration; "unknown" where there is none."""
    try:
        return git(root, "config", "user.name").strip() or "unknown"
    except GitError:
        return "unknown"
