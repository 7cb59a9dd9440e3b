"""What the meters need of a recipe: the model, the optimizer and the shape of one training step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levanter.models.lm_model import LmConfig
    from levanter.optim.config import OptimizerConfig


@dataclass(frozen=True)
class Workload:
    """One training step, described well enough to trace, measure and compile it."""

    model: "LmConfig"
    optimizer: "OptimizerConfig"
    vocab_size: int
    """Tokens of the tokenizer."""
    sequence_length: int
    """Tokens per sequence."""
    batch_size: int
    """Sequences per step; of a schedule, the largest, since it decides whether the step fits."""
    z_loss_weight: float = 0.0
    precision: str = "p=f32,c=bfloat16"
    """jmp policy of parameters (p) and computation (c)."""
    steps: int = 1000
    """Steps of the run. Only the learning rate's schedule sees it, which costs nothing."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one step trains on."""
        return self.batch_size * self.sequence_length


def workload_of(recipe: Any, vocab_size: int) -> Workload:
    """The workload of a ``speedrun.Recipe`` whose tokenizer has ``vocab_size`` tokens."""
    return Workload(
        model=recipe.model,
        optimizer=recipe.optimizer,
        vocab_size=vocab_size,
        sequence_length=recipe.sequence_length,
        batch_size=largest_batch(recipe.batch_size),
        z_loss_weight=recipe.z_loss_weight,
        precision=recipe.precision,
        steps=recipe.steps or Workload.steps,
    )


def largest_batch(batch_size: int | Sequence[Any]) -> int:
    """The largest batch of a schedule, which is a number or a list of Levanter's ``ScheduleStep``."""
    return batch_size if isinstance(batch_size, int) else max(step.value for step in batch_size)
