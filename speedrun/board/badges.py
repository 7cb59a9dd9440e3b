"""Badges: what a reader should know of a result beside its figures, each from a file beside the record."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from speedrun.board.model import GateOne
from speedrun.board.records import Record
from speedrun.errors import SpeedrunError
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.futility import last_decision
from speedrun.records.preregistrations import FOLDER, Preregistration, parse_preregistration
from speedrun.records.schema import PROBE_LIMITS, Probe, RunInfo
from speedrun.records.store import RESULTS_FILE
from speedrun.records.sweeps import Sweep, fields_at_edge, read_sweep
from speedrun.records.verifications import read_verification

BADGES = {
    "gate 1": "it ports: `speedrun check` builds, traces, shards and counts it at this rung",
    "gate 1 failed": "`speedrun check` found a fault at this rung",
    "probes passed": "the finished model sees nothing ahead or of its neighbours, and always gives a number",
    "probes failed": "the finished model saw what it must not, or gave no number: its score means nothing",
    "not probed": "it is older than the probes of the finished model: `speedrun evaluate` asks them",
    "reproduced": "somebody else ran a seed of it again, and got the same",
    "not reproduced": "somebody else ran a seed of it again, and got something else",
    "preregistered": "hypothesis, recipe and seeds were written down before the first run",
    "changed since": "it differs from what was written down before the first run",
    "single seed": "one run: it says nothing of its own noise",
    "dirty tree": "tracked files differed from the commit when it was recorded",
    "contaminated": "more than 1 % of the evaluation's documents stand in the training data",
    "edge of search": "a setting is the smallest or largest that was tried: the optimum may lie outside",
    "ended early": "its ladder was ended here: the rungs so far left the claimed gain no room at the top",
}
GOOD = ("gate 1", "probes passed", "reproduced", "preregistered")
"""Those that speak for a result."""
NEUTRAL = ("not probed", "ended early")
"""Those that speak neither for nor against it; the others warn."""


def arm_badges(
    project: Project, records: Sequence[Record], gate: GateOne | None, plan: Preregistration | None, sweep: Sweep
) -> list[str]:
    """The badges of one candidate at one rung, in the order of `BADGES`."""
    found = set(_badges(project, records, gate, plan, sweep))
    return [badge for badge in BADGES if badge in found]


def _badges(
    project: Project, records: Sequence[Record], gate: GateOne | None, plan: Preregistration | None, sweep: Sweep
) -> Iterator[str]:
    first = records[0]
    if gate is not None and first.rung in gate.rungs:
        failed = any(problem.startswith(f"{first.rung}:") for problem in gate.problems)
        yield "gate 1 failed" if failed else "gate 1"
    yield probes_word([record.info for record in records])
    folder = (project.root / first.path).parent
    verified = any(name.startswith("verification-") for name in os.listdir(folder))
    for record in records if verified else ():
        verification = read_verification(folder, record.info.seed)
        if verification is not None and verification.stands_for(record.info):
            yield "reproduced" if verification.verdict == "reproduced" else "not reproduced"
    if plan is not None:
        yield from (status for record in records if (status := plan.status(record.info)) in BADGES)
    if len(records) == 1:
        yield "single seed"
    if any(record.info.git_dirty for record in records):
        yield "dirty tree"
    if any(record.info.contamination and record.info.contamination.contaminated for record in records):
        yield "contaminated"
    if edge_of_search(sweep, first.info.recipe_fingerprint):
        yield "edge of search"
    if ended_early(project, first.candidate, first.rung):
        yield "ended early"


def probes_word(infos: Sequence[RunInfo]) -> str:
    """The badge for the probes of runs. What counts is what was measured, not what the record says of it."""
    found = [{probe.name: probe for probe in info.evaluation.probes} for info in infos]
    if any(not probe.passed or not _passes(probe) for probes in found for probe in probes.values()):
        return "probes failed"
    return "probes passed" if all(PROBE_LIMITS.keys() <= probes.keys() for probes in found) else "not probed"


def _passes(probe: Probe) -> bool:
    return 0 <= probe.value <= PROBE_LIMITS.get(probe.name, probe.limit)


def ended_early(project: Project, candidate: str, rung: str) -> str:
    """Why a candidate's ladder was ended after a rung, in words; empty where it was not, or went on after all."""
    decision = last_decision(project.results / candidate / rung)
    if decision is None or not decision.is_futile or decision.highest_speedup is None:
        return ""
    own = [each.name for each in LADDER.values() if each.ladder == LADDER[rung].ladder]
    if any((project.results / candidate / above / RESULTS_FILE).exists() for above in own[own.index(rung) + 1 :]):
        return ""
    claimed, left = decision.claimed_speedup, decision.highest_speedup
    return f"its ladder was ended after {rung}: {claimed:.4g} was claimed for the top, and at most {left:.4g} was left"


def edge_of_search(sweep: Sweep, fingerprint: str) -> list[str]:
    """Fields of the recipe whose value is an end of what the sweep tried; none where the sweep has not the recipe."""
    winner = next((point for point in sweep.points if point.recipe_fingerprint == fingerprint), None)
    if winner is None:
        return []
    same = [point for point in sweep.points if point.overrides.keys() == winner.overrides.keys()]
    return fields_at_edge(winner.overrides, {name: [p.overrides[name] for p in same] for name in winner.overrides})


def search_of(project: Project, record: Record) -> Sweep:
    """The search for the settings of a candidate at a rung."""
    return read_sweep((project.root / record.path).parent)


def gate_one(project: Project, candidate: str) -> GateOne | None:
    """What `speedrun check` left for a candidate; None where there is nothing that can be read."""
    try:
        content = json.loads((project.results / candidate / "check.json").read_text(encoding="utf-8"))
        lines = [(str(rung["rung"]), line) for rung in content["rungs"] for line in rung["lines"]]
        problems = [f"{rung}: {line['question']}: {line['text']}" for rung, line in lines if line["state"] == "failed"]
        return GateOne(passed=not problems, rungs=list(dict.fromkeys(rung for rung, _ in lines)), problems=problems)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def preregistration(project: Project, candidate: str) -> Preregistration | None:
    """A candidate's preregistration; None where there is none that is intact."""
    path: Path = project.root / FOLDER / f"{candidate}.md"
    try:
        plan = parse_preregistration(path.read_bytes(), str(path))
    except (OSError, SpeedrunError):
        return None
    return plan if plan.intact else None
