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
from marin.processing.tokenize.tokenize import TokenizeConfig, TokenizedCache, tokenize
from rigging.filesystem.storage_path import prefix_join

from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.ladder import LADDER, Rung
from speedrun.methods.documents import CHOICES
from speedrun.sources import EVALUATION_SETS, FINEWEB_EDU_100B, MARIN_TOKENIZER, TRAINING_SETS, HubSource
from speedrun.steps.corpus import user_corpus, wiki_summaries
from speedrun.steps.derived import chosen
from speedrun.steps.hub import downloaded, downloaded_cache
from speedrun.steps.tokenizer import byte_level_bpe
from speedrun.steps.version import STEP_VERSION

EVALUATION_NAMES = {*EVALUATION_SETS, *(rung.evaluation_data for rung in LADDER.values())}


@dataclass(frozen=True)
class RungData:
    """The steps behind a run's data."""

    name: str
    train: ArtifactStep[TokenizedCache]
    held_out: ArtifactStep[TokenizedCache]
    texts: ArtifactStep[Artifact]
    """Raw held-out documents, for the ledger."""
    texts_glob: str
    """Files within ``texts``, one document a line under ``text``."""
    tokenizer: ArtifactStep[Artifact]
    vocab_size: int
    chosen: ArtifactStep[Artifact] | None = None
    """The step that chose among the training documents; None where all are trained on."""
    sources: tuple[tuple[HubSource, ArtifactStep], ...] = ()
    """What comes from the model hub, with the steps that fetch it."""

    def tokenizer_path(self, ctx: StepContext) -> str:
        """Where the tokenizer lies."""
        return ctx.artifact_path(self.tokenizer)

    @property
    def deps(self) -> tuple[ArtifactStep, ...]:
        """Every step that a consumer of this data depends on."""
        steps: tuple[ArtifactStep, ...] = (self.train, self.held_out, self.texts)
        steps += () if self.chosen is None else (self.chosen,)
        return (*steps, self.tokenizer)


def rung_data(
    rung: Rung, training_data: str, *, downloads: Path, corpus: str | None = None, evaluation: str = ""
) -> RungData:
    """The data of a run.

    Args:
        rung: fixes the evaluation.
        training_data: the name that the recipe gives, or "" for the rung's own.
        downloads: folder for files fetched from a package index.
        corpus: a user's own files, which take the place of both training and evaluation data.
        evaluation: name of a set that takes the place of the rung's evaluation, off the board.

    Raises:
        UnknownNameError: for training data that the rung's ladder does not have.
        SpeedrunError: for training data that is an evaluation set.
    """
    if training_data in EVALUATION_NAMES or training_data.startswith("paloma"):
        raise SpeedrunError(
            f"the recipe trains on {training_data!r}, which is an evaluation set: no recipe can name one. Give "
            "training_data another name, or leave it out for the rung's own"
        )
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
            name: functools.partial(_standard, source, evaluation or rung.evaluation_data, rung.vocab_size)
            for name, source in TRAINING_SETS.items()
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


def _standard(train: HubSource, evaluation: str, vocab_size: int) -> RungData:
    """The data of a standard rung: a Levanter cache from the hub, or raw text that is tokenized here."""
    if evaluation not in EVALUATION_SETS:
        raise UnknownNameError("evaluation set", evaluation, EVALUATION_SETS)
    scored = EVALUATION_SETS[evaluation]
    tokenizer, texts = downloaded(MARIN_TOKENIZER), downloaded(scored)
    if train == FINEWEB_EDU_100B:
        # The largest rung trains on more than the pretokenized samples hold.
        raw = downloaded(train)
        fetched, tokens = raw, _tokenized(f"tokenized/{train.name}/marin-tokenizer", raw, train.files[0], tokenizer)
    else:
        fetched = tokens = downloaded_cache(train, tokenizer)
    return RungData(
        name=train.name,
        train=tokens,
        held_out=_tokenized(
            f"tokenized/{evaluation}/marin-tokenizer", texts, scored.files[0], tokenizer, held_out=True
        ),
        texts=texts,
        texts_glob=scored.files[0],
        tokenizer=tokenizer,
        vocab_size=vocab_size,
        sources=((train, fetched), (scored, texts), (MARIN_TOKENIZER, tokenizer)),
    )
