"""What a recipe can train on beside a name: documents that it chooses itself, mixtures, a tokenizer of its own.

The evaluation is never a recipe's to name. Nothing here imports jax or marin.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from speedrun.errors import SpeedrunError

if TYPE_CHECKING:
    from marin.execution.artifact import Artifact
    from marin.execution.lazy import ArtifactStep
    from marin.processing.tokenize.tokenize import TokenizedCache


LEAST_VOCABULARY = 258


@dataclass(frozen=True)
class Documents:
    """Raw documents that a Marin handle makes, such as ``marin.experiment.data.hf_download``. They are tokenized with
    the run's tokenizer."""

    step: "ArtifactStep[Artifact]"
    files: str
    """Glob pattern of the files within it: .jsonl, .jsonl.gz or .parquet, with ``text``."""


@dataclass(frozen=True)
class Filtered:
    """The documents for which ``keep`` is true: a step of the run, before tokenizing."""

    of: str | Documents
    """Name of training data whose text is at hand, or documents of a handle."""
    keep: Callable[[Mapping[str, Any]], bool]
    """Given a document (``text`` and whatever else its file holds). A function of a module, or ``functools.partial`` of
    one: its code is part of the recipe's identity."""

    def __post_init__(self) -> None:
        inner = self.keep.func if isinstance(self.keep, functools.partial) else self.keep
        name = getattr(inner, "__qualname__", "")
        if not callable(inner) or not name or "<" in name:
            raise SpeedrunError(
                f"a filter takes a function of the candidate's module, not {name or self.keep!r}: only its code can be "
                "told apart and on record"
            )


@dataclass(frozen=True)
class Mixture:
    """Several training sets, from which sequences are drawn in the proportion of their weights."""

    parts: "Sequence[tuple[str | Filtered | Documents | ArtifactStep[TokenizedCache], float]]"
    """(what, weight). A handle of Marin's that makes a token set must have been made with the run's tokenizer."""

    def __post_init__(self) -> None:
        if not self.parts:
            raise SpeedrunError("a mixture needs at least one part")
        for what, weight in self.parts:
            if isinstance(what, Mixture):
                raise SpeedrunError("a mixture cannot be part of a mixture: write its parts with their weights")
            if not math.isfinite(weight) or weight <= 0:
                raise SpeedrunError(f"the weight of a mixture's part must be above 0, got {weight!r}")


TrainingData = str | Filtered | Mixture


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer of the candidate's own. Its cost is counted with its ``vocab_size``, and the score is per byte, so
    that candidates with different tokenizers can be compared."""

    vocab_size: int
    """Ids, which must be known before anything runs: a tokenizer with another number of them is not trained with."""
    step: "ArtifactStep[Artifact] | None" = None
    """A handle of Marin's that leaves ``tokenizer.json``, ``tokenizer_config.json`` and ``config.json`` (which
    Levanter's converter reads) in its folder. None is a byte-level BPE, trained on the training documents; only the
    micro rungs have them at hand."""

    def __post_init__(self) -> None:
        if self.vocab_size < LEAST_VOCABULARY:
            raise SpeedrunError(
                f"a tokenizer of {self.vocab_size} ids cannot write every text: 256 bytes and two special tokens make "
                f"{LEAST_VOCABULARY}"
            )


def parts_of(data: TrainingData) -> list[tuple[Any, float]]:
    """(what, weight) of everything that is trained on."""
    return [(what, float(weight)) for what, weight in data.parts] if isinstance(data, Mixture) else [(data, 1.0)]


def names_in(data: TrainingData) -> Iterator[str]:
    """Every name of training data in it."""
    for what, _ in parts_of(data):
        inner = what.of if isinstance(what, Filtered) else what
        if isinstance(inner, str):
            yield inner


def handles_in(data: TrainingData) -> "Iterator[ArtifactStep]":
    """Every handle of Marin's in it."""
    for what, _ in parts_of(data):
        inner = what.of if isinstance(what, Filtered) else what
        if not isinstance(inner, str):
            yield inner.step if isinstance(inner, Documents) else inner
