"""Rules about a pull request as a whole: it adds one candidate and leaves everybody else's work alone.

They hold for changes that touch a candidate's file, records or preregistration; a change of the tool alone is no
submission.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from speedrun.errors import SpeedrunError
from speedrun.identity import methods_used
from speedrun.project import CANDIDATES_FOLDER, Project
from speedrun.records import strict_json
from speedrun.submission.change import GENERATED, LEADERBOARD_FILE, Change, candidate_of
from speedrun.submission.leaderboard import generated_pages
from speedrun.submission.rule import Fault, Rule, Severity, show

_LETTERS = {"A": "added", "M": "changed", "D": "deleted", "T": "made into something else"}


def one_candidate(change: Change) -> Iterator[Fault]:
    """One pull request brings one candidate."""
    names = sorted(change.names)
    if len(names) > 1:
        yield Fault("", f"it touches {', '.join(names)}: one candidate a pull request, and nobody else's records")


def own_paths(change: Change) -> Iterator[Fault]:
    """Nothing is changed but the candidate's file, its records, its preregistration, new parts of speedrun/methods that
    it uses, and the pages made from records."""
    own_parts = _new_parts(change)
    for path, how in change.paths.items():
        if candidate_of(path) is None and path not in GENERATED and not (how == "A" and path in own_parts):
            yield Fault("", f"it is {_LETTERS.get(how, 'changed')}, and is not the submission's own", path)


def _new_parts(change: Change) -> set[str]:
    parts: set[str] = set()
    for name in change.names:
        file = change.root / CANDIDATES_FOLDER / f"{name}.py"
        if file.is_file() and not file.is_symlink():
            try:
                used = methods_used(file, change.root / "speedrun")
            except SpeedrunError:
                continue
            parts |= {path.relative_to(change.root).as_posix() for path in used}
    return parts


def same_authors(change: Change) -> Iterator[Fault]:
    """Records that were there keep their authors."""
    for path in change.results_changed():
        before = _credit(change.at_base(path))
        file = change.root / path
        after = _credit(_read(file)) if file.is_file() and not file.is_symlink() else None
        if before and after is not None and before != after:
            yield Fault("authors", f"they were {show(sorted(before))} and are {show(sorted(after))}", path)


def records_kept(change: Change) -> Iterator[Fault]:
    """No record is taken away: negative results stay."""
    for path in change.results_changed():
        if change.paths[path] == "D":
            yield Fault("", "the record is deleted", path)


def leaderboard(change: Change) -> Iterator[Fault]:
    """LEADERBOARD.md, and docs/candidates.md where docs/ is, are what the records of this tree make them."""
    try:
        pages = generated_pages(Project(change.root))
    except SpeedrunError as error:
        yield Fault("", f"the leaderboard cannot be made: {error}", LEADERBOARD_FILE)
        return
    for path, expected in pages.items():
        file = change.root / path
        there = file.read_bytes() if file.is_file() and not file.is_symlink() else b""
        if there.replace(b"\r\n", b"\n") != expected.encode():
            what = "it is not what the records make it: run `speedrun leaderboard --write`"
            yield Fault("", what if there else "it is missing: run `speedrun leaderboard --write`", path)


def _read(file: Path) -> Any:
    try:
        return strict_json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None


def _credit(content: Any) -> set[str]:
    """Names of all authors in a results file."""
    runs = content.get("runs") if isinstance(content, dict) else None
    infos = [run.get("run_info") for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
    authors = [info.get("authors") for info in infos if isinstance(info, dict)]
    everybody = [author for each in authors if isinstance(each, list) for author in each if isinstance(author, dict)]
    return {str(author.get("name")) for author in everybody}


CHANGE_RULES: tuple[Rule[Change], ...] = (
    Rule("one-candidate", Severity.ERROR, one_candidate),
    Rule("own-paths", Severity.ERROR, own_paths),
    Rule("same-authors", Severity.ERROR, same_authors),
    Rule("records-kept", Severity.ERROR, records_kept),
    Rule("leaderboard", Severity.ERROR, leaderboard),
)
