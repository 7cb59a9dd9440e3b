"""The table that scoring reads: one row a finished run. `Run` names its columns.

Scoring knows nothing of files. Whoever has runs (our records, the public board) makes this table.
"""

from dataclasses import dataclass
from typing import Required, TypedDict

import numpy as np
import pandas as pd

from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.scoring.estimate import Array

SAME_BUDGET = 0.005
"""Relative difference in model FLOPs below which two runs spent the same: a run fills its budget to within a step."""


class Run(TypedDict, total=False):
    """The columns. Those marked required must be there; the rest are used where they are."""

    candidate: Required[str]
    """Method under test."""
    rung: Required[str]
    """Scale of the ladder."""
    seed: Required[int | None]
    """Seed of the run; null where unknown (public rows), and then one run a candidate and rung."""
    bits_per_byte: Required[float]
    """What is compared: ours is the score; a public row's is Levanter's own figure."""
    model_flops: Required[float]
    """Model FLOPs spent in training, by Marin's convention."""
    protocol: str
    """How ``bits_per_byte`` was measured. Runs of different protocols are never compared."""
    tokens_per_second: float | None
    """Tokens trained per second of steady time."""
    flops_per_token: float | None
    """Model FLOPs of training per token (3 x forward)."""
    hardware: str | None
    """Name of the hardware with its count, such as ``v5p-8``; throughput is compared on the same only."""
    throughput_problem: str | None
    """Why the throughput must not be compared, where it must not."""
    hardware_flops: float | None
    """Step seconds x chips x peak."""
    training_time_seconds: float | None
    """Seconds of all steps, each once."""


REQUIRED = tuple(sorted(Run.__required_keys__))


def check_runs(runs: pd.DataFrame) -> None:
    """Refuses a table that cannot be scored.

    Raises:
        SpeedrunError: for a missing column, a figure that is null or not positive, several protocols, a
            repeated seed, or runs of one candidate and rung that spent different FLOPs.
    """
    missing = [column for column in REQUIRED if column not in runs.columns]
    if missing:
        raise SpeedrunError(f"the table of runs lacks the column(s) {', '.join(missing)}")
    for column in ("bits_per_byte", "model_flops"):
        figures = pd.to_numeric(runs[column], errors="coerce").to_numpy(float)
        bad = runs[~(np.isfinite(figures) & (figures > 0))]
        if len(bad):
            figure = bad[column].iloc[0]
            raise SpeedrunError(f"{column} of {_name(bad)} is {figure}, not a positive number: leave it out")
    if "protocol" in runs.columns and runs["protocol"].nunique(dropna=False) > 1:
        raise SpeedrunError(
            f"scores of different protocols don't compare: {', '.join(map(str, runs['protocol'].unique()))}. "
            "Compare a public row with the figure that Levanter logs, not with the score"
        )
    repeated = runs[runs.duplicated(["candidate", "rung", "seed"])]
    if len(repeated):
        seed = repeated["seed"].iloc[0]
        raise SpeedrunError(f"{_name(repeated)} has seed {seed} twice: a repeated seed shows no noise. Leave one out")
    spent = runs.groupby(["candidate", "rung"])["model_flops"].agg(["min", "max"])
    uneven = spent[spent["max"] > spent["min"] * (1 + SAME_BUDGET)]
    if len(uneven):
        candidate, rung = uneven.index[0]
        raise SpeedrunError(
            f"runs of {candidate} at {rung} spent different FLOPs ({uneven['min'].iloc[0]:.4g} to "
            f"{uneven['max'].iloc[0]:.4g}), so they are not seeds of one recipe: leave one recipe out"
        )


def _name(rows: pd.DataFrame) -> str:
    return f"{rows['candidate'].iloc[0]} at {rows['rung'].iloc[0]}"


@dataclass(frozen=True)
class Arm:
    """A candidate at a rung: the seeds of one recipe."""

    rung: str
    bits_per_byte: float
    """Mean over seeds."""
    model_flops: float
    """Mean over seeds."""
    seeds: int
    """How many."""
    squares: float
    """Sum of the seeds' squared deviations of bits per byte from their mean."""
    throughput: float | None
    """Model FLOPs per second, mean over seeds; None where it is not on record for all of them."""
    hardware: str
    """Empty where unknown, or not the same for all seeds."""
    throughput_problem: str = ""
    """Why a seed's throughput must not be compared; empty where it may."""


def arms_of(runs: pd.DataFrame, candidate: str) -> dict[str, Arm]:
    """A candidate's arms by rung, least compute first.

    Raises:
        UnknownNameError: if the table has no such candidate.
    """
    own = runs[runs["candidate"] == candidate]
    if own.empty:
        raise UnknownNameError("candidate", candidate, runs["candidate"].unique(), advice="It has no finished run.")
    return all_arms(own)[candidate]


def all_arms(runs: pd.DataFrame) -> dict[str, dict[str, Arm]]:
    """Every candidate's arms by rung, least compute first; candidates in the table's order."""
    scores, flops = (runs[column].to_numpy(float) for column in ("bits_per_byte", "model_flops"))
    speeds = runs.reindex(columns=["tokens_per_second", "flops_per_token"]).to_numpy(float, na_value=np.nan)
    throughputs = speeds.prod(axis=1)
    hardware, problems = (
        [each if isinstance(each, str) else "" for each in runs.reindex(columns=[column])[column]]
        for column in ("hardware", "throughput_problem")
    )
    places: dict[tuple[str, str], list[int]] = {}
    for at, key in enumerate(zip(runs["candidate"].tolist(), runs["rung"].tolist(), strict=True)):
        places.setdefault(key, []).append(at)
    arms: dict[str, list[Arm]] = {}
    for (candidate, rung), at in places.items():
        named = {hardware[each] for each in at}
        problem = next((problems[each] for each in at if problems[each]), "")
        arm = _arm(str(rung), scores[at], flops[at], throughputs[at], named, problem)
        arms.setdefault(candidate, []).append(arm)
    return {
        candidate: {arm.rung: arm for arm in sorted(own, key=lambda arm: arm.model_flops)}
        for candidate, own in arms.items()
    }


def _arm(rung: str, scores: Array, flops: Array, throughputs: Array, hardware: set[str], problem: str) -> Arm:
    throughput = float(throughputs.mean())
    return Arm(
        rung,
        bits_per_byte=float(scores.mean()),
        model_flops=float(flops.mean()),
        seeds=len(scores),
        squares=float(((scores - scores.mean()) ** 2).sum()),
        throughput=throughput if np.isfinite(throughput) else None,
        hardware=hardware.pop() if len(hardware) == 1 else "",
        throughput_problem=problem,
    )
