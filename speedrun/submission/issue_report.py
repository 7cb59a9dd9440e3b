"""The results of a candidate as a comment for the issue that announced it, good or bad. From records alone."""

import gzip
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from speedrun.board.pairs import Pair, report
from speedrun.board.text import Sheet, escape, markdown, ratio
from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.records.preregistrations import Preregistration, preregistration_path, read_preregistration
from speedrun.records.schema import RunInfo
from speedrun.scoring.verdict import RungWord
from speedrun.submission.change import Change
from speedrun.submission.pull_request import comparison_markdown, runs_of

SHOWN_OF_TRAINING = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Fractions of the steps at which losses are shown."""


def issue_report(project: Project, name: str) -> str:
    """The comment.

    Raises:
        SpeedrunError: when the candidate has no record.
    """
    runs = runs_of(project, name)
    if not runs:
        raise SpeedrunError(f"{name} has no record: `speedrun run {name} --rung ...` makes one")
    plan = read_preregistration(preregistration_path(project.root, name))
    infos = [info for each in runs.values() for info in each]
    parts = [
        f"## Results of {name}: {', '.join(runs)}",
        *(headline(pair, plan) for pair in _pairs(project, name)),
        f"Hypothesis: {escape(infos[0].description)}",
        _promised(plan, runs),
        comparison_markdown(project, name, 3),
        markdown(_losses(project, name, infos[0].baseline, runs), 3),
        f"Records: `results/{name}/`. To run one again: `speedrun reproduce {name} --rung {next(iter(runs))}`.",
    ]
    # A comment that a robot posts calls nobody's name.
    return "\n\n".join(part.strip("\n") for part in parts if part).replace("@", "@\u200b") + "\n"


def headline(pair: Pair, plan: Preregistration | None) -> str:
    """What came out at the largest rung of a ladder, in a sentence; a negative result is called one."""
    top = pair.rungs[-1]
    seeds = f"{top.candidate.seeds} and {top.baseline.seeds} seeds"
    where = f"at {top.rung} ({seeds})"
    figures = f"{top.difference:+.4f} bits per byte, speedup {ratio(top.speedup)}"
    match top.verdict:
        case RungWord.BETTER:
            text = f"**{pair.candidate} is better than {pair.baseline}** {where}: {figures}."
            if plan is not None and top.speedup.low is not None:
                enough = top.speedup.low >= 1 + plan.plan.smallest_gain
                text += (
                    f" That is {'' if enough else 'not shown to be '}the gain of {plan.plan.smallest_gain:.1%} or more "
                )
                text += "that was said to be worth having."
        case RungWord.WORSE:
            text = f"**A negative result: {pair.candidate} is worse than {pair.baseline}** {where}: {figures}."
        case _:
            text = f"**No evidence that {pair.candidate} differs from {pair.baseline}** {where}: {figures}."
            settle = top.seeds_to_settle
            text += f" {settle} seeds of each would settle it." if settle else ""
    return text + (" The micro rungs claim nothing about scale." if pair.ladder == "micro" else "")


def reports_of_change(project: Project, change: Change) -> dict[str, str]:
    """Comments by file name, ``ISSUE-NAME.md``, for candidates whose records changed and whose issue is known."""
    comments = {}
    for name in sorted(change.names):
        touched = any(path.startswith(f"results/{name}/") for path in change.paths)
        plan = read_preregistration(preregistration_path(project.root, name))
        if touched and plan is not None and plan.issue is not None and runs_of(project, name):
            comments[f"{plan.issue}-{name}.md"] = issue_report(project, name)
    return comments


def _pairs(project: Project, name: str) -> list[Pair]:
    try:
        return report(project, [name], None).steps
    except SpeedrunError:
        return []  # said where the comparison would stand


def _promised(plan: Preregistration | None, runs: Mapping[str, Sequence[RunInfo]]) -> str:
    if plan is None:
        return "It was not preregistered."
    states = [f"{rung}: {plan.status(infos[0])}" for rung, infos in runs.items()]
    missing = [rung for rung in plan.plan.rungs if rung not in runs]
    text = f"Registered {plan.plan.registered}. {'; '.join(states)}."
    return text + (f" Promised and not there yet: {', '.join(missing)}." if missing else "")


def _losses(project: Project, name: str, baseline: str, runs: Mapping[str, Sequence[RunInfo]]) -> Sheet:
    """Training losses along the way, mean over seeds: the curve as a table."""
    columns = ("rung", "", *(f"{fraction:.0%} of steps" for fraction in SHOWN_OF_TRAINING))
    theirs = runs_of(project, baseline) if baseline != name else {}
    rows = []
    for rung, infos in runs.items():
        for who, each in ((name, infos), (baseline, theirs.get(rung, []))):
            curves = [curve for info in each if (curve := _curve(project, who, info))]
            if curves:
                rows.append((rung, who, *(f"{statistics.mean(at):.3f}" for at in zip(*curves, strict=True))))
    notes = ["Nats per token as trained, mean over a twentieth of the steps up to there and over seeds."]
    return Sheet("Training loss", columns, rows, (), notes)


def _curve(project: Project, name: str, info: RunInfo) -> list[float]:
    """Losses of one run at `SHOWN_OF_TRAINING`; empty where its step log cannot be read."""
    path: Path = project.results / name / info.rung / info.step_log.file
    try:
        rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        losses = [float(row["loss"]) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, EOFError):
        return []
    width = max(1, len(losses) // 20)
    ends = [max(1, round(fraction * len(losses))) for fraction in SHOWN_OF_TRAINING]
    return [statistics.mean(losses[max(0, end - width) : end]) for end in ends] if losses else []
