"""The power of a decision rule, and the cost: what a preregistration says of seeds and money. No jax."""

from speedrun.board.noise import comparison_noise
from speedrun.board.records import read_records
from speedrun.board.table import scored_table
from speedrun.board.text import Sheet, scientific
from speedrun.cost.plan import Range, plan_run
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.preregistrations import Plan
from speedrun.records.store import RESULTS_FILE
from speedrun.scoring import Arm, Noise, UndefinedError, arms_of, fit_curve
from speedrun.scoring.power import EVIDENCE, POWER, detectable_loss, seeds_to_show


def power_sheet(project: Project, plan: Plan) -> Sheet:
    """How small a gain can be shown at each rung with the seeds that are planned."""
    columns = ("rung", "seeds of each", "smallest gain that they show", "seeds that the smallest worth having needs")
    arms = _baseline_arms(project, plan)
    try:
        curve = fit_curve(
            [arm.model_flops for arm in arms.values()],
            [arm.bits_per_byte for arm in arms.values()],
            [arm.seeds for arm in arms.values()],
        )
    except UndefinedError as problem:
        return Sheet("Power", (), (), (), [f"It cannot be told yet: {problem}."])
    noise = comparison_noise(list(arms.values()), [])
    assumed = noise is None
    noise = noise or Noise.assumed()
    rows = []
    for rung, planned in plan.rungs.items():
        loss, here, seeds = curve.loss(planned.model_flops), noise.at(rung), len(planned.seeds)
        try:
            shown = f"{curve.speedup_of_loss(loss, detectable_loss(seeds, here)) - 1:.1%}"
        except UndefinedError:
            shown = "none"
        needed = seeds_to_show(loss - curve.loss_at_speedup(loss, 1 + plan.smallest_gain), here)
        rows.append((rung, str(seeds), shown, "more than anybody runs" if needed is None else str(needed)))
    after = [f"With {POWER:.0%} probability, at p below {EVIDENCE:g}; seed noise: {noise.source}."]
    if assumed:
        after.append(f"The noise is an assumption until {plan.baseline} has several seeds on this ladder.")
    return Sheet("Power", columns, rows, (), after)


def _baseline_arms(project: Project, plan: Plan) -> dict[str, Arm]:
    """The baseline's measured rungs, on the ladder that is planned."""
    ladder = LADDER[next(iter(plan.rungs))].ladder
    runs = scored_table([record for record in read_records(project) if record.ladder == ladder])
    return arms_of(runs, plan.baseline) if plan.baseline in set(runs["candidate"]) else {}


def cost_sheet(project: Project, plan: Plan, hardware: HardwareSpec) -> Sheet:
    """What the seeds of all rungs cost, the baseline's included where it has no record yet."""
    rows = []
    total = 0.0
    hours, usd = Range(0.0, 0.0), Range(0.0, 0.0)
    for rung, planned in plan.rungs.items():
        missing = (
            plan.candidate != plan.baseline and not (project.results / plan.baseline / rung / RESULTS_FILE).exists()
        )
        runs = len(planned.seeds) * (2 if missing else 1)
        total += runs * planned.model_flops
        what = f"{runs}" + (f", half of them {plan.baseline}'s, which has no record" if missing else "")
        try:
            one = plan_run(rung, planned.model_flops, hardware)
        except SpeedrunError:
            rows.append((rung, what, scientific(runs * planned.model_flops), "–", "–"))
            continue
        hours, usd = hours + one.chip_hours * runs, usd + (one.usd or Range(0.0, 0.0)) * runs
        rows.append(
            (rung, what, scientific(runs * planned.model_flops), _range(one.chip_hours * runs), _usd(one.usd, runs))
        )
    after = [
        f"In all {scientific(total)} model FLOPs."
        + (f" {_range(hours)} chip-hours on {hardware}." if hours.high else "")
    ]
    if usd.high:
        after.append(f"About ${usd.low:,.2f} to ${usd.high:,.2f}, by list prices.")
    if not hours.high:
        after.append(f"{hardware} has no known peak, so hours cannot be told: measure a few steps.")
    return Sheet("Cost", ("rung", "runs", "model FLOPs", "chip-hours", "$"), rows, (), after)


def _range(value: Range) -> str:
    return f"{value.low:,.1f} to {value.high:,.1f}"


def _usd(value: Range | None, runs: int) -> str:
    return "–" if value is None else f"{value.low * runs:,.0f} to {value.high * runs:,.0f}"
