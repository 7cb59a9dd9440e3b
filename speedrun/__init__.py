"""Marin Speedrun: prove that an idea for training language models is better, per unit of compute."""

from typing import TYPE_CHECKING, Any

from speedrun.candidate import Author, Candidate, Recipe
from speedrun.ladder import LADDER, Rung
from speedrun.training_data import Documents, Filtered, Mixture, Tokenizer

if TYPE_CHECKING:
    from speedrun import reference

__all__ = [
    "LADDER",
    "Author",
    "Candidate",
    "Documents",
    "Filtered",
    "Mixture",
    "Recipe",
    "Rung",
    "Tokenizer",
    "reference",
]


def __getattr__(name: str) -> Any:
    # `reference` imports levanter (seconds); whoever only lists rungs must not pay for it.
    if name == "reference":
        import importlib

        return importlib.import_module("speedrun.reference")
    raise AttributeError(f"module 'speedrun' has no attribute {name!r}")
