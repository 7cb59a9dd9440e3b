"""One ladder of our own records, worked out: arms per rung, gains over the ladder, curves and targets."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from speedrun.board.arms import About, Scored, arm_row, figure
from speedrun.board.lines import line_of
from speedrun.board.model import ArmRow, Hit, Ladder, LadderRow, Track
from speedrun.board.records import Record
from speedrun.board.table import scored_table
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.scoring import (
    Arm,
    Dominance,
    Verdict,
    check_runs,
    judge,
    pareto_front,
    rank,
    reaching,
)
from speedrun.scoring.comparison import compare_arms
from speedrun.scoring.table import all_arms

BASELINE = "adamw"
"""Whom the board compares everybody with."""
DRAWN = 12
"""Candidates whose curves are drawn: the baseline and the leaders."""
HITS = 10
"""How many stand under a target."""

Arms = Mapping[str, dict[str, Arm]]
"""By candidate and rung."""


def ladder_board(project: Project, name: str, records: Sequence[Record]) -> Ladder:
    """The ladder ``name`` from its records, flagged ones included."""
    runs = scored_table(records)
    check_runs(runs)
    arms = dict(sorted(all_arms(runs).items()))
    verdicts, problem = _verdicts(arms)
    present = {record.rung for record in records}
    rungs = [rung for rung in LADDER if rung in present]
    dominance = Dominance.of(arms)
    by_rung = {rung: ranks(verdicts, dominance, rung) for rung in rungs}
    rows = _arm_rows(project, records, arms, verdicts, by_rung, problem)
    noise = verdicts[BASELINE].comparison.noise if verdicts else None
    leaders = over_ladder(verdicts)
    drawn = [name for name in (BASELINE, *(row.candidate for row in leaders)) if name in arms][:DRAWN]
    return Ladder(
        name=name,
        baseline=BASELINE,
        rungs=rungs,
        noise=f"{noise.sigma:.2g} bits per byte between seeds ({noise.source})" if noise else "unknown",
        problem=problem,
        over_ladder=leaders,
        arms=rows,
        front=_front(arms),
        lines=[line for candidate in drawn if (line := line_of(candidate, arms[candidate])) is not None],
        tracks=_tracks(arms.get(BASELINE, {}), rows),
    )


def _verdicts(arms: Arms) -> tuple[dict[str, Verdict], str]:
    """(everybody's verdict against the baseline, why there is none or no speedup)."""
    if BASELINE not in arms:
        return {}, f"{BASELINE} has no record on this ladder, so there is nothing to compare with"
    verdicts = {
        candidate: judge(compare_arms(candidate, own, BASELINE, arms[BASELINE], interpolate=False))
        for candidate, own in arms.items()
    }
    return verdicts, verdicts[BASELINE].comparison.curve_problem


def ranks(verdicts: Mapping[str, Verdict], dominance: Dominance, rung: str) -> dict[str, dict[str, Any]]:
    """The rows of `speedrun.scoring.rank` by candidate, with None for what is missing."""
    table = rank([verdict.comparison for verdict in verdicts.values()], dominance, rung).astype(object)
    return {row["candidate"]: row for row in table.where(table.notna(), None).to_dict("records")}


def _arm_rows(
    project: Project,
    records: Sequence[Record],
    arms: Arms,
    verdicts: Mapping[str, Verdict],
    by_rung: Mapping[str, Mapping[str, Mapping[str, Any]]],
    problem: str,
) -> list[ArmRow]:
    """By rung, then rank, then score; those that are not ranked last."""
    grouped: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        grouped.setdefault((record.candidate, record.rung), []).append(record)
    rows = []
    about = {candidate: About.read(project, candidate) for candidate, _ in grouped}
    for (candidate, rung), own in grouped.items():
        arm = arms.get(candidate, {}).get(rung)
        ranked = by_rung[rung].get(candidate) if arm else None
        scored = Scored(arm, verdicts.get(candidate) if arm else None, ranked, problem)
        rows.append(arm_row(project, own, scored, about[candidate]))
    order = list(LADDER)

    def place(row: ArmRow) -> tuple[float, ...]:
        flagged = any(run.flags for run in row.runs)
        return order.index(row.rung), row.rank or math.inf, flagged, row.bits_per_byte.value or math.inf

    return sorted(rows, key=place)


def over_ladder(verdicts: Mapping[str, Verdict]) -> list[LadderRow]:
    """Gain and slope of everybody but the baseline: largest top rung first, then the lower end of the speedup."""
    rows = []
    for name, verdict in verdicts.items():
        headline = verdict.trend.headline
        if headline is None or name == verdict.comparison.baseline:
            continue
        rows.append(
            LadderRow(
                candidate=name,
                top_rung=headline.rung,
                rungs=len(verdict.comparison.rungs),
                speedup=figure(headline.speedup),
                realised=figure(headline.realised),
                slope=figure(verdict.trend.slope),
                word=str(verdict.ladder),
                warnings=list(verdict.warnings),
            )
        )
    order = {rung: at for at, rung in enumerate(LADDER)}
    return sorted(rows, key=lambda row: (-order.get(row.top_rung, 0), -(row.speedup.low or 0), row.candidate))


def _front(arms: Arms) -> list[str]:
    points = [(f"{name}/{rung}", arm) for name, own in arms.items() for rung, arm in own.items()]
    table = pd.DataFrame(
        {
            "model_flops": [arm.model_flops for _, arm in points],
            "bits_per_byte": [arm.bits_per_byte for _, arm in points],
        }
    )
    return [name for (name, _), is_on in zip(points, pareto_front(table), strict=True) if is_on]


def _tracks(baseline: Mapping[str, Arm], rows: Sequence[ArmRow]) -> list[Track]:
    """A target a rung, which is what the baseline reaches there: who gets as far, by compute and by time."""
    able = [row for row in rows if row.bits_per_byte.value is not None and not all(run.flags for run in row.runs)]
    table = pd.DataFrame(
        {
            "at": range(len(able)),
            "bits_per_byte": [row.bits_per_byte.value for row in able],
            "model_flops": [row.model_flops for row in able],
            "training_time_seconds": [row.training_seconds for row in able],
        }
    )

    def hits(target: float, by: str) -> list[Hit]:
        return [_hit(able[at]) for at in reaching(table, target, by)["at"].head(HITS)]

    return [
        Track(
            name=f"{BASELINE} at {rung}",
            bits_per_byte=arm.bits_per_byte,
            by_flops=hits(arm.bits_per_byte, "model_flops"),
            by_time=hits(arm.bits_per_byte, "training_time_seconds"),
        )
        for rung, arm in baseline.items()
    ]


def _hit(row: ArmRow) -> Hit:
    assert row.bits_per_byte.value is not None
    return Hit(
        name=f"{row.candidate} at {row.rung}",
        bits_per_byte=row.bits_per_byte.value,
        model_flops=row.model_flops,
        training_seconds=row.training_seconds,
        hardware=row.hardware,
        link=row.record,
    )
