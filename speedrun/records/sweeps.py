"""The search behind a recipe: every point that was tried, and what trying them cost.

``results/<candidate>/<rung>/sweep.json`` keeps all points ever tried on a rung, so that the cost of the
search stands beside the result, for a method and for its baseline alike.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from speedrun.errors import SpeedrunError
from speedrun.records.store import write_json_atomically

SWEEP_FILE = "sweep.json"


class SweepPoint(BaseModel):
    """One recipe that was tried with one seed."""

    overrides: dict[str, Any]
    seed: int
    recipe_fingerprint: str
    bits_per_byte: float | None
    """None when the run failed, for example because its loss became NaN."""
    model_flops: float | None
    training_time: float | None
    """Seconds."""


class Sweep(BaseModel):
    """Every point of one candidate at one rung."""

    schema_version: int = 1
    points: list[SweepPoint]

    @property
    def model_flops(self) -> float:
        """What the search cost in model FLOPs, as far as known."""
        return sum(point.model_flops or 0.0 for point in self.points)

    @property
    def training_seconds(self) -> float:
        """What the search cost in training time, as far as known."""
        return sum(point.training_time or 0.0 for point in self.points)


def read_sweep(folder: Path) -> Sweep:
    """The sweep kept in ``folder``; an empty one when there is none.

    Raises:
        SpeedrunError: when the file is damaged.
    """
    path = folder / SWEEP_FILE
    if not path.exists():
        return Sweep(points=[])
    try:
        return Sweep.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise SpeedrunError(f"{path} cannot be read as a sweep ({str(error).splitlines()[0]}): restore it") from None


def keep_points(folder: Path, points: Iterable[SweepPoint]) -> Sweep:
    """Add ``points`` to the sweep in ``folder``, in the place of earlier ones of the same recipe and seed."""
    by_run = {(point.recipe_fingerprint, point.seed): point for point in read_sweep(folder).points}
    by_run |= {(point.recipe_fingerprint, point.seed): point for point in points}
    order = sorted(by_run.values(), key=lambda point: (json.dumps(point.overrides, sort_keys=True), point.seed))
    sweep = Sweep(points=order)
    write_json_atomically(folder / SWEEP_FILE, sweep.model_dump(mode="json"))
    return sweep


def fields_at_edge(winner: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> list[str]:
    """Fields whose best value is the smallest or the largest that was tried: the optimum may lie outside."""
    edges = []
    for field, values in grid.items():
        numbers = {value for value in values if isinstance(value, int | float)}
        if len(numbers) > 1 and winner[field] in (min(numbers), max(numbers)):
            edges.append(field)
    return edges
