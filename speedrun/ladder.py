"""The ladders: which rungs there are, what each may spend, and how many steps that buys.

A rung fixes a budget in model FLOPs, the training data and the evaluation. The architecture, the
optimizer, the batch and the length belong to the candidate. This module imports neither jax nor
levanter, so that every command that only talks about rungs answers at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from speedrun.errors import UnknownNameError

BOARD_NAME = "Marin Speedrun"
"""Whose board this is; another lab puts its own here (docs/your-own-board.md)."""

LadderName = Literal["micro", "standard"]

LEAST_ANYWHERE = 0.5
"""Bits per byte that no model gets near on text that people wrote; figures below it come from probabilities that
don't sum to 1."""

TOKENS_PER_PARAMETER = 20
"""Tokens per parameter at which the standard budgets are set (C = 6 N D with D = 20 N)."""


def compute_6nd(parameters: float, tokens: float) -> float:
    """Training FLOPs by the rule of thumb C = 6 N D (Kaplan et al. 2020, arXiv 2001.08361).

    It sets the standard rungs' budgets and nothing else: it counts the input embedding as if it were
    multiplied and leaves attention out, so no run is measured with it.
    """
    return 6.0 * parameters * tokens


@dataclass(frozen=True)
class Rung:
    """One scale of a ladder."""

    name: str
    ladder: LadderName
    nominal_parameters: float
    """The size that names the rung; a candidate's own count may differ."""
    budget_flops: float
    """Model FLOPs that a run may spend, by Marin's convention."""
    training_data: str
    """Name of the training data in ``speedrun.steps.data``."""
    evaluation_data: str
    """Name of the evaluation data in ``speedrun.steps.data``; no recipe can change it."""
    levanter_key: str
    """Key under which Levanter's own bits per byte stand in the record."""
    vocab_size: int
    """Tokens of the data's own tokenizer."""
    least_bits_per_byte: float = LEAST_ANYWHERE
    """A score below this is no improvement but an error: no model that spends the budget gets near it."""

    @property
    def is_micro(self) -> bool:
        """Whether the rung belongs to the laptop's ladder, which claims nothing about scale."""
        return self.ladder == "micro"


def _standard(name: str, parameters: float, training_data: str, least_bits_per_byte: float = LEAST_ANYWHERE) -> Rung:
    return Rung(
        name=name,
        ladder="standard",
        nominal_parameters=parameters,
        budget_flops=compute_6nd(parameters, TOKENS_PER_PARAMETER * parameters),
        training_data=training_data,
        evaluation_data="paloma_c4_en",
        levanter_key="eval/paloma/c4_en/bpb",
        vocab_size=128_256,
        least_bits_per_byte=least_bits_per_byte,
    )


def _micro(name: str, parameters: float, budget_flops: float, least_bits_per_byte: float) -> Rung:
    return Rung(
        name=name,
        ladder="micro",
        nominal_parameters=parameters,
        budget_flops=budget_flops,
        training_data="wiki_summaries",
        evaluation_data="wiki_summaries_heldout",
        levanter_key="eval/micro/heldout/bpb",
        vocab_size=2048,
        least_bits_per_byte=least_bits_per_byte,
    )


# The last figure of each rung is its least believable score. The micro rungs' reference is at 2.56 on micro_1; a
# hundredfold of its compute gives about 1.7. The standard rungs' is about what the best row of Marin's public board
# (2025-12-21) reached with a hundred times the budget (1.056 for 30m's, 0.986 for 75m's), and below anything published
# for the two larger ones (0.927).
MICRO = (
    _micro("micro_1", 0.25e6, 3.2e11, 1.7),
    _micro("micro_2", 0.4e6, 8.0e11, 1.6),
    _micro("micro_3", 0.65e6, 2.0e12, 1.5),
    _micro("micro_4", 0.95e6, 5.0e12, 1.4),
)
STANDARD = (
    _standard("30m", 30e6, "fineweb_edu_10b", 1.05),
    _standard("75m", 75e6, "fineweb_edu_10b", 0.98),
    _standard("300m", 300e6, "fineweb_edu_10b", 0.90),
    _standard("1_4b", 1.4e9, "fineweb_edu_100b", 0.80),
)
LADDER: dict[str, Rung] = {rung.name: rung for rung in (*MICRO, *STANDARD)}
"""Every rung by name, smallest first within each ladder."""


def rungs_named(names: Sequence[str]) -> list[Rung]:
    """The rungs with these names, in ladder order and without repeats.

    Raises:
        UnknownNameError: naming the nearest rungs.
    """
    for name in names:
        if name not in LADDER:
            raise UnknownNameError("rung", name, LADDER)
    return [rung for rung in LADDER.values() if rung.name in names]
