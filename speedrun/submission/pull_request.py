"""The title and the text of a pull request, made from the tree that it brings. Nothing in it is typed by hand."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from speedrun.board.text import Link, Sheet, count, escape, markdown, percent, scientific, seconds
from speedrun.errors import SpeedrunError
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.attempts import ATTEMPTS_FILE, read_attempts
from speedrun.records.preregistrations import preregistration_path, read_preregistration
from speedrun.records.schema import RunInfo
from speedrun.records.store import RESULTS_FILE, read_results
from speedrun.submission.recipes import changes_markdown, recipe_changes, settings_of
from speedrun.submission.rule import Severity
from speedrun.submission.validate import Report

ENOUGH_SEEDS = 3


def runs_of(project: Project, name: str) -> dict[str, list[RunInfo]]:
    """The runs of a candidate by rung, in ladder order; rungs without a record are left out."""
    paths = {rung: project.results / name / rung / RESULTS_FILE for rung in LADDER}
    found = {rung: [run.run_info for run in read_results(path).runs] for rung, path in paths.items() if path.exists()}
    return {rung: infos for rung, infos in found.items() if infos}


def title_of(name: str, rungs: Sequence[str]) -> str:
    """``[Speedrun] NAME: 30m, 75m``."""
    return f"[Speedrun] {name}: {', '.join(rungs)}"


@dataclass(frozen=True)
class Gate:
    """What gate 1's result says of a record's source."""

    passed: bool
    text: str


def gate_one_of(check: Any, info: RunInfo, rungs: Sequence[str]) -> Gate:
    """Gate 1 by ``check.json``, which must be of the source on record and cover these rungs."""
    name = info.candidate
    if not isinstance(check, dict):
        return Gate(False, f"there is no result of gate 1: run `speedrun check {name}`")
    if check.get("source_digest") != info.source_digest and not info.overrides:
        return Gate(False, f"gate 1's result is of another text of the candidate: run `speedrun check {name}` again")
    listed = check.get("rungs")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    found = {row["rung"]: row for row in rows if isinstance(row.get("rung"), str)}
    missing = [rung for rung in rungs if rung not in found]
    if missing:
        return Gate(False, f"gate 1 has not been checked at {', '.join(missing)}: run `speedrun check {name}`")
    failed = [rung for rung in rungs if _failures(found[rung])]
    if failed:
        return Gate(False, f"gate 1 fails at {', '.join(failed)}: `speedrun check {name}` says why")
    return Gate(True, f"gate 1 passed at {', '.join(rungs)}")


def _failures(row: Mapping[str, Any]) -> bool:
    lines = row.get("lines")
    if not isinstance(lines, list) or not lines:
        return True
    return any(not isinstance(line, dict) or line.get("state") == "failed" for line in lines)


def body_of(project: Project, name: str, rungs: Sequence[str], report: Report, gate: Gate, dry_run: str) -> str:
    """The text, from the records in ``project``.

    Args:
        rungs: that the pull request brings.
        report: what validation found in the same tree.
        dry_run: the table of `speedrun dry-run --markdown`.
    """
    every = runs_of(project, name)
    runs = {rung: every[rung] for rung in rungs}
    first = next(iter(runs.values()))[0]
    parts = [
        f"## Hypothesis\n\n{escape(first.description)}",
        _preregistration(project, name, runs),
        _changes(project, name, first.baseline, runs),
        f"## Dry run\n\n{dry_run}",
        f"## Results\n\n{comparison_markdown(project, name, 3)}",
        _seeds(project, name, runs),
        "## Reproduce\n\n```\n" + "\n".join(f"speedrun reproduce {name} --rung {rung}" for rung in runs) + "\n```",
        _environment(runs),
        _checklist(project, name, runs, report, gate),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def comparison_markdown(project: Project, name: str, level: int) -> str:
    """Gates, scores with intervals and verdicts, as `speedrun compare --markdown` words them."""
    from speedrun.board.pair_sheets import report_sheets
    from speedrun.board.pairs import report

    try:
        return "\n".join(markdown(sheet, level) for sheet in report_sheets(report(project, [name], None)))
    except SpeedrunError as error:
        return f"No comparison: {escape(str(error))}\n"


def dry_run_markdown(project: Project, name: str, rungs: Sequence[str], hardware: str) -> str:
    """What `speedrun dry-run` says, in a process of its own: it imports the user's own candidate."""
    words = [word for rung in rungs for word in ("--rung", rung)]
    command = [sys.executable, "-m", "speedrun", "dry-run", name, *words, "--hardware", hardware, "--markdown"]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.stdout.strip():
        return done.stdout.strip()
    said = done.stderr.strip().splitlines() or ["it said nothing"]
    return f"Not available: {escape(said[-1].removeprefix('speedrun: '))}"


def _preregistration(project: Project, name: str, runs: Mapping[str, Sequence[RunInfo]]) -> str:
    found = read_preregistration(preregistration_path(project.root, name))
    if found is None:
        return "Not preregistered."
    where = f"Preregistered in #{found.issue}" if found.issue else "Preregistered"
    states = {rung: found.status(infos[0]) for rung, infos in runs.items()}
    listed = "; ".join(f"{rung}: {state}" for rung, state in states.items())
    return f"{where} on {found.plan.registered} (`preregistrations/{name}.md`). {listed}."


def _changes(project: Project, name: str, baseline: str, runs: Mapping[str, Sequence[RunInfo]]) -> str:
    if name == baseline:
        return "## What changed\n\nNothing: it is the baseline."
    theirs = runs_of(project, baseline)
    pairs = {r: (settings_of(theirs[r][0]), settings_of(infos[0])) for r, infos in runs.items() if r in theirs}
    if not pairs:
        return f"## What changed\n\n{baseline} has no record at these rungs to show the differences to."
    return changes_markdown(recipe_changes(pairs), baseline, name, f"What changed against {baseline}", 2)


def _seeds(project: Project, name: str, runs: Mapping[str, Sequence[RunInfo]]) -> str:
    columns = ("rung", "seed", "bits per byte", "Levanter's", "model FLOPs", "of budget", "tokens", "time", "on", "run")
    rows = [
        (
            rung,
            str(info.seed),
            f"{info.bits_per_byte:.4f}",
            _figure(info.micro_heldout_bpb if LADDER[rung].is_micro else info.paloma_c4_en_bpb),
            scientific(info.model_flops),
            percent(info.model_flops / info.budget_flops),
            count(info.total_tokens),
            seconds(info.training_time),
            str(info.resources.get("hardware")),
            Link("link", info.wandb_run_link) if info.wandb_run_link else "–",
        )
        for rung, infos in runs.items()
        for info in infos
    ]
    notes = []
    for rung in runs:
        attempts = read_attempts(project.results / name / rung / ATTEMPTS_FILE)
        recipes = len({attempt.start.recipe_fingerprint for attempt in attempts})
        finished = sum(attempt.how == "finished" for attempt in attempts)
        notes.append(f"{rung}: {len(attempts)} attempts on record, {finished} finished, {recipes} recipes tried.")
    return markdown(Sheet("Seeds and attempts", columns, rows, (), notes))


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _environment(runs: Mapping[str, Sequence[RunInfo]]) -> str:
    infos = [info for each in runs.values() for info in each]
    rows = []
    for package in sorted({package for info in infos for package in info.versions}):
        rows.append((package, ", ".join(sorted({info.versions.get(package, "–") for info in infos}))))
    rows.append(("hardware", ", ".join(sorted({str(info.resources.get("hardware")) for info in infos}))))
    commits = {(info.git_commit or "unknown")[:12] + (" (dirty)" if info.git_dirty else "") for info in infos}
    rows.append(("commit", ", ".join(sorted(commits))))
    return markdown(Sheet("Environment", ("", ""), rows))


def _checklist(project: Project, name: str, runs: Mapping[str, Sequence[RunInfo]], report: Report, gate: Gate) -> str:
    infos = [info for each in runs.values() for info in each]
    baseline = infos[0].baseline
    theirs = runs_of(project, baseline)
    plan = read_preregistration(preregistration_path(project.root, name))
    errors, warnings = len(report.errors), report.of(Severity.WARNING)
    unlike = [rung for rung in runs if rung not in theirs]
    items = [
        (errors == 0, f"`speedrun validate` finds nothing to refuse ({errors} errors, {len(warnings)} warnings)"),
        (gate.passed, gate.text),
        (all(len(each) >= ENOUGH_SEEDS for each in runs.values()), f"{ENOUGH_SEEDS} seeds or more at every rung"),
        (
            not unlike,
            f"{baseline} has records at the same rungs" + (f" (not at {', '.join(unlike)})" if unlike else ""),
        ),
        (
            plan is not None and all(plan.status(info) == "preregistered" for info in infos),
            "preregistered before the first run, and not changed since",
        ),
        (not any(info.git_dirty for info in infos), "recorded from a clean tree"),
    ]
    lines = [f"- [{'x' if holds else ' '}] {text}" for holds, text in items]
    lines += [f"- {escape(finding.path)}: {escape(finding.message)} (`{finding.rule}`)" for finding in warnings[:20]]
    return "## Checklist\n\nFilled in by checking.\n\n" + "\n".join(lines)
