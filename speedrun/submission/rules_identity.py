"""Rules about who and what: whose record it is, of which candidate, made from which source."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from speedrun.identity import COMPUTING_PACKAGES, run_key
from speedrun.records.schema import AuthorInfo
from speedrun.submission.rule import Fault, Rule, Severity, show
from speedrun.submission.subjects import RunCase

MAX_LINK = 500
MAX_NAME = 200
MAX_TEXT = 5_000
_ALLOWED = "\n\t\u200c\u200d"
"""Characters that cannot be seen and yet belong into texts; the last two join letters in some scripts."""

_ADDRESS = re.compile(r"://|^www\.|\w\.(com|org|net|io|ai|edu|dev|cloud)\b|\w@\w", re.IGNORECASE)
_INSTITUTION = re.compile(
    r"\b(universit\w*|institut\w*|colleg\w*|school|academ\w*|laborator\w*|labs?|inc|ltd|llc|gmbh|corp\w*|compan\w*"
    r"|foundation|communit\w*|research|department|independent|technolog\w*|deepmind|openai|google|microsoft|nvidia)\b",
    re.IGNORECASE,
)
_PERSON = re.compile(r"[A-Z][\w'’-]+( [A-Z]\.?)*( (van|von|de|der|da|del|bin|al)){0,2} [A-Z][\w'’-]+")


def place(run: RunCase) -> Iterator[Fault]:
    """A record names the candidate and the rung of the folder that it stands in."""
    for name, said, folder in (
        ("candidate", run.info.candidate, run.folder.candidate),
        ("rung", run.info.rung, run.folder.rung_name),
    ):
        if said != folder:
            yield Fault(name, f"it is {show(said)}, and its folder is {folder}'s")


def authors(run: RunCase) -> Iterator[Fault]:
    """There is an author, each has a name, and ``author`` is the first of ``authors``."""
    everybody = run.info.authors
    if not everybody:
        yield Fault("authors", "nobody is named")
    elif run.info.author != everybody[0]:
        yield Fault("author", f"it is {show(run.info.author.name)}, and the first of authors is another")
    for at, author in enumerate(everybody):
        if not author.name.strip():
            yield Fault(f"authors[{at}].name", "it is empty")


def author_swapped(run: RunCase) -> Iterator[Fault]:
    """An author's name is a name and the affiliation an institution: neither holds an address, and the two are not
    swapped."""
    for at, author in enumerate(run.info.authors):
        for name, value in (("name", author.name), ("affiliation", author.affiliation)):
            if _ADDRESS.search(value):
                yield Fault(f"authors[{at}].{name}", f"{show(value)} is an address: put it into url")
        if looks_swapped(author):
            yield Fault(
                f"authors[{at}]",
                f"{show(author.name)} reads as an institution and {show(author.affiliation)} as a person: "
                "name and affiliation are swapped",
            )


def looks_swapped(author: AuthorInfo) -> bool:
    """Whether the name reads as an institution and the affiliation as a person."""
    return (
        bool(_INSTITUTION.search(author.name))
        and not _INSTITUTION.search(author.affiliation)
        and _PERSON.fullmatch(author.affiliation.strip()) is not None
    )


def links(run: RunCase) -> Iterator[Fault]:
    """Links are whole http or https addresses, without a password in them."""
    found = [(f"authors[{at}].url", author.url) for at, author in enumerate(run.info.authors) if author.url]
    if run.info.wandb_run_link is not None:
        found.append(("wandb_run_link", run.info.wandb_run_link))
    for name, link in found:
        if problem := link_problem(link):
            yield Fault(name, f"{show(link)} {problem}")


def link_problem(link: str) -> str:
    """Why ``link`` is none that may be shown; empty when it may."""
    if len(link) > MAX_LINK:
        return f"is longer than {MAX_LINK} characters"
    if not link.isascii() or not link.isprintable() or " " in link or set(link) & set("<>\"'`\\"):
        return "has characters that no address has"
    try:
        parts = urlsplit(link)
        host = parts.hostname
    except ValueError:
        return "is no address"
    if parts.scheme not in ("http", "https") or not host:
        return "is no http or https address"
    return "holds a user name or a password" if parts.username or parts.password else ""


def plain_text(run: RunCase) -> Iterator[Fault]:
    """Names and texts are of a length that can be shown, and hold no control characters or marks that turn the
    direction of writing."""
    info = run.info
    texts = [("description", info.description, MAX_TEXT), ("tokenized_dataset", info.tokenized_dataset, MAX_NAME)]
    for at, author in enumerate(info.authors):
        texts.append((f"authors[{at}].name", author.name, MAX_NAME))
        texts.append((f"authors[{at}].affiliation", author.affiliation, MAX_NAME))
    for name, text, limit in texts:
        if len(text) > limit:
            yield Fault(name, f"it has {len(text):,} characters; at most {limit:,} can be shown")
        elif not all(char.isprintable() or char in _ALLOWED for char in text):
            yield Fault(name, f"{show(text)} holds characters that cannot be seen")


def digests(run: RunCase) -> Iterator[Fault]:
    """Digests and keys are hexadecimal and of their length."""
    info = run.info
    for name, value, length in (
        ("source_digest", info.source_digest, 64),
        ("recipe_fingerprint", info.recipe_fingerprint, 64),
        ("run_key", info.run_key, 16),
    ):
        if not re.fullmatch(rf"[0-9a-f]{{{length}}}", value):
            yield Fault(name, f"{show(value)} is not {length} hexadecimal digits")
    if info.git_commit is not None and not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", info.git_commit):
        yield Fault("git_commit", f"{show(info.git_commit)} is no commit")


def key_of_run(run: RunCase) -> Iterator[Fault]:
    """The run's key is that of its recipe, rung, seed and hardware: a seed or a machine that was changed later is
    found out by it."""
    info = run.info
    hardware = info.resources.get("hardware")
    expected = run_key(info.recipe_fingerprint, rung=info.rung, seed=info.seed, hardware=str(hardware))
    if re.fullmatch(r"[0-9a-f]{16}", info.run_key) and info.run_key != expected:
        yield Fault("run_key", f"it is {info.run_key}; recipe, rung, seed and hardware make it {expected}")


def source(run: RunCase) -> Iterator[Fault]:
    """The source digest is that of the candidate's file and of the parts of speedrun/methods that it imports, worked
    out from their text. The commit on record is a hint only: squash merges and shallow clones lose it."""
    info, candidate = run.info, run.world.candidate(run.folder.candidate)
    if not re.fullmatch(r"[0-9a-f]{64}", info.source_digest):
        return
    if candidate.listed:
        if candidate.digest is not None and candidate.digest != info.source_digest:
            yield Fault(
                "source_digest",
                f"the record was made from another text than {candidate.path} has now: run it again, or restore the "
                f"file (record {info.source_digest[:12]}, file {candidate.digest[:12]})",
            )
    elif not info.overrides:
        yield Fault("candidate", f"there is no {candidate.path}: a record needs the candidate that it is of")
    elif info.source_digest not in run.world.digests:
        yield Fault("source_digest", "no candidate of this project has it: the recipe that was overridden is not here")


def overrides(run: RunCase) -> Iterator[Fault]:
    """A recipe with fields set on the command line is not recorded under the candidate's own name."""
    if run.info.overrides and run.world.candidate(run.folder.candidate).listed:
        fields = ", ".join(show(field) for field in list(run.info.overrides)[:5])
        yield Fault("overrides", f"{fields} differ from the candidate's file: record it under another name")


def versions(run: RunCase) -> Iterator[Fault]:
    """The versions of all packages that decide what a recipe computes are on record."""
    missing = [name for name in COMPUTING_PACKAGES if not run.info.versions.get(name)]
    if missing:
        yield Fault("versions", f"{', '.join(missing)} not named")


def rung_data_only(run: RunCase) -> Iterator[Fault]:
    """The run trained and was scored on the rung's data, not on texts of a user's own or a stand-in for Paloma."""
    info, scored = run.info, run.rung.evaluation_data
    if info.corpus != "rung":
        yield Fault("corpus", "a run on a user's own texts is a trial, and no record")
    if info.evaluation_data:
        yield Fault(
            "evaluation_data", f"scored on {show(info.evaluation_data)}, not on {scored}: a trial, and no record"
        )
    sources = info.training_data.get("sources")
    if not run.rung.is_micro and isinstance(sources, dict) and scored not in sources:
        yield Fault("training_data.sources", f"{scored}, on which the rung is scored, is not among what was fetched")


IDENTITY_RULES: tuple[Rule[RunCase], ...] = (
    Rule("place", Severity.ERROR, place),
    Rule("authors", Severity.ERROR, authors),
    Rule("author-swapped", Severity.ERROR, author_swapped),
    Rule("links", Severity.ERROR, links),
    Rule("plain-text", Severity.ERROR, plain_text),
    Rule("digests", Severity.ERROR, digests),
    Rule("run-key", Severity.ERROR, key_of_run),
    Rule("source", Severity.ERROR, source),
    Rule("overrides", Severity.ERROR, overrides),
    Rule("versions", Severity.ERROR, versions),
    Rule("rung-data-only", Severity.ERROR, rung_data_only),
)
