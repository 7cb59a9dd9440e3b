"""One candidate at one rung, as a row of the board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from speedrun.board.badges import arm_badges, ended_early, gate_one, preregistration, probes_word, search_of
from speedrun.board.model import ArmRow, Credit, Figure, GateOne, MetricMean, RunRow
from speedrun.board.records import FLAGS, Record
from speedrun.board.table import causal_flops, hardware_of
from speedrun.cost.conventions import recorded_optimizer_share
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.preregistrations import Preregistration
from speedrun.records.schema import RunInfo
from speedrun.scoring import Arm, Estimate, Verdict, mean_interval


@dataclass(frozen=True)
class Scored:
    """What scoring says of an arm; all None where it has no run that may be ranked."""

    arm: Arm | None
    verdict: Verdict | None
    ranked: Mapping[str, Any] | None
    """Its row of `speedrun.scoring.rank`."""
    problem: str
    """Why there is no verdict."""


@dataclass(frozen=True)
class About:
    """What is the same for all rungs of a candidate."""

    gate: GateOne | None
    plan: Preregistration | None

    @classmethod
    def read(cls, project: Project, candidate: str) -> Self:
        """From the files beside the records."""
        return cls(gate_one(project, candidate), preregistration(project, candidate))


def figure(estimate: Estimate) -> Figure:
    """An estimate as data."""
    return Figure(**estimate.as_dict())


def arm_row(project: Project, records: Sequence[Record], scored: Scored, about: About) -> ArmRow:
    """The row of one candidate at one rung.

    Args:
        records: its runs, flagged ones included.
    """
    good = [record for record in records if not record.flags] or records
    first, infos = records[0], [record.info for record in good]
    sweep = search_of(project, first)
    flops = _mean([info.model_flops for info in infos]) or 0.0
    return ArmRow(
        candidate=first.candidate,
        rung=first.rung,
        bits_per_byte=_score(records, scored),
        levanter_bits_per_byte=_mean([_levanter(record) for record in good]),
        model_flops=flops,
        causal_flops=_mean([causal_flops(info) for info in infos]),
        hardware_flops=_mean([info.training_hardware_flops for info in infos]),
        budget_share=flops / LADDER[first.rung].budget_flops,
        optimizer_share=_mean([recorded_optimizer_share(info) for info in infos]),
        parameters=infos[0].model_size,
        active_parameters=infos[0].active_parameters,
        metrics=_metrics(infos),
        tokens=_mean([info.total_tokens for info in infos]) or 0.0,
        training_seconds=_mean([info.training_time for info in infos]) or 0.0,
        mfu=_mean([info.mfu for info in infos]),
        hardware=", ".join(sorted({hardware_of(info) or "several" for info in infos})),
        completed=max(info.run_completion_timestamp for info in infos)[:10],
        authors=[Credit(name=a.name, affiliation=a.affiliation, url=a.url) for a in infos[0].authors],
        badges=arm_badges(project, good, about.gate, about.plan, sweep),
        ended=ended_early(project, first.candidate, first.rung),
        probes=probes_word(infos),
        search_runs=len(sweep.points),
        search_flops=sweep.model_flops,
        runs=[_run_row(record) for record in records],
        record=first.path,
        **_standing(first, scored),
    )


def _standing(first: Record, scored: Scored) -> dict[str, Any]:
    """Rank, speedup and verdict."""
    verdict, ranked = scored.verdict, scored.ranked or {}
    compared = next((at for at in verdict.comparison.rungs if at.rung == first.rung), None) if verdict else None
    word = next((at for at in verdict.rungs if at.rung == first.rung), None) if verdict else None
    is_baseline = verdict is not None and verdict.comparison.baseline == first.candidate
    not_ranked = str(ranked.get("reason") or "")
    if scored.arm is None:
        not_ranked = "; ".join(FLAGS[flag] for flag in first.flags)
    elif not ranked:
        not_ranked = scored.problem
    missing = Figure(value=None, reason=not_ranked)
    return {
        "rank": ranked.get("rank"),
        "tier": ranked.get("tier"),
        "speedup": figure(compared.speedup) if compared else missing,
        "realised": figure(compared.realised) if compared else missing,
        "verdict": str(word.word) if word and not is_baseline else "",
        "why": word.why if word and not is_baseline else "",
        "beaten_by": str(ranked.get("beaten_by") or ""),
        "not_ranked": not_ranked,
    }


def _metrics(infos: Sequence[RunInfo]) -> list[MetricMean]:
    """What every run has measured, with the mean of its values."""
    named = [{metric.name: metric.value for metric in info.metrics} for info in infos]
    return [
        MetricMean(
            name=metric.name,
            value=sum(values[metric.name] for values in named) / len(named),
            unit=metric.unit,
            meaning=metric.meaning,
        )
        for metric in infos[0].metrics
        if all(metric.name in values for values in named)
    ]


def _score(records: Sequence[Record], scored: Scored) -> Figure:
    """Mean score with Student's interval."""
    if scored.arm is None:
        return Figure(value=records[0].info.bits_per_byte, reason="not ranked")
    noise = scored.verdict.comparison.candidate_noise if scored.verdict else None
    if noise is None:
        return Figure(value=scored.arm.bits_per_byte, reason="the seed noise is unknown")
    low, high = mean_interval(scored.arm, noise)
    return Figure(value=scored.arm.bits_per_byte, low=low, high=high)


def _levanter(record: Record) -> float | None:
    info = record.info
    return info.micro_heldout_bpb if LADDER[record.rung].is_micro else info.paloma_c4_en_bpb


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def _run_row(record: Record) -> RunRow:
    info = record.info
    return RunRow(
        seed=info.seed,
        bits_per_byte=info.bits_per_byte,
        model_flops=info.model_flops,
        run_link=info.wandb_run_link,
        flags=list(record.flags),
    )
