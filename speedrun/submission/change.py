"""The change under review: what differs between a base and the tree, read with git, nothing of it run."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speedrun.candidate import SAFE_NAME
from speedrun.errors import SpeedrunError
from speedrun.project import CANDIDATES_FOLDER
from speedrun.records import strict_json
from speedrun.records.preregistrations import FOLDER as PREREGISTRATIONS_FOLDER
from speedrun.records.store import RESULTS_FILE
from speedrun.submission.git import GitError, commit_of, git, git_bytes, top_of
from speedrun.submission.tree import RESERVED, RESULTS_FOLDER

LEADERBOARD_FILE = "LEADERBOARD.md"
GENERATED = (LEADERBOARD_FILE, "docs/candidates.md")
"""Pages made from the records: made anew when a candidate is submitted."""
_OF_CANDIDATE = re.compile(
    rf"{RESULTS_FOLDER}/(?P<a>[^/]+)/.+|{CANDIDATES_FOLDER}/(?P<b>[^/]+)\.py|{PREREGISTRATIONS_FOLDER}/(?P<c>[^/]+)\.md"
)


@dataclass(frozen=True)
class Change:
    """What a pull request changes."""

    root: Path
    base: str
    """The commit that it is compared with."""
    paths: dict[str, str]
    """Changed path -> git's letter for it: A(dded), M(odified), D(eleted), T(ype changed)."""
    names: frozenset[str] = field(default_factory=frozenset)
    """Candidates whose file, records or preregistration it touches."""

    def at_base(self, path: str) -> Any:
        """The JSON that stood at ``path`` before the change; None where there was none that can be read."""
        try:
            return strict_json.loads(git_bytes(self.root, "show", f"{self.base}:{path}"))
        except (GitError, ValueError):
            return None

    def results_changed(self) -> list[str]:
        """Paths of results files that stood there before and are changed or deleted."""
        return [path for path, how in self.paths.items() if path.endswith(f"/{RESULTS_FILE}") and how != "A"]


def read_change(root: Path, ref: str) -> Change:
    """What the tree at ``root`` changes since it left ``ref``.

    Raises:
        SpeedrunError: when that cannot be told: no repository, an unknown ref, a history cut too short.
    """
    if top_of(root).resolve() != root.resolve():
        raise SpeedrunError(f"{root} is not the top folder of its git repository, so --base cannot be used here")
    try:
        commit_of(root, ref)
        base = git(root, "merge-base", ref, "HEAD").strip()
    except GitError as error:
        raise SpeedrunError(
            f"--base {ref}: {error}. In CI, fetch the whole history (fetch-depth: 0); at home, `git fetch` it"
        ) from None
    # Against the tree, so that what is not committed yet counts too; new files count once git knows them.
    fields = git(root, "diff", "--raw", "-z", "--no-renames", "--no-ext-diff", base).split("\0")
    paths = {path: about.split(" ")[-1][:1] for about, path in zip(fields[::2], fields[1::2], strict=False)}
    untracked = git(root, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    paths |= {path: "A" for path in untracked if path}
    return Change(root, base, paths, frozenset(name for path in paths if (name := candidate_of(path))))


def candidate_of(path: str) -> str | None:
    """The candidate to which a file belongs; None for a file that is no submission's."""
    match = _OF_CANDIDATE.fullmatch(path)
    name = next((name for name in match.groups() if name), None) if match else None
    return name if name and SAFE_NAME.fullmatch(name) and name != RESERVED else None
