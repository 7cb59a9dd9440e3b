"""How many seeds show a given gain at each rung, and what they cost, for ``speedrun dry-run --target-gain``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from speedrun.board.text import Sheet, scientific
from speedrun.cli.price_table import Priced, range_text, time_text, total_json
from speedrun.cost.plan import LadderPlan, plan_ladder
from speedrun.ladder import LADDER, LadderName
from speedrun.project import Project
from speedrun.scoring import UndefinedError
from speedrun.scoring.power import EVIDENCE, POWER
from speedrun.submission.power_plan import TOO_MANY, PowerBasis, power_basis, power_note

COLUMNS = ("rung", "seeds of each", "on record", "runs to make", "model FLOPs", "time", "chip-hours", "$")


@dataclass(frozen=True)
class RungSeeds:
    """What showing the gain takes at one rung."""

    seeds_of_each: int | None
    """Seeds of candidate and baseline each; None where nobody would run so many."""
    baseline_on_record: int
    runs: int | None
    """The candidate's seeds, and those of the baseline that are not on record."""


@dataclass(frozen=True)
class TargetGain:
    """What showing a gain takes."""

    gain: float
    """Speedup minus 1."""
    rungs: Mapping[str, RungSeeds]
    notes: list[str]
    """By which test and noise, what is borrowed or assumed, and why a rung is missing."""


def target_gain(project: Project, name: str, priced: Priced, gain: float) -> TargetGain:
    """The seeds that candidate ``name`` needs at each priced rung. A baseline's own dry run counts one arm."""
    notes: list[str] = []
    bases: dict[str, PowerBasis | None] = {}
    rungs = {}
    for rung, cost in priced.costs.items():
        ladder = LADDER[rung].ladder
        if ladder not in bases:
            bases[ladder] = _basis(project, priced.baseline, ladder, notes)
        basis = bases[ladder]
        if basis is None:
            continue
        seeds, there = basis.seeds_to_show(rung, cost.model_flops, gain), basis.baseline_seeds.get(rung, 0)
        of_candidate = seeds if seeds is not None and name != priced.baseline else 0
        runs = None if seeds is None else of_candidate + max(0, seeds - there)
        rungs[rung] = RungSeeds(seeds, there, runs)
    return TargetGain(gain, rungs, notes)


def gain_sheet(found: TargetGain, priced: Priced, hardware: str) -> Sheet:
    """The table of one kind of hardware."""
    rows = []
    for rung, at in found.rungs.items():
        total = _total(priced, hardware, {rung: at})
        rows.append(
            (
                rung,
                TOO_MANY if at.seeds_of_each is None else str(at.seeds_of_each),
                f"{at.baseline_on_record} of {priced.baseline}",
                "–" if at.runs is None else str(at.runs),
                "–" if at.runs is None else scientific(at.runs * priced.costs[rung].model_flops),
                time_text(total.hours) if total else "–",
                range_text(total.chip_hours) if total else "–",
                range_text(total.usd) if total and total.usd else "–",
            )
        )
    after = list(found.notes)
    total = _total(priced, hardware, found.rungs)
    if total is not None and len(found.rungs) > 1:
        dollars = f", ${range_text(total.usd)}" if total.usd else ""
        hours = f"{time_text(total.hours)}, {range_text(total.chip_hours)} chip-hours"
        after.insert(0, f"In all {scientific(total.model_flops)} model FLOPs, {hours}{dollars}.")
    return Sheet(f"To show a gain of {100 * found.gain:.3g} % in compute, on {hardware}", COLUMNS, rows, (), after)


def gain_json(found: TargetGain, priced: Priced) -> dict[str, Any]:
    """The same as data."""
    return {
        "gain": found.gain,
        "power": POWER,
        "p_below": EVIDENCE,
        "notes": found.notes,
        "rungs": {
            rung: {
                "seeds_of_each": at.seeds_of_each,
                "baseline_seeds_on_record": at.baseline_on_record,
                "runs": at.runs,
                "model_flops": None if at.runs is None else at.runs * priced.costs[rung].model_flops,
            }
            for rung, at in found.rungs.items()
        },
        "totals": {hardware: total_json(_total(priced, hardware, found.rungs)) for hardware in priced.plans},
    }


def _total(priced: Priced, hardware: str, rungs: Mapping[str, RungSeeds]) -> LadderPlan | None:
    """All runs to make, at rungs where the gain can be shown; None where there are none, or no hours can be told."""
    planned = priced.plans[hardware]
    runs = [planned[rung][0] for rung, at in rungs.items() if rung in planned for _ in range(at.runs or 0)]
    return plan_ladder(runs) if runs else None


def _basis(project: Project, baseline: str, ladder: LadderName, notes: list[str]) -> PowerBasis | None:
    try:
        basis = power_basis(project, baseline, ladder)
    except UndefinedError as problem:
        notes.append(f"How many seeds the {ladder} ladder needs cannot be told yet: {problem}.")
        return None
    notes += [power_note(basis), *basis.caveats]
    return basis
