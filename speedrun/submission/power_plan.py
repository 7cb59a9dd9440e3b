"""The power of a decision rule, and the cost: what a preregistration says of seeds and money. No jax."""

from collections.abc import Mapping
from dataclasses import dataclass

from speedrun.board.public import BASELINE as PUBLIC_BASELINE
from speedrun.board.public import board_file
from speedrun.board.records import read_records
from speedrun.board.table import scored_table
from speedrun.board.text import Sheet, scientific
from speedrun.cost.plan import Range, plan_run
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec
from speedrun.ladder import LADDER, LadderName
from speedrun.project import Project
from speedrun.records.legacy import read_board
from speedrun.records.preregistrations import Plan
from speedrun.records.store import RESULTS_FILE
from speedrun.scoring import Arm, Curve, Noise, UndefinedError, arms_of, fit_curve, pooled_noise
from speedrun.scoring.power import EVIDENCE, MOST_SEEDS, POWER, detectable_loss, seeds_to_show

TOO_MANY = f"more than {MOST_SEEDS}"


@dataclass(frozen=True)
class PowerBasis:
    """What power is worked out from: the baseline's curve, and the noise between its seeds."""

    curve: Curve
    noise: Noise
    baseline_seeds: Mapping[str, int]
    """How many the baseline has on record, by rung."""
    caveats: tuple[str, ...]
    """What is borrowed or assumed, in sentences."""

    def seeds_to_show(self, rung: str, model_flops: float, gain: float) -> int | None:
        """The fewest seeds of each of the two that show a speedup of 1 + ``gain`` with `POWER` at p below
        `EVIDENCE`; None where nobody would run so many."""
        loss = self.curve.loss(model_flops)
        return seeds_to_show(loss - self.curve.loss_at_speedup(loss, 1 + gain), self.noise.at(rung))

    def gain_shown(self, rung: str, model_flops: float, seeds: int) -> float:
        """The smallest speedup minus 1 that ``seeds`` of each of the two show.

        Raises:
            UndefinedError: where only a loss below the curve's asymptote would do.
        """
        loss = self.curve.loss(model_flops)
        return self.curve.speedup_of_loss(loss, detectable_loss(seeds, self.noise.at(rung))) - 1


def power_basis(project: Project, baseline: str, ladder: LadderName) -> PowerBasis:
    """What is known of ``baseline`` on ``ladder``. The standard ladder borrows the public board's curve until the
    baseline has one of its own: good enough to plan seeds by, and never used to score.

    Raises:
        UndefinedError: when there is no curve.
    """
    arms = _baseline_arms(project, baseline, ladder)
    caveats = []
    try:
        curve = _curve(arms)
    except UndefinedError as problem:
        public = _public_arms(project) if ladder == "standard" else {}
        if not public:
            raise
        curve = _curve(public)
        caveats.append(f"The curve is borrowed from Marin's public board ({PUBLIC_BASELINE}): {problem}.")
    try:
        noise = pooled_noise(list(arms.values()))
    except UndefinedError:
        noise = Noise.assumed()
        caveats.append(f"The noise is an assumption until {baseline} has several seeds on this ladder.")
    seeds = {rung: arm.seeds for rung, arm in arms.items()}
    return PowerBasis(curve, noise, seeds, tuple(caveats))


def power_sheet(project: Project, plan: Plan) -> Sheet:
    """How small a gain can be shown at each rung with the seeds that are planned."""
    columns = ("rung", "seeds of each", "smallest gain that they show", "seeds that the smallest worth having needs")
    try:
        basis = power_basis(project, plan.baseline, LADDER[next(iter(plan.rungs))].ladder)
    except UndefinedError as problem:
        return Sheet("Power", (), (), (), [f"It cannot be told yet: {problem}."])
    rows = []
    for rung, planned in plan.rungs.items():
        try:
            shown = f"{basis.gain_shown(rung, planned.model_flops, len(planned.seeds)):.1%}"
        except UndefinedError:
            shown = "none"
        needed = basis.seeds_to_show(rung, planned.model_flops, plan.smallest_gain)
        rows.append((rung, str(len(planned.seeds)), shown, TOO_MANY if needed is None else str(needed)))
    return Sheet("Power", columns, rows, (), [power_note(basis), *basis.caveats])


def power_note(basis: PowerBasis) -> str:
    """By which test, and by which noise."""
    return f"With {POWER:.0%} probability, at p below {EVIDENCE:g}; seed noise: {basis.noise.source}."


def _curve(arms: Mapping[str, Arm]) -> Curve:
    found = list(arms.values())
    return fit_curve(
        [arm.model_flops for arm in found], [arm.bits_per_byte for arm in found], [arm.seeds for arm in found]
    )


def _baseline_arms(project: Project, baseline: str, ladder: LadderName) -> dict[str, Arm]:
    """The baseline's measured rungs."""
    runs = scored_table([record for record in read_records(project) if record.ladder == ladder])
    return arms_of(runs, baseline) if baseline in set(runs["candidate"]) else {}


def _public_arms(project: Project) -> dict[str, Arm]:
    """The public board's AdamW ladder; empty where the project lacks the board."""
    if not board_file(project).is_file():
        return {}
    runs = read_board(board_file(project)).runs
    ranked = runs[runs["ranked"]]
    return arms_of(ranked, PUBLIC_BASELINE) if PUBLIC_BASELINE in set(ranked["candidate"]) else {}


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
