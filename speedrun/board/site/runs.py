"""A page for each run: the loss curve, the facts, the configuration, and its difference from any other run's."""

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from speedrun.board.model import ArmRow, CandidateInfo, Figure
from speedrun.board.records import FLAGS, Record
from speedrun.board.text import bits, count, percent, plain, safe_target, scientific, seconds
from speedrun.cost.conventions import recorded_optimizer_share
from speedrun.project import Project
from speedrun.records.schema import Contamination, Metric, RunInfo

CURVE_POINTS = 300
"""Points of a loss curve that are drawn."""
LOG_BYTES = 200_000_000
"""A step log may not unpack to more."""
Facts = list[tuple[str, list[tuple[str, str, str]]]]
"""Headed groups of (label, text, link)."""


def run_facts(record: Record, arm: ArmRow, about: CandidateInfo | None) -> Facts:
    """What stands on a run's page, group by group."""
    info, evaluation = record.info, record.info.evaluation
    result = [
        ("bits per byte (the score)", bits(Figure(value=info.bits_per_byte)), ""),
        ("Levanter's own figure", _number(_levanter(record)), ""),
        (
            "model FLOPs",
            f"{scientific(info.model_flops)}, {percent(info.model_flops / info.budget_flops)} of budget",
            "",
        ),
        ("forward FLOPs per token", scientific(info.model_flops_per_token), ""),
        ("hardware FLOPs", scientific(info.training_hardware_flops), ""),
        ("MFU", percent(info.mfu), ""),
        ("optimizer's share of all FLOPs", percent(recorded_optimizer_share(info)), ""),
        ("parameters", f"{info.model_size:,}", ""),
        ("parameters that a token passes through", _whole(info.active_parameters), ""),
        ("parameters without embeddings", _whole(info.non_embedding_parameters), ""),
        ("tokens trained on", count(info.total_tokens), ""),
        ("training time", seconds(info.training_time), ""),
        ("of which compilation", seconds(info.compile_time), ""),
        ("all time spent", seconds(info.spent_time), ""),
        ("hardware", ", ".join(sorted({plain(each.hardware) for each in info.attempts})), ""),
    ]
    ledger = [
        ("protocol", str(evaluation.protocol), ""),
        ("nats", f"{evaluation.nats:,.2f}", ""),
        ("tokens scored", f"{evaluation.tokens:,}", ""),
        ("UTF-8 bytes", f"{evaluation.bytes:,}", ""),
        ("documents", f"{evaluation.documents:,}", ""),
        ("SHA-256 of the texts", plain(evaluation.texts_sha256, 64), ""),
        ("SHA-256 of the tokenizer", plain(evaluation.tokenizer_sha256, 64), ""),
    ]
    provenance = [
        ("authors", _authors(record), safe_target(info.author.url)),
        ("completed", plain(info.run_completion_timestamp), ""),
        ("commit", f"{plain(info.git_commit or '–')}{' (with changes)' if info.git_dirty else ''}", ""),
        ("source digest", plain(info.source_digest, 64), ""),
        ("recipe fingerprint", plain(info.recipe_fingerprint, 64), ""),
        ("run key", plain(info.run_key), ""),
        ("attempts", str(len(info.attempts)), ""),
        ("record", record.path, ""),
        ("pull request", f"#{arm.pull_request}" if arm.pull_request else "–", safe_target(arm.pull_request_url)),
        ("run link", plain(info.wandb_run_link or "–", 200), safe_target(info.wandb_run_link or "")),
        *((f"version of {plain(name)}", plain(version), "") for name, version in sorted(info.versions.items())),
    ]
    groups: Facts = [("Result", result), ("The score's ledger", ledger), ("Gate 1", _gate(about))]
    groups.append(("Probes of the finished model", _probes(info)))
    if info.metrics:
        groups.append(("Measured beside the score", [_metric(metric) for metric in info.metrics]))
    groups.append(("Evaluation text in the training data", _contamination(info.contamination)))
    groups.append(("Provenance", provenance))
    if record.flags:
        groups.insert(0, ("Not ranked", [(flag.replace("_", " "), FLAGS[flag], "") for flag in record.flags]))
    return groups


def _levanter(record: Record) -> float | None:
    info = record.info
    return info.paloma_c4_en_bpb if info.paloma_c4_en_bpb is not None else info.micro_heldout_bpb


def _authors(record: Record) -> str:
    return plain(
        ", ".join(f"{a.name} ({a.affiliation})" if a.affiliation else a.name for a in record.info.authors), 200
    )


def _whole(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _metric(metric: Metric) -> tuple[str, str, str]:
    return plain(metric.name), plain(f"{metric.value:g} {metric.unit}. {metric.meaning}", 300), ""


def _probes(info: RunInfo) -> list[tuple[str, str, str]]:
    if not info.evaluation.probes:
        return [("asked", "no: the record is older than the probes", "")]
    return [
        (plain(probe.name), f"{'passed' if probe.passed else 'failed'}: {probe.value:.3g}, limit {probe.limit:g}", "")
        for probe in info.evaluation.probes
    ]


def _contamination(found: Contamination | None) -> list[tuple[str, str, str]]:
    if found is None:
        return [("counted", "no: the raw training texts are not at hand, or the record is older than the count", "")]
    return [
        ("evaluation documents", f"{found.evaluation_documents:,}", ""),
        ("that share a run of 13 words", f"{found.evaluation_ngram:,}", ""),
        ("that stand there whole", f"{found.evaluation_exact:,}", ""),
        ("copied, whole or by 70 % of their runs", f"{found.evaluation_copied:,}", ""),
        ("contaminated (above 1 %)", "yes" if found.contaminated else "no", ""),
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _gate(about: CandidateInfo | None) -> list[tuple[str, str, str]]:
    if about is None or about.gate_one is None:
        return [("speedrun check", "not run yet", "")]
    gate = about.gate_one
    rows = [("speedrun check", "passed" if gate.passed else "failed", ""), ("at", ", ".join(gate.rungs), "")]
    return rows + [("fault", plain(problem, 300), "") for problem in gate.problems]


def configuration(record: Record) -> dict[str, str]:
    """The recipe as recorded, one line a field, in dotted form."""
    info = record.info
    parts = {"model": info.model_configuration, "recipe": info.train_config, "overrides": info.overrides}
    return {
        plain(key, 200): plain(value, 300) for part, content in parts.items() for key, value in _flat(part, content)
    }


def _flat(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value and depth < 8:
        for key, item in value.items():
            yield from _flat(f"{name}.{key}", item, depth + 1)
    elif value is not None and value != {}:
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)[:400]


def loss_curve(project: Project, record: Record) -> dict[str, list[float]]:
    """Training loss over tokens and steps, thinned; empty where the step log cannot be read."""
    folder = (project.root / record.path).parent
    try:
        rows = _read_log(folder / f"steps-{record.info.seed}.jsonl.gz")
        every = math.ceil(len(rows) / CURVE_POINTS) or 1
        kept = [row for at, row in enumerate(rows) if at % every == 0 or at == len(rows) - 1]
        return {
            "step": [int(row["step"]) for row in kept],
            "tokens": [int(row["tokens"]) for row in kept],
            "loss": [round(float(row["loss"]), 4) for row in kept],
        }
    except (OSError, zlib.error, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {"step": [], "tokens": [], "loss": []}


def _read_log(path: Path) -> list[dict[str, Any]]:
    text = zlib.decompressobj(wbits=31).decompress(path.read_bytes(), LOG_BYTES)  # of a gzip file
    # One document instead of one a line: ten times as fast.
    rows = json.loads(b"[" + b",".join(text.splitlines()) + b"]")
    return [row for row in rows if isinstance(row, dict) and math.isfinite(row["loss"])]
