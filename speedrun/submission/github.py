"""GitHub, by its own command line where that is there and logged in; else by an address to open."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from speedrun.errors import SpeedrunError
from speedrun.submission.git import git

MAX_ADDRESS = 7_000
"""Characters of an address that browsers and GitHub take."""
MAX_BODY = 60_000
"""GitHub refuses a text of more than 65,536 characters."""
_REPOSITORY = re.compile(r"(?:^|[@/])github\.com[:/]+([\w.-]+)/([\w.-]+?)(?:\.git)?/?$")


def repository_of(root: Path, remote: str) -> str | None:
    """``owner/name`` of a remote on GitHub; None for one that is elsewhere."""
    found = _REPOSITORY.search(git(root, "remote", "get-url", remote).strip())
    return f"{found[1]}/{found[2]}" if found else None


def gh_is_ready() -> bool:
    """Whether the GitHub command line is there and logged in."""
    if shutil.which("gh") is None:
        return False
    return _gh("auth", "status", check=False) is not None


def open_pull_request(upstream: str, fork: str, branch: str, title: str, body: str) -> str:
    """Open the pull request with ``gh``, or bring the open one up to date; its address.

    Raises:
        SpeedrunError: when gh fails.
    """
    owner = fork.split("/")[0]
    head = branch if fork == upstream else f"{owner}:{branch}"
    asked = ["--head", branch, "--state", "open", "--json", "url,headRepositoryOwner"]
    found = json.loads(_gh("pr", "list", "--repo", upstream, *asked) or "[]")
    mine = [pr["url"] for pr in found if (pr.get("headRepositoryOwner") or {}).get("login") == owner]
    with _body_file(body) as file:
        if mine:
            _gh("pr", "edit", mine[0], "--title", title, "--body-file", file)
            return mine[0]
        words = ["--repo", upstream, "--base", "main", "--head", head, "--title", title, "--body-file", file]
        return (_gh("pr", "create", *words) or "").strip()


def comment_on_issue(repository: str | None, issue: int, body: str) -> None:
    """Post ``body`` to an issue with ``gh``.

    Raises:
        SpeedrunError: when gh fails.
    """
    with _body_file(body) as file:
        _gh("issue", "comment", str(issue), *(["--repo", repository] if repository else []), "--body-file", file)


def compare_address(upstream: str, fork: str, branch: str, title: str, body: str) -> tuple[str, bool]:
    """(the address at which a browser opens the pull request, whether the body is in it)."""
    between = f"main...{fork.split('/')[0]}:{quote(branch)}"
    start = f"https://github.com/{upstream}/compare/{between}?expand=1&title={quote(title)}"
    whole = f"{start}&body={quote(body)}"
    return (whole, True) if len(whole) <= MAX_ADDRESS else (start, False)


class _body_file:
    """A text in a file of its own, since it may be longer than a command line."""

    def __init__(self, body: str):
        self._body = body if len(body) <= MAX_BODY else body[:MAX_BODY] + "\n\n(cut: too long for GitHub)\n"

    def __enter__(self) -> str:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "body.md"
        path.write_text(self._body, encoding="utf-8")
        return str(path)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _gh(*words: str, check: bool = True) -> str | None:
    command: Sequence[str] = ["gh", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SpeedrunError(f"gh {words[0]} {words[1]}: {error}") from None
    if done.returncode == 0:
        return done.stdout
    if check:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["it failed"]
        raise SpeedrunError(f"gh {words[0]} {words[1]}: {said[-1]}")
    return None


def repository_for_issues(root: Path) -> str | None:
    """Where a project's issues are: the remote ``upstream`` where there is one, else ``origin``; None elsewhere."""
    known = git(root, "remote").split()
    remote = "upstream" if "upstream" in known else "origin"
    return repository_of(root, remote) if remote in known else None
