"""Marin's historic board, worked out anew: its figures as published, scored by this project's definitions.

Its rows are measured by Levanter's own figure on other rungs, so it stands apart from our ladders.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from speedrun.board.arms import figure
from speedrun.board.ladder import HITS, ranks
from speedrun.board.lines import line_of
from speedrun.board.model import Figure, Hit, Line, PublicBoard, PublicRow, Track
from speedrun.project import Project
from speedrun.records.legacy import PublicBoard as Published
from speedrun.records.legacy import read_board
from speedrun.records.legacy_rows import FLAGS
from speedrun.scoring import Dominance, Noise, Verdict, check_runs, judge, pareto_front, reaching
from speedrun.scoring.comparison import compare_arms
from speedrun.scoring.table import all_arms

BASELINE = "adamw_llama_scaling"
SUITE = 3
"""Rungs from which a public candidate is compared: fewer make no curve."""


def board_file(project: Project) -> Path:
    """Where the public board's figures are kept."""
    return project.results / "marin" / "board.json"


def public_board(project: Project) -> PublicBoard | None:
    """The historic board; None where its figures are not in the project.

    Raises:
        SpeedrunError: for a file that is no board.
    """
    if not board_file(project).is_file():
        return None
    published = read_board(board_file(project))
    ranked = published.runs[published.runs["ranked"]]
    counts = ranked.groupby("candidate")["rung"].nunique()
    suites = sorted(counts[counts >= SUITE].index)
    runs = ranked[ranked["candidate"].isin(suites)]
    check_runs(runs)
    arms = all_arms(runs)
    dominance = Dominance.of(arms)
    verdicts = {}
    if BASELINE in suites:
        base, noise = arms[BASELINE], Noise.assumed()
        verdicts = {
            name: judge(compare_arms(name, arms[name], BASELINE, base, noise=noise, interpolate=False))
            for name in suites
        }
    rungs = _rungs(ranked)
    rows = _rows(published.runs, verdicts, {rung: ranks(verdicts, dominance, rung) for rung in rungs}, rungs)
    lines = [line for name in suites if (line := line_of(name, arms[name], project=True)) is not None]
    return PublicBoard(
        as_of=published.as_of.isoformat() if published.as_of else "",
        source=published.source,
        baseline=BASELINE,
        rungs=rungs,
        rows=rows,
        front=list(ranked.loc[pareto_front(ranked), "run_name"]),
        lines=sorted(lines, key=_projection),
        tracks=_tracks(published, ranked),
    )


def _projection(line: Line) -> float:
    return math.inf if line.projection is None or line.projection.value is None else line.projection.value


def _rungs(runs: pd.DataFrame) -> list[str]:
    """Rungs by their median compute, smallest first."""
    return list(runs.groupby("rung")["model_flops"].median().sort_values().index)


def _rows(
    runs: pd.DataFrame,
    verdicts: Mapping[str, Verdict],
    by_rung: Mapping[str, Mapping[str, Mapping[str, Any]]],
    rungs: list[str],
) -> list[PublicRow]:
    rows = []
    for row in runs.astype(object).where(runs.notna(), None).to_dict("records"):
        found = by_rung.get(row["rung"], {}).get(row["candidate"], {}) if row["ranked"] else {}
        verdict = verdicts.get(row["candidate"]) if row["ranked"] else None
        compared = next((at for at in verdict.comparison.rungs if at.rung == row["rung"]), None) if verdict else None
        reason = str(found.get("reason") or "") if found else f"fewer than {SUITE} rungs, so it is in no suite"
        if not row["ranked"]:
            reason = "; ".join(FLAGS[flag].meaning for flag in row["flags"] if FLAGS[flag].keeps_off_ranking)
        completed = row["completed"]
        rows.append(
            PublicRow(
                name=row["run_name"],
                candidate=row["candidate"],
                rung=row["rung"],
                rank=found.get("rank"),
                tier=found.get("tier"),
                bits_per_byte=row["bits_per_byte"],
                speedup=figure(compared.speedup) if compared else Figure(value=None, reason=reason),
                not_ranked=reason,
                beaten_by=str(found.get("beaten_by") or ""),
                model_flops=row["model_flops"],
                hardware_flops=row["hardware_flops"],
                training_seconds=row["training_time_seconds"],
                parameters=row["model_parameters"],
                author=str(row["author_name"] or ""),
                author_url=str(row["author_url"] or ""),
                completed="" if completed is None else completed.strftime("%Y-%m-%d"),
                run_link=row["run_link"],
                flags=list(row["flags"]),
            )
        )
    order = {rung: at for at, rung in enumerate(rungs)}
    return sorted(
        rows,
        key=lambda r: (order.get(r.rung, len(order)), r.rank or math.inf, r.bits_per_byte or math.inf, r.name),
    )


def _tracks(published: Published, ranked: pd.DataFrame) -> list[Track]:
    rows = ranked.astype(object).where(ranked.notna(), None).to_dict("index")

    def hits(target: float, by: str) -> list[Hit]:
        return [_hit(rows[at]) for at in reaching(ranked, target, by).head(HITS).index]

    return [
        Track(
            name=name,
            bits_per_byte=target,
            by_flops=hits(target, "model_flops"),
            by_time=hits(target, "training_time_seconds"),
        )
        for name, target in published.targets.items()
    ]


def _hit(row: Mapping[str, Any]) -> Hit:
    return Hit(
        name=row["run_name"],
        bits_per_byte=row["bits_per_byte"],
        model_flops=row["model_flops"],
        training_seconds=row["training_time_seconds"],
        hardware="",
        link=row["run_link"] or "",
    )
