"""Packing a candidate as a branch: exactly its files, on top of the upstream main, in a worktree of its own.

The user's tree, index and checked-out branch are only read. A branch that was pushed before is gone on from, never
rewritten: main is merged into it, and a conflict in a page made from records is mended by making it anew.
"""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from speedrun.errors import SpeedrunError
from speedrun.identity import methods_used
from speedrun.project import CANDIDATES_FOLDER, Project
from speedrun.records.preregistrations import FOLDER as PREREGISTRATIONS_FOLDER
from speedrun.submission.change import GENERATED
from speedrun.submission.git import GitError, commit_of, git, top_of
from speedrun.submission.leaderboard import generated_pages
from speedrun.submission.tree import RESULTS_FOLDER, entries
from speedrun.submission.worktree import worktree

MAIN = "main"


@dataclass(frozen=True)
class Remotes:
    """Where to start from and where to push to, as git calls them."""

    upstream: str
    fork: str


@dataclass(frozen=True)
class Package:
    """A branch that is ready to be pushed, in a worktree that is still there."""

    name: str
    tree: Path
    base: str
    """The upstream main that it stands on."""
    commit: str
    branch: str
    files: str
    """What it changes against the base, as git's summary."""


def branch_of(name: str) -> str:
    """The branch of a candidate's submission."""
    return f"speedrun/{name}"


def find_remotes(root: Path, upstream: str | None, fork: str | None) -> Remotes:
    """The remotes that are named; by default ``upstream`` where there is one, and ``origin``.

    Raises:
        SpeedrunError: when there is no such remote, or the project isn't the top of a repository.
    """
    if top_of(root).resolve() != root.resolve():
        raise SpeedrunError(f"{root} is not the top folder of its git repository")
    known = git(root, "remote").split()
    fork = fork or "origin"
    upstream = upstream or ("upstream" if "upstream" in known else fork)
    for remote in (upstream, fork):
        if remote not in known:
            raise SpeedrunError(
                f"git knows no remote {remote!r} (it knows {', '.join(known) or 'none'}): `git remote add {remote} URL`"
            )
    return Remotes(upstream, fork)


@contextlib.contextmanager
def packed(project: Project, name: str, rungs: Sequence[str], remotes: Remotes, title: str) -> Iterator[Package]:
    """The candidate's branch, committed in a worktree that lives as long as the context.

    Args:
        rungs: whose records go with it; all that the candidate has when empty.

    Raises:
        SpeedrunError: when main conflicts with more than the leaderboard, or git fails.
    """
    root, branch = project.root, branch_of(name)
    main = _fetch(root, remotes.upstream, MAIN)
    if main is None:
        raise SpeedrunError(f"{remotes.upstream} has no branch {MAIN}")
    earlier = _fetch(root, remotes.fork, branch)
    goes_on = earlier is not None and not _is_ancestor(root, earlier, main)
    with worktree(root, earlier if goes_on and earlier else main) as tree:
        unmerged = _merge(tree, main) if goes_on else []
        own = _replace_own_files(project, tree, name, rungs, main)
        if foreign := [path for path in unmerged if path not in own and path not in GENERATED]:
            raise SpeedrunError(f"{branch} and {MAIN} conflict in {', '.join(foreign)}: merge them by hand, then again")
        pages = generated_pages(Project(tree))
        for path, text in pages.items():
            (tree / path).write_text(text, encoding="utf-8")
        _commit(tree, [*own, *pages], title)
        files = git(tree, "diff", "--stat=100", "--no-renames", main, "HEAD").rstrip()
        yield Package(name, tree, main, commit_of(tree, "HEAD"), branch, files)


def push(project: Project, package: Package, remotes: Remotes) -> None:
    """Push the branch to the fork, and note it in the user's repository.

    Raises:
        GitError: when the fork refuses it.
    """
    git(project.root, "push", "--quiet", remotes.fork, f"{package.commit}:refs/heads/{package.branch}")
    # Where the user has it checked out it stays as it is: their tree is not moved under them.
    with contextlib.suppress(GitError):
        git(project.root, "branch", "--quiet", "--force", package.branch, package.commit)


def _fetch(root: Path, remote: str, branch: str) -> str | None:
    """The remote's commit of ``branch``, fetched; None where it has none."""
    if not git(root, "ls-remote", "--heads", remote, f"refs/heads/{branch}").strip():
        return None
    git(root, "fetch", "--quiet", "--no-tags", remote, f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}")
    return commit_of(root, f"refs/remotes/{remote}/{branch}")


def _is_ancestor(root: Path, commit: str, of: str) -> bool:
    return git(root, "merge-base", commit, of).strip() == commit


def _merge(tree: Path, main: str) -> list[str]:
    """Merge ``main``; the paths that conflict."""
    try:
        git(tree, "-c", "core.hooksPath=/dev/null", "merge", "--quiet", "--no-edit", main)
    except GitError:
        conflicts = [path for path in git(tree, "diff", "--name-only", "-z", "--diff-filter=U").split("\0") if path]
        if not conflicts:
            raise
        return conflicts
    return []


def _replace_own_files(project: Project, tree: Path, name: str, rungs: Sequence[str], main: str) -> list[str]:
    """Put the user's files of the candidate into ``tree``; the paths that were written or taken away."""
    wanted = own_files(project, name, rungs, tree)
    in_git = git(tree, "ls-files", "-z", "--", *_own_folders(name, rungs)).split("\0")
    gone = {path for path in in_git if path} - set(wanted)
    for path in gone:
        (tree / path).unlink(missing_ok=True)
    for path in wanted:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(project.root / path, tree / path, follow_symlinks=False)
    return sorted({*wanted, *gone})


def _own_folders(name: str, rungs: Sequence[str]) -> list[str]:
    folders = [f"{RESULTS_FOLDER}/{name}/{rung}" for rung in rungs] or [f"{RESULTS_FOLDER}/{name}"]
    return [*folders, f"{CANDIDATES_FOLDER}/{name}.py", f"{PREREGISTRATIONS_FOLDER}/{name}.md"]


def own_files(project: Project, name: str, rungs: Sequence[str], tree: Path) -> list[str]:
    """The candidate's files that are committed, from the project's root.

    Its file, records and preregistration; and parts of speedrun/methods that it uses and ``tree`` doesn't have.
    """
    before = tuple(_own_folders(name, rungs))
    files = [
        entry.path
        for entry in entries(project.root)
        if entry.readable and not entry.path.endswith("/.lock") and _is_below(entry.path, before)
    ]
    check = f"{RESULTS_FOLDER}/{name}/check.json"
    if check not in files and (project.root / check).is_file():
        files.append(check)
    candidate = project.root / CANDIDATES_FOLDER / f"{name}.py"
    package = project.root / "speedrun"
    if package.is_dir():
        parts = [path.relative_to(project.root).as_posix() for path in methods_used(candidate, package)]
        files += [part for part in parts if not (tree / part).exists()]
    return sorted(files)


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _commit(tree: Path, paths: Sequence[str], title: str) -> None:
    """Commit these paths, or conclude the merge with them; nothing where nothing changed."""
    # By force, since what is ignored on this computer may be part of the record all the same.
    git(tree, "add", "--force", "--all", "--", *[path for path in paths if _known(tree, path)])
    merging = (tree / git(tree, "rev-parse", "--git-path", "MERGE_HEAD").strip()).exists()
    if git(tree, "diff", "--cached", "--name-only") or merging:
        # Without hooks: one that reformats a file would change a digest that the record holds.
        git(tree, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--no-verify", "--message", title)


def _known(tree: Path, path: str) -> bool:
    """Whether git can add it: it is there, or was."""
    return (tree / path).exists() or bool(git(tree, "ls-files", "--", path).strip())
