"""Where the public data come from: one table of repositories on the model hub, read by everything that needs them.

A commit stands here where one is published (``revision``); where none is, the hub is asked at the first use, and the
answer is kept beside the data (``speedrun.hub``).
"""

from dataclasses import dataclass
from typing import Literal

from speedrun.errors import UnknownNameError

HUB_PAGES = "https://huggingface.co"
"""Where people read and accept licences, whatever HF_ENDPOINT a download goes through."""


@dataclass(frozen=True)
class HubSource:
    """A set of files in one repository of the hub."""

    name: str
    """By which recipes, rungs and messages call it."""
    step: str
    """Name of the step that fetches it: its place in the store."""
    repo_id: str
    revision: str = ""
    """Commit; empty where the newest one is resolved at the first use, once for a store."""
    files: tuple[str, ...] = ()
    """Glob patterns of the files that are needed; all of them where empty."""
    kind: Literal["dataset", "model"] = "dataset"
    licence: str = ""
    gated: bool = False
    """Whether the licence has to be accepted by a signed-in person before anything can be read."""
    about_bytes: float | None = None
    """Size of the download as it was published, to the digits that were; the hub says it exactly."""
    tokens: float | None = None
    """Tokens of marin-tokenizer, about."""

    @property
    def page(self) -> str:
        """The page with the licence and, for gated data, the button that accepts it."""
        return f"{HUB_PAGES}/{'datasets/' if self.kind == 'dataset' else ''}{self.repo_id}"

    @property
    def folder(self) -> str:
        """The part of the repository in which all of ``files`` lie; empty for the whole of it."""
        plain = [pattern.split("*")[0].rpartition("/")[0] for pattern in self.files]
        return plain[0] if plain and len(set(plain)) == 1 else ""


MARIN_TOKENIZER = HubSource(
    "marin_tokenizer",
    "tokenizer/marin-tokenizer",
    "marin-community/marin-tokenizer",
    revision="a5ca45f2feb6c959bd87b81689aa7279b5bdcaa2",
    files=("tokenizer*", "special_tokens*", "config.json"),
    kind="model",
    licence="see its page",
    about_bytes=17e6,
)

_PRETOKENIZED = "tokenized/{}/marin-tokenizer"
FINEWEB_EDU_10B = HubSource(
    "fineweb_edu_10b",
    _PRETOKENIZED.format("fineweb_edu_10b"),
    "marin-community/fineweb-edu-pretokenized-10B",
    licence="ODC-By 1.0",
    about_bytes=20e9,
    tokens=10e9,
)
FINEWEB_EDU_10M = HubSource(
    "fineweb_edu_10m",
    _PRETOKENIZED.format("fineweb_edu_10m"),
    "marin-community/fineweb-edu-pretokenized-10M",
    licence="ODC-By 1.0",
    about_bytes=20e6,
    tokens=10e6,
)
FINEWEB_EDU_100B = HubSource(
    "fineweb_edu_100b",
    "raw/fineweb_edu_100b",
    "HuggingFaceFW/fineweb-edu",
    revision="87f09149ef4734204d70ed1d046ddc9ca3f2b8f9",
    files=("sample/100BT/*.parquet",),
    licence="ODC-By 1.0",
    # Ten times the published 28.5 GB of sample-10BT at this commit.
    about_bytes=285e9,
    tokens=100e9,
)

PALOMA_SUBSETS = (
    "4chan_meta_sep",
    "c4_100_domains",
    "c4_en",
    "dolma-v1_5",
    "dolma_100_programing_languages",
    "dolma_100_subreddits",
    "falcon-refinedweb",
    "gab",
    "m2d2_s2orc_unsplit",
    "m2d2_wikipedia_unsplit",
    "manosphere_meta_sep",
    "mc4",
    "ptb",
    "redpajama",
    "twitterAAE_HELM_fixed",
    "wikitext_103",
)
"""Folders of Paloma; the board's axis is c4_en."""


def paloma(subset: str) -> HubSource:
    """The validation split of one part of Paloma.

    Raises:
        UnknownNameError: for a part that it does not have.
    """
    if subset not in PALOMA_SUBSETS:
        raise UnknownNameError("Paloma subset", subset, PALOMA_SUBSETS)
    return HubSource(
        f"paloma_{subset}",
        f"raw/paloma_{subset}",
        "allenai/paloma",
        revision="65cd6fc",
        files=(f"{subset}/val/val*.jsonl.gz",),
        licence="AI2 ImpACT, low risk",
        gated=True,
    )


C4_EN_PROXY = HubSource(
    "c4_en_proxy",
    "raw/c4_en_proxy",
    "allenai/c4",
    revision="1588ec454efa1a09f29cd18ddd04fe05fc8653a2",
    # One of eight: the whole would take longer to score than the smallest rung takes to train.
    files=("en/c4-validation.00000-of-00008.json.gz",),
    licence="ODC-By 1.0",
    about_bytes=40e6,
)

TRAINING_SETS = {source.name: source for source in (FINEWEB_EDU_10B, FINEWEB_EDU_10M, FINEWEB_EDU_100B)}
"""What recipes of the standard rungs can train on."""
EVALUATION_SETS = {source.name: source for source in (*map(paloma, PALOMA_SUBSETS), C4_EN_PROXY)}
"""What the standard rungs can be scored on: the board's set, paloma_c4_en, and others, never compared with it."""
