"""What a submitter writes: a ``Candidate``, which gives a ``Recipe`` for each rung.

A file in ``executor_steps/`` ends with ``CANDIDATE = Candidate(...)``. Its ``recipe`` function says
what the method does at one rung; everything else (data, steps, evaluation, records) is the harness's.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from speedrun.errors import SpeedrunError
from speedrun.ladder import LADDER, Rung
from speedrun.training_data import Tokenizer, TrainingData

if TYPE_CHECKING:
    from levanter.models.lm_model import LmConfig, LmHeadModel
    from levanter.optim.config import OptimizerConfig
    from levanter.schedule import ScheduleStep

    from speedrun.records.schema import Metric

SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""Names of candidates: safe as a file name, a branch name and a part of a URL everywhere."""


def check_name(name: str) -> str:
    """``name`` if it is a safe candidate name.

    Raises:
        SpeedrunError: saying what a name may hold.
    """
    if not isinstance(name, str) or not SAFE_NAME.fullmatch(name):
        raise SpeedrunError(
            f"{name!r} is no candidate name: use 1 to 64 lower-case letters, digits, '_' and '-', "
            "starting with a letter or a digit"
        )
    return name


@dataclass(frozen=True)
class Author:
    """Who gets the credit."""

    name: str
    affiliation: str = ""
    url: str = ""


@dataclass(frozen=True)
class Recipe:
    """What a candidate does at one rung. Start from ``reference.recipe(rung)`` and ``replace`` fields."""

    model: "LmConfig"
    optimizer: "OptimizerConfig"
    batch_size: "int | Sequence[ScheduleStep]"
    """Sequences per step; a list of Levanter's ``ScheduleStep`` for a batch that changes."""
    sequence_length: int
    """Tokens per sequence, in training and in the evaluation's windows."""
    steps: int | None = None
    """Training steps; None means as many as the rung's budget buys, which is what most candidates want."""
    training_data: TrainingData = ""
    """Name of the training data, documents chosen from it, or a mixture; empty means the rung's own."""
    tokenizer: Tokenizer | Literal[""] = ""
    """A tokenizer of the recipe's own; empty means the rung's."""
    z_loss_weight: float = 0.0
    precision: str = "p=f32,c=bfloat16"
    """jmp policy of parameters (p) and computation (c)."""

    def replace(self, **changes: Any) -> Self:
        """A copy with these fields changed. Fields of ``model`` or ``optimizer``: use ``dataclasses.replace``.

        Raises:
            SpeedrunError: for a field that a recipe does not have.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise SpeedrunError(f"a recipe has no field {name!r}; its fields are {', '.join(known)}")
        return dataclasses.replace(self, **changes)

    def vocab_size(self, rung: Rung) -> int:
        """Ids of the tokenizer that a run at ``rung`` uses."""
        return self.tokenizer.vocab_size if isinstance(self.tokenizer, Tokenizer) else rung.vocab_size


@dataclass(frozen=True)
class Candidate:
    """A method under test."""

    name: str
    authors: Sequence[Author]
    hypothesis: str
    """One or two sentences: what should be better, and why."""
    recipe: Callable[[Rung], Recipe]
    baseline: str = "adamw"
    """The candidate that this one is compared with."""
    rungs: Sequence[str] = tuple(LADDER)
    """Rungs at which the recipe is declared; all of them unless said otherwise."""
    metrics: Sequence[Callable[["LmHeadModel"], "Metric"]] = ()
    """Measured on the finished model and shown beside the score. They change nothing of what is computed, so
    they are no part of the recipe. Functions of a module (workers import them); ``functools.partial`` sets
    their parameters."""

    def __post_init__(self) -> None:
        check_name(self.name)
        check_name(self.baseline)
        if not self.authors or not all(isinstance(author, Author) for author in self.authors):
            raise SpeedrunError(f"candidate {self.name!r} needs authors=[Author(name, affiliation, url), ...]")
        for rung in self.rungs:
            if rung not in LADDER:
                raise SpeedrunError(f"candidate {self.name!r} declares an unknown rung {rung!r}")

    def main(self) -> None:
        """What running the candidate's own file does: print the plan, or with ``--run`` build it."""
        from speedrun.cli.script import main

        main(self.name)
