"""A candidate against its baseline, ladder by ladder, as plain data: what `speedrun compare` shows."""

import math
from collections.abc import Sequence

import pandas as pd
from pydantic import BaseModel

from speedrun.board.arms import figure
from speedrun.board.badges import ended_early, gate_one
from speedrun.board.documents import difference_over_documents
from speedrun.board.model import Figure, GateOne
from speedrun.board.public import board_file
from speedrun.board.published import STEPS, Published
from speedrun.board.records import Record, read_records
from speedrun.board.table import levanter_table, scored_table
from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.legacy import read_board
from speedrun.records.sweeps import read_sweep
from speedrun.scoring import (
    Arm,
    Comparison,
    Noise,
    RungComparison,
    Verdict,
    arms_of,
    compare,
    judge,
    mean_interval,
    outlook,
)
from speedrun.scoring.estimate import UndefinedError
from speedrun.scoring.verdict import RungVerdict, RungWord

PUBLIC = "marin:"
"""What the names of public suites begin with here."""
LEVANTER = "levanter"
"""Stands for the ladder where a public suite is compared: Levanter's figure, by rungs of one name."""


class Side(BaseModel):
    """One of the two at a rung."""

    bits_per_byte: Figure
    seeds: int
    model_flops: float
    hardware: str


class RungPair(BaseModel):
    """Both at a rung."""

    rung: str
    candidate: Side
    baseline: Side
    difference: float
    """Candidate's minus baseline's bits per byte: negative is better."""
    over_documents: Figure
    """The same with its interval over documents, paired: would other texts of the kind say so too?"""
    speedup: Figure
    realised: Figure
    interpolated: Figure
    without_a_rung: tuple[float, float | None] | None
    """Least and greatest speedup when the curve leaves one rung out; no upper end is null."""
    mfu_ratio: float | None
    p_better: float | None
    p_worse: float | None
    verdict: str
    why: str
    seeds_to_settle: int | None


class Next(BaseModel):
    """What the next rung should show. A forecast."""

    rung: str
    speedup: float
    bits_per_byte: float
    baseline_bits_per_byte: Figure
    extrapolation: float


class Pair(BaseModel):
    """The comparison on one ladder."""

    candidate: str
    baseline: str
    ladder: str
    rungs: list[RungPair]
    passes: bool
    """Gate 2: better at the largest rung that both have."""
    slope: Figure
    word: str
    next: Next | None
    ended: str
    """Why the candidate's ladder was ended after its largest rung, in words; empty where it was not."""
    noise: str
    warnings: list[str]
    search_flops: dict[str, float]
    """Model FLOPs of the search for settings on this ladder, by name, as far as on record."""
    published: Published | None
    """What others found of the same step, elsewhere and at another scale."""


class Report(BaseModel):
    """All that `speedrun compare` says."""

    names: list[str]
    against: str
    gate_one: dict[str, GateOne | None]
    steps: list[Pair]
    """Each against the one before, the first against ``against``."""
    whole: list[Pair]
    """The last against ``against``, where there are several."""


def report(project: Project, names: Sequence[str], against: str | None) -> Report:
    """Compares candidates, each with the one before.

    Args:
        names: candidates, or public suites as ``marin:NAME``; several are a stack of changes, in order.
        against: what the first is compared with; its own baseline by default.

    Raises:
        SpeedrunError: for an unknown name, or two that share no rung.
    """
    records = read_records(project)
    if against is None:
        against = _declared_baseline(records, names[0])
    everybody = [against, *names]
    if len(set(everybody)) < len(everybody):
        raise SpeedrunError(f"a candidate stands twice in {' '.join(everybody)}: compare different ones")
    tables = _tables(project, records, everybody)
    made = [_pairs(project, records, tables, one, other) for one, other in zip(names, everybody, strict=False)]
    steps = [pair for pairs in made for pair in pairs]
    whole = _pairs(project, records, tables, names[-1], against) if len(names) > 1 else []
    gates = {name: gate_one(project, name) for name in names if not name.startswith(PUBLIC)}
    return Report(names=list(names), against=against, gate_one=gates, steps=steps, whole=whole)


def _declared_baseline(records: Sequence[Record], name: str) -> str:
    if name.startswith(PUBLIC):
        return f"{PUBLIC}adamw_llama_scaling"
    own = [record.info.baseline for record in records if record.candidate == name]
    if not own:
        raise UnknownNameError(
            "candidate", name, {record.candidate for record in records}, advice="It has no finished run in results/."
        )
    return own[-1]


def _tables(project: Project, records: Sequence[Record], names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """By ladder: our score on our ladders; or, where a public suite takes part, Levanter's figure on all rungs."""
    if any(name.startswith(PUBLIC) for name in names):
        published = read_board(board_file(project)).runs
        public = published[published["ranked"]]
        public = public.assign(candidate=PUBLIC + public["candidate"])
        ours = levanter_table(records)
        tables = {LEVANTER: pd.concat([ours, public.reindex(columns=ours.columns)]) if len(ours) else public}
    else:
        ladders = dict.fromkeys(rung.ladder for rung in LADDER.values())
        tables = {name: scored_table([r for r in records if r.ladder == name]) for name in ladders}
    known = {name for table in tables.values() for name in table["candidate"]}
    for name in names:
        if name not in known:
            raise UnknownNameError("candidate", name, sorted(known), advice=_why_missing(records, name))
    return tables


def _why_missing(records: Sequence[Record], name: str) -> str:
    flags = sorted({flag for record in records if record.candidate == name for flag in record.flags})
    if flags:
        return f"All of its runs are left out: {', '.join(flags)} (`speedrun validate` says where)."
    return "It has no finished run with a score that compares."


def _pairs(
    project: Project, records: Sequence[Record], tables: dict[str, pd.DataFrame], candidate: str, baseline: str
) -> list[Pair]:
    pairs = []
    for ladder, runs in tables.items():
        if not {candidate, baseline} <= set(runs["candidate"]):
            continue
        both = runs[runs["candidate"].isin([candidate, baseline])]
        if not arms_of(both, candidate).keys() & arms_of(both, baseline).keys():
            continue
        noise = Noise.assumed() if ladder == LEVANTER else None
        pairs.append(_pair(project, records, ladder, judge(compare(both, candidate, baseline, noise=noise))))
    if not pairs:
        raise SpeedrunError(f"{candidate} and {baseline} share no rung: run one of them where the other has been run")
    return pairs


def _pair(project: Project, records: Sequence[Record], ladder: str, verdict: Verdict) -> Pair:
    comparison = verdict.comparison
    rungs = [
        _rung_pair(rung, word, comparison, _over_documents(project, records, ladder, comparison, rung.rung))
        for rung, word in zip(comparison.rungs, verdict.rungs, strict=True)
    ]
    names = (comparison.candidate, comparison.baseline)
    return Pair(
        candidate=comparison.candidate,
        baseline=comparison.baseline,
        ladder=ladder,
        rungs=rungs,
        passes=rungs[-1].verdict == RungWord.BETTER,
        slope=figure(verdict.trend.slope),
        word=str(verdict.ladder),
        next=_next(ladder, verdict),
        ended=ended_early(project, comparison.candidate, rungs[-1].rung) if rungs[-1].rung in LADDER else "",
        noise=comparison.noise.source if comparison.noise else comparison.noise_problem,
        warnings=list(verdict.warnings),
        published=STEPS.get(names),
        search_flops={name: _search_flops(project, ladder, name) for name in names if ladder != LEVANTER},
    )


def _over_documents(
    project: Project, records: Sequence[Record], ladder: str, comparison: Comparison, rung: str
) -> Figure:
    if ladder == LEVANTER:
        return Figure(value=None, reason="public runs keep no figures of single documents")
    sides = [
        [record for record in records if (record.candidate, record.rung) == (name, rung) and not record.flags]
        for name in (comparison.candidate, comparison.baseline)
    ]
    return difference_over_documents(project, *sides)


def _rung_pair(rung: RungComparison, word: RungVerdict, comparison: Comparison, over_documents: Figure) -> RungPair:
    return RungPair(
        rung=rung.rung,
        candidate=_side(rung.candidate, comparison.candidate_noise),
        baseline=_side(rung.baseline, comparison.noise),
        difference=rung.candidate.bits_per_byte - rung.baseline.bits_per_byte,
        over_documents=over_documents,
        speedup=figure(rung.speedup),
        realised=figure(rung.realised),
        interpolated=figure(rung.interpolated),
        without_a_rung=rung.without_a_rung and (rung.without_a_rung[0], _finite(rung.without_a_rung[1])),
        mfu_ratio=rung.mfu_ratio,
        p_better=rung.p_better,
        p_worse=rung.p_worse,
        verdict=str(word.word),
        why=word.why,
        seeds_to_settle=word.seeds_to_settle,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _side(arm: Arm, noise: Noise | None) -> Side:
    low, high = mean_interval(arm, noise) if noise else (None, None)
    score = Figure(value=arm.bits_per_byte, low=low, high=high)
    return Side(bits_per_byte=score, seeds=arm.seeds, model_flops=arm.model_flops, hardware=arm.hardware)


def _next(ladder: str, verdict: Verdict) -> Next | None:
    rungs = [rung for rung in LADDER.values() if rung.ladder == ladder]
    names = [rung.name for rung in rungs]
    top = verdict.comparison.rungs[-1].rung
    if top not in names or top == names[-1]:
        return None
    above = rungs[names.index(top) + 1]
    try:
        seen = outlook(verdict.comparison, verdict.trend, above.budget_flops)
    except UndefinedError:
        return None
    base = seen.baseline
    return Next(
        rung=above.name,
        speedup=seen.speedup,
        bits_per_byte=seen.bits_per_byte,
        baseline_bits_per_byte=Figure(value=base.bits_per_byte, low=base.low, high=base.high),
        extrapolation=base.extrapolation,
    )


def _search_flops(project: Project, ladder: str, name: str) -> float:
    rungs = [rung.name for rung in LADDER.values() if rung.ladder == ladder]
    return sum(read_sweep(project.results / name / rung).model_flops for rung in rungs)
