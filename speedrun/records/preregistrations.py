"""Preregistrations: what was said before anything ran, and whether it still stands.

``preregistrations/<candidate>.md`` is for people. Its second line holds the digest of everything below it,
and its last block the same promises as data, recipe included, so that a later change shows as a difference
field by field. Reading one runs nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from speedrun.errors import SpeedrunError
from speedrun.identity import sha256_hex
from speedrun.records import strict_json
from speedrun.records.schema import RunInfo

FOLDER = "preregistrations"
MAX_BYTES = 1_000_000
Status = Literal["preregistered", "changed since", "registered after", "not preregistered"]

_STATUS_LINE = re.compile(r"Content SHA-256 `([0-9a-f]{64})` · (?:no issue yet|issue #([1-9][0-9]{0,8}))")
_BLOCK_START, _BLOCK_END = "\n```json\n", "\n```"


class PlannedRung(BaseModel):
    """What was promised at one rung."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    recipe_fingerprint: str
    model_settings: dict[str, Any]
    """As a record's ``model_config``."""
    train_settings: dict[str, Any]
    """As a record's ``train_config``."""
    versions: dict[str, str]
    tokens: int
    model_flops: float
    seeds: list[int]


class Plan(BaseModel):
    """The promises as data."""

    model_config = ConfigDict(extra="allow")
    schema_version: Literal[1] = 1
    candidate: str
    baseline: str
    registered: str
    """UTC, as records write it."""
    source_digest: str
    expected_gain: float | None
    """Speedup minus 1; None where none was named."""
    smallest_gain: float
    """The smallest speedup minus 1 that would be worth having."""
    hardware: str
    rungs: dict[str, PlannedRung]


@dataclass(frozen=True)
class Preregistration:
    """One file, read."""

    plan: Plan
    issue: int | None
    """Number of the issue in which it was announced."""
    intact: bool
    """Whether the text below the digest is what the digest was taken of."""

    def status(self, info: RunInfo) -> Status:
        """How the run of ``info`` stands to it. Both times are what files say; git's history proves more."""
        planned = self.plan.rungs.get(info.rung)
        if planned is None:
            return "not preregistered"
        if info.attempts and min(attempt.started for attempt in info.attempts) < self.plan.registered:
            return "registered after"
        return "preregistered" if planned.recipe_fingerprint == info.recipe_fingerprint else "changed since"

    def changes(self, info: RunInfo) -> list[tuple[str, Any, Any]]:
        """(field, as promised, as run) for whatever differs at the rung of ``info``."""
        planned = self.plan.rungs[info.rung]
        promised = {"model": planned.model_settings, "": planned.train_settings, "versions": planned.versions}
        run = {"model": info.model_configuration, "": info.train_config, "versions": info.versions}
        return differences(promised, run)


def preregistration_path(root: Path, candidate: str) -> Path:
    """Where the preregistration of ``candidate`` stands in the project at ``root``."""
    return root / FOLDER / f"{candidate}.md"


def read_preregistration(path: Path) -> Preregistration | None:
    """The preregistration at ``path``; None when there is none.

    Raises:
        SpeedrunError: when it is damaged.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpeedrunError(f"{path} cannot be read: {error.strerror}") from None
    return parse_preregistration(content, str(path))


def parse_preregistration(content: bytes, name: str) -> Preregistration:
    """See ``read_preregistration``; ``name`` is what errors call the file."""
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise SpeedrunError(f"{name} is not UTF-8 text") from None
    lines = text.split("\n", 3)
    status = _STATUS_LINE.fullmatch(lines[2]) if len(lines) == 4 else None
    start = text.rfind(_BLOCK_START)
    if status is None or start < 0:
        raise SpeedrunError(f"{name} is no preregistration: `speedrun preregister` writes one")
    try:
        plan = Plan.model_validate(
            strict_json.loads(text[start + len(_BLOCK_START) :].partition(_BLOCK_END)[0]), strict=True
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise SpeedrunError(f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except ValueError as error:
        raise SpeedrunError(f"{name}: its data block cannot be read: {error}") from None
    return Preregistration(
        plan,
        issue=int(status[2]) if status[2] else None,
        intact=sha256_hex(lines[3].encode()) == status[1],
    )


def sealed(title: str, body: str, issue: int | None) -> str:
    """The whole file: title, digest of ``body`` with the issue's number beside it, ``body``.

    The issue is outside what the digest covers: it gets its number after the text is written.
    """
    body = "\n" + body.strip("\n") + "\n"
    where = f"issue #{issue}" if issue else "no issue yet"
    return f"# {title}\n\nContent SHA-256 `{sha256_hex(body.encode())}` · {where}\n{body}"


def with_issue(text: str, issue: int) -> str:
    """``text`` of a preregistration with the number of its issue filled in; nothing else changes."""
    return _STATUS_LINE.sub(lambda match: f"Content SHA-256 `{match[1]}` · issue #{issue}", text, count=1)


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(dotted field, value in ``first``, value in ``second``) for whatever differs; a missing field is None."""
    one, two = dict(_flat(first)), dict(_flat(second))
    fields = [*one, *(field for field in two if field not in one)]
    return [
        (field, one.get(field), two.get(field))
        for field in fields
        if (field in one) != (field in two) or one[field] != two[field]
    ]


def _flat(value: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, item in value.items():
        path = f"{before}.{key}".strip(".")
        if isinstance(item, Mapping) and item:
            rows += _flat(item, path)
        else:
            rows.append((path, item))
    return rows
