"""Training and evaluation data by name: which steps make them, and with which tokenizer.

A rung names its data and its evaluation (``speedrun.ladder``); this table says what stands behind the
names. No recipe can name the evaluation.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep, StepContext
from marin.processing.tokenize.tokenize import TokenizeConfig, TokenizedCache, tokenize
from rigging.filesystem.storage_path import prefix_join

from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.ladder import LADDER, Rung
from speedrun.methods.documents import CHOICES
from speedrun.sources import EVALUATION_SETS, FINEWEB_EDU_100B, MARIN_TOKENIZER, TRAINING_SETS, HubSource
from speedrun.steps.corpus import user_corpus, wiki_summaries
from speedrun.steps.derived import chosen, filtered
from speedrun.steps.hub import downloaded, downloaded_cache
from speedrun.steps.tokenizer import byte_level_bpe
from speedrun.steps.version import STEP_VERSION
from speedrun.training_data import Documents, Filtered, Mixture, Tokenizer, TrainingData, handles_in, names_in, parts_of

EVALUATION_NAMES = {*EVALUATION_SETS, *(rung.evaluation_data for rung in LADDER.values())}

Source = tuple[HubSource, ArtifactStep]
"""Something from the model hub, with the step that fetches it."""


@dataclass(frozen=True)
class Part:
    """One training set, alone or in a mixture."""

    name: str
    weight: float
    train: ArtifactStep[TokenizedCache]
    documents: ArtifactStep[Artifact] | None
    """The step that leaves its documents' counts in ``corpus.json``; None where there are only tokens."""
    sources: tuple[Source, ...] = ()


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
    sources: tuple[Source, ...] = ()
    """What comes from the model hub."""
    mixture: tuple[Part, ...] = ()
    """The parts of a mixture, ``train`` being the first one's; empty where there is one training set."""

    def tokenizer_path(self, ctx: StepContext) -> str:
        """Where the tokenizer lies."""
        return ctx.artifact_path(self.tokenizer)

    @property
    def weights(self) -> dict[ArtifactStep[TokenizedCache], float]:
        """Every training set with its weight."""
        return {part.train: part.weight for part in self.mixture} or {self.train: 1.0}

    @property
    def deps(self) -> tuple[ArtifactStep, ...]:
        """Every step that a consumer of this data depends on."""
        steps: tuple[ArtifactStep | None, ...] = (self.train, self.held_out, self.texts, self.chosen, self.tokenizer)
        more = [step for part in self.mixture for step in (part.train, part.documents)]
        return tuple(step for step in dict.fromkeys((*steps, *more)) if step is not None)


@dataclass(frozen=True)
class _Ladder:
    """What all training sets of a run share: tokenizer and evaluation. ``corpus`` is the micro rungs'."""

    tokenizer: ArtifactStep[Artifact]
    label: str
    """The tokenizer in the names of the token sets that are made with it."""
    held_out: ArtifactStep[TokenizedCache]
    texts: ArtifactStep[Artifact]
    texts_glob: str
    corpus: ArtifactStep[Artifact] | None
    sources: tuple[Source, ...] = ()


def rung_data(
    rung: Rung,
    training_data: TrainingData,
    *,
    downloads: Path,
    tokenizer: Tokenizer | None = None,
    corpus: str | None = None,
    evaluation: str = "",
) -> RungData:
    """The data of a run.

    Args:
        rung: fixes the evaluation.
        training_data: what the recipe trains on, or "" for the rung's own.
        downloads: folder for files fetched from a package index.
        tokenizer: the recipe's own; the rung's by default.
        corpus: a user's own files, which take the place of both training and evaluation data.
        evaluation: name of a set that takes the place of the rung's evaluation, off the board.

    Raises:
        UnknownNameError: for training data that the rung's ladder does not have.
        SpeedrunError: for training data that is an evaluation set, and for a tokenizer that cannot be made there.
    """
    _refuse_evaluation(training_data)
    own_data = rung.training_data
    if corpus is not None:
        ladder = _small_ladder(user_corpus(corpus), tokenizer or Tokenizer(rung.vocab_size))
        parts = [_whole_corpus(ladder, 1.0)]
    else:
        if rung.is_micro:
            ladder = _small_ladder(wiki_summaries(downloads), tokenizer or Tokenizer(rung.vocab_size))
        else:
            ladder = _standard_ladder(evaluation or rung.evaluation_data, tokenizer)
            # Token sets that are there already were made with the rung's tokenizer.
            own_data = rung.training_data if tokenizer is None else FINEWEB_EDU_100B.name
        parts = [_part(ladder, rung, what, weight) for what, weight in parts_of(training_data or own_data)]
    named = [part.train.name for part in parts]
    if len(set(named)) < len(named):
        raise SpeedrunError(f"a mixture names {max(named, key=named.count)} twice: add its weights")
    first, is_mixture = parts[0], isinstance(training_data, Mixture)
    has_name = corpus is not None or (not is_mixture and any(True for _ in names_in(training_data)))
    sources = (*(source for part in parts for source in part.sources), *ladder.sources)
    return RungData(
        name=first.name if has_name else own_data,
        train=first.train,
        held_out=ladder.held_out,
        texts=ladder.texts,
        texts_glob=ladder.texts_glob,
        tokenizer=ladder.tokenizer,
        vocab_size=tokenizer.vocab_size if tokenizer else rung.vocab_size,
        chosen=None if is_mixture or first.documents is ladder.corpus else first.documents,
        sources=tuple({source.name: (source, step) for source, step in sources}.values()),
        mixture=tuple(parts) if is_mixture else (),
    )


def _refuse_evaluation(training_data: TrainingData) -> None:
    named = [name for name in names_in(training_data) if name in EVALUATION_NAMES or name.startswith("paloma")]
    paloma = EVALUATION_SETS["paloma_c4_en"].repo_id
    named += [
        step.name for step in handles_in(training_data) if isinstance(step, ArtifactStep) and _reads(step, paloma)
    ]
    if named:
        raise SpeedrunError(
            f"the recipe trains on {named[0]!r}, which is an evaluation set: no recipe can name one. Give "
            "training_data another name, or leave it out for the rung's own"
        )


def _reads(step: ArtifactStep, repo_id: str) -> bool:
    """Whether a handle, or one that it builds on, names the repository."""
    return repo_id in step.fingerprint_payload() or any(_reads(dep, repo_id) for dep in step.deps)


def _small_ladder(corpus: ArtifactStep[Artifact], tokenizer: Tokenizer) -> _Ladder:
    """A small corpus: its tokenizer too is made here, from its documents, unless there is another."""
    made = tokenizer.step or byte_level_bpe(corpus, tokenizer.vocab_size)
    label = _short_name(tokenizer.step) if tokenizer.step else f"bpe{tokenizer.vocab_size}"
    name = f"tokenized/{corpus.name.removeprefix('corpus/')}-{label}/heldout"
    held_out = _tokenized(name, corpus, "heldout.jsonl.gz", made, held_out=True)
    return _Ladder(made, label, held_out, corpus, "heldout.jsonl.gz", corpus)


def _standard_ladder(evaluation: str, own: Tokenizer | None) -> _Ladder:
    """Evaluation from the model hub, and the tokenizer too unless the recipe has one of its own."""
    if evaluation not in EVALUATION_SETS:
        raise UnknownNameError("evaluation set", evaluation, EVALUATION_SETS)
    if own is not None and own.step is None:
        raise SpeedrunError(
            f"a tokenizer of {own.vocab_size:,} ids is trained at the micro rungs only: at the others give a handle, "
            "Tokenizer(vocab_size, step), that leaves its tokenizer.json"
        )
    scored = EVALUATION_SETS[evaluation]
    made = downloaded(MARIN_TOKENIZER) if own is None or own.step is None else own.step
    label = "marin-tokenizer" if own is None else _short_name(made)
    texts, glob = downloaded(scored), scored.files[0]
    held_out = _tokenized(f"tokenized/{scored.name}/{label}", texts, glob, made, held_out=True)
    sources = ((scored, texts), *([(MARIN_TOKENIZER, made)] if own is None else []))
    return _Ladder(made, label, held_out, texts, glob, None, sources)


def _short_name(tokenizer: ArtifactStep[Artifact]) -> str:
    """A tokenizer's handle in the name of a token set: two with one name and other contents don't share one."""
    return f"{tokenizer.name.rpartition('/')[2]}-{tokenizer.fingerprint()[:8]}"


def _part(ladder: _Ladder, rung: Rung, what: Any, weight: float) -> Part:
    """One training set of ``ladder``."""
    match what:
        case Filtered():
            return _filtered_part(ladder, rung, what, weight)
        case Documents():
            return Part(what.step.name, weight, _tokens_of(ladder, what.step, what.files), None)
        case str():
            return _named_part(ladder, rung, what, weight)
        case ArtifactStep():
            return Part(what.name, weight, what, None)
    raise SpeedrunError(
        f"a recipe cannot train on {type(what).__name__}: give a name, Filtered, Documents, a token set of Marin's, or "
        "a Mixture of them"
    )


def _named_part(ladder: _Ladder, rung: Rung, name: str, weight: float) -> Part:
    known = ("wiki_summaries", *CHOICES) if rung.is_micro else tuple(TRAINING_SETS)
    if name not in known:
        raise UnknownNameError("training data", name, known, advice=f"These stand for {rung.name}'s ladder.")
    if name in CHOICES:
        assert ladder.corpus is not None
        documents = chosen(name, ladder.corpus, CHOICES[name])
        return Part(name, weight, _tokens_of(ladder, documents, "train.jsonl.gz"), documents)
    if rung.is_micro:
        return _whole_corpus(ladder, weight)
    source = TRAINING_SETS[name]
    if source == FINEWEB_EDU_100B:
        # The largest rung trains on more than the pretokenized samples hold.
        raw = downloaded(source)
        tokens = _tokenized(f"tokenized/{source.name}/{ladder.label}", raw, source.files[0], ladder.tokenizer)
        return Part(name, weight, tokens, None, ((source, raw),))
    if ladder.tokenizer.name != MARIN_TOKENIZER.step:
        raise SpeedrunError(
            f"{name} holds tokens of {MARIN_TOKENIZER.repo_id}, and the recipe has a tokenizer of its own: train on "
            f"{FINEWEB_EDU_100B.name}, or on documents of a handle"
        )
    cache = downloaded_cache(source, ladder.tokenizer)
    return Part(name, weight, cache, None, ((source, cache),))


def _whole_corpus(ladder: _Ladder, weight: float) -> Part:
    corpus = ladder.corpus
    assert corpus is not None
    tokens = _tokens_of(ladder, corpus, "train.jsonl.gz")
    return Part(corpus.name.removeprefix("corpus/"), weight, tokens, corpus)


def _filtered_part(ladder: _Ladder, rung: Rung, what: Filtered, weight: float) -> Part:
    """Documents that a candidate's own predicate keeps."""
    sources: tuple[Source, ...] = ()
    if isinstance(what.of, Documents):
        name, raw, files = what.of.step.name, what.of.step, what.of.files
    else:
        part = _named_part(ladder, rung, what.of, weight)
        name, sources = part.name, part.sources
        if part.documents is not None:
            raw, files = part.documents, "train.jsonl.gz"
        elif name == FINEWEB_EDU_100B.name:
            raw, files = sources[0][1], FINEWEB_EDU_100B.files[0]
        else:
            raise SpeedrunError(
                f"{name} holds tokens, and a filter needs text: take {FINEWEB_EDU_100B.name}, or documents of a handle"
            )
    kept = filtered(name.replace("/", "-"), raw, files, what.keep)
    return Part(name, weight, _tokens_of(ladder, kept, "*.jsonl.gz"), kept, sources)


def _tokens_of(ladder: _Ladder, documents: ArtifactStep[Artifact], files: str) -> ArtifactStep[TokenizedCache]:
    """Training documents, tokenized with the run's tokenizer."""
    name = f"tokenized/{documents.name.removeprefix('corpus/')}-{ladder.label}/train"
    return _tokenized(name, documents, files, ladder.tokenizer)


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
