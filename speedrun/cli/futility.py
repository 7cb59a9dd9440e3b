"""Asking, between two rungs of a ladder, whether the next is worth running; the answer is kept."""

import dataclasses
from typing import TYPE_CHECKING

from speedrun.cli.options import Asked
from speedrun.project import Project
from speedrun.records.schema import utc_now

if TYPE_CHECKING:
    from rich.console import Console


def is_futile(project: Project, ask: Asked, rung: str, claimed: float, console: "Console") -> bool:
    """Whether the records up to ``rung`` leave no room for the claimed speedup at the top rung of the ladder."""
    from speedrun.board.records import read_records
    from speedrun.board.table import scored_table
    from speedrun.catalog import load_candidate
    from speedrun.ladder import LADDER
    from speedrun.records.futility import Decision, keep_decision
    from speedrun.scoring import compare
    from speedrun.scoring.futility import futility

    name, ladder = ask.record_as or ask.name, LADDER[rung].ladder
    baseline = load_candidate(project, ask.name).candidate.baseline
    runs = scored_table([record for record in read_records(project) if record.ladder == ladder])
    top = max((each for each in LADDER.values() if each.ladder == ladder), key=lambda each: each.budget_flops)
    # Rungs above this one may hold records of an earlier version: they aren't asked.
    below = [each.name for each in LADDER.values() if each.ladder == ladder]
    runs = runs[(runs["candidate"] != name) | runs["rung"].isin(below[: below.index(rung) + 1])]
    found = futility(compare(runs, name, baseline), claimed, top.budget_flops)
    decision = Decision(at=utc_now(), baseline=baseline, after_rung=rung, **dataclasses.asdict(found))
    keep_decision(project.results / name / rung, decision)
    console.print(f"after {rung}: {found.reason}", markup=False, highlight=False, soft_wrap=True)
    if found.is_futile:
        console.print("the ladder ends here: --stop-for-futility asked for it", markup=False)
    return found.is_futile
