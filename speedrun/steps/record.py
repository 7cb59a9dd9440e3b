"""The record step: what a finished, evaluated run says of itself, as data.

Everything in it is taken from the run's own artifacts (step log, evaluation, corpus) and from its recipe,
so that making it again gives the same record.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep, StepContext
from marin.training.training import LevanterCheckpoint
from rigging.filesystem.storage_path import StoragePath, prefix_join

from speedrun.candidate import Candidate, Recipe
from speedrun.cost.budget import model_flops, tokens_trained
from speedrun.errors import SpeedrunError
from speedrun.evaluation.contamination import count_contamination
from speedrun.hardware import HardwareSpec, hardware_flops, parse_hardware
from speedrun.identity import canonical, computing_versions, sha256_of_json
from speedrun.ladder import Rung
from speedrun.records.schema import AttemptInfo, AuthorInfo, Contamination, RunInfo
from speedrun.records.steps import StepLog, read_step_log
from speedrun.records.store import step_log_info, step_log_text
from speedrun.steps.corpus import read_documents
from speedrun.steps.data import RungData
from speedrun.steps.evaluate import DOCUMENTS_FILE, read_evaluation
from speedrun.steps.flops import count_recipe
from speedrun.steps.hub import source_on_record
from speedrun.steps.version import EVALUATION_VERSION

RUN_INFO_FILE = "run_info.json"
STEP_LOG_FILE = "steps.jsonl"


@dataclass(frozen=True)
class RunIdentity:
    """Which run this is; see ``speedrun.identity``."""

    candidate: Candidate
    record_as: str
    """Name under which the record stands; the candidate's own unless its recipe was overridden."""
    rung: Rung
    seed: int
    hardware: HardwareSpec
    fingerprint: str
    key: str
    source_digest: str
    overrides: Mapping[str, Any]
    uses_own_corpus: bool
    evaluation: str = ""
    """Name of the set that took the place of the rung's evaluation."""

    @property
    def is_off_board(self) -> bool:
        """Whether it is a trial on other data than the rung's, which no record in results/ may be."""
        return self.uses_own_corpus or bool(self.evaluation)


@dataclass(frozen=True)
class RecordJob:
    """What the record step runs."""

    train_path: str
    evaluation_path: str
    corpus_path: str | None
    """Where counts of the training documents lie, if their text is at hand."""
    parts: Sequence[tuple[str, float, str | None]]
    """(name, weight, where its counts lie) of each part of a mixture."""
    training_texts: Sequence[str]
    """Files of all training documents; empty where they are not all at hand, or are too many to read here."""
    texts: str
    """The evaluation's documents."""
    sources: Mapping[str, str]
    """Where what came from the model hub lies, by its name."""
    output_path: str
    project_root: Path


def record_step(
    name: str,
    identity: RunIdentity,
    recipe: Recipe,
    flops_per_token: float,
    data: RungData,
    train: ArtifactStep[LevanterCheckpoint],
    evaluation: ArtifactStep[Artifact],
    *,
    project_root: Path,
) -> ArtifactStep[Artifact]:
    """The record of one run, as a step: leaves ``run_info.json``, ``steps.jsonl`` and ``documents.json``.

    Args:
        flops_per_token: forward, by the budget's meter.
    """
    is_small = identity.rung.is_micro or identity.uses_own_corpus
    # A mixture's parts tell of themselves; beside them stands the corpus that they are drawn from.
    counted = data.chosen or (data.texts if is_small else None)
    trained = [part.documents for part in data.mixture] or [counted]

    def build_config(ctx: StepContext) -> RecordJob | dict[str, Any]:
        if ctx.is_fingerprint:
            return {"evaluation": ctx.artifact_path(evaluation), "says": record_digest(identity)}
        return RecordJob(
            train_path=ctx.artifact_path(train),
            evaluation_path=ctx.artifact_path(evaluation),
            corpus_path=ctx.artifact_path(counted) if counted is not None else None,
            parts=[
                (part.name, part.weight, ctx.artifact_path(part.documents) if part.documents is not None else None)
                for part in data.mixture
            ],
            training_texts=[
                prefix_join(ctx.artifact_path(step), "train.jsonl.gz") for step in trained if step is not None
            ]
            if is_small and None not in trained
            else [],
            texts=prefix_join(ctx.artifact_path(data.texts), data.texts_glob),
            sources={source.name: ctx.artifact_path(step) for source, step in data.sources},
            output_path=ctx.output_path,
            project_root=project_root,
        )

    def run(job: RecordJob) -> None:
        log = read_step_log(job.train_path)
        text = step_log_text(log.lines())
        info = _run_info(job, identity, recipe, flops_per_token, data, log, text)
        StoragePath(prefix_join(job.output_path, STEP_LOG_FILE)).write_bytes(text)
        documents = StoragePath(prefix_join(job.evaluation_path, DOCUMENTS_FILE)).read_bytes()
        StoragePath(prefix_join(job.output_path, DOCUMENTS_FILE)).write_bytes(documents)
        content = json.dumps(info.model_dump(by_alias=True, mode="json"), indent=2, sort_keys=True)
        StoragePath(prefix_join(job.output_path, RUN_INFO_FILE)).write_text(content)

    return ArtifactStep(
        name=name,
        version=EVALUATION_VERSION,
        artifact_type=Artifact,
        run=run,
        build_config=build_config,
        deps=tuple(dict.fromkeys((train, evaluation, *data.deps, *(step for _, step in data.sources)))),
    )


def record_digest(identity: RunIdentity) -> str:
    """Digest of what a record says beyond what was computed: a change makes the record anew, not the run."""
    candidate = identity.candidate
    authors = [asdict(author) for author in candidate.authors]
    said = [identity.record_as, authors, candidate.hypothesis, candidate.baseline, identity.source_digest]
    return sha256_of_json([*said, dict(identity.overrides)])


def read_record(path: str) -> tuple[RunInfo, bytes, bytes]:
    """(what the record step at ``path`` wrote, its step log's text, its documents' rows as text)."""
    info = RunInfo.model_validate_json(StoragePath(prefix_join(path, RUN_INFO_FILE)).read_text())
    log, documents = (StoragePath(prefix_join(path, name)).read_bytes() for name in (STEP_LOG_FILE, DOCUMENTS_FILE))
    return info, log, documents


def _run_info(
    job: RecordJob,
    identity: RunIdentity,
    recipe: Recipe,
    flops_per_token: float,
    data: RungData,
    log: StepLog,
    log_text: bytes,
) -> RunInfo:
    assert recipe.steps is not None
    missing = log.missing(recipe.steps)
    if missing:
        raise SpeedrunError(f"the step log in {job.train_path} lacks step {missing[0]}: its times would be wrong")
    evaluated = read_evaluation(job.evaluation_path)
    evaluation = evaluated.evaluation
    candidate, spec = identity.candidate, identity.hardware
    authors = [AuthorInfo(**asdict(author)) for author in candidate.authors]
    tokens = tokens_trained(recipe, recipe.steps)
    flops = model_flops(recipe, flops_per_token, recipe.steps)
    peak = spec.accelerator.peak_flops_per_second
    commit, dirty = git_state(job.project_root)
    model_settings, train_settings = settings_on_record(recipe)
    counted = count_recipe(recipe, data.vocab_size)
    return RunInfo(
        model_configuration=model_settings,
        paloma_c4_en_bpb=log.evaluated.get("eval/paloma/c4_en/bpb"),
        c4_en_proxy_bpb=log.evaluated.get("eval/c4_en_proxy/bpb"),
        micro_heldout_bpb=log.evaluated.get("eval/micro/heldout/bpb"),
        author=authors[0],
        authors=authors,
        description=candidate.hypothesis,
        model_size=evaluated.parameters,
        total_tokens=tokens,
        model_flops=flops,
        model_flops_per_token=flops_per_token,
        num_devices=spec.chips,
        num_chips=spec.chips,
        device_flops=peak,
        training_time=log.training_seconds,
        training_hardware_flops=_hardware_flops(log),
        run_completion_timestamp=evaluated.completed,
        wandb_run_link=log.wandb_link,
        train_config=train_settings,
        tokenized_dataset=data.train.name,
        resources={"hardware": str(spec), "accelerator": spec.accelerator.name, "hosts": spec.hosts},
        candidate=identity.record_as,
        rung=identity.rung.name,
        seed=identity.seed,
        bits_per_byte=evaluation.bits_per_byte,
        evaluation=evaluation,
        baseline=candidate.baseline,
        overrides=dict(identity.overrides),
        budget_flops=identity.rung.budget_flops,
        flops=counted.flops,
        non_embedding_parameters=counted.non_embedding_parameters,
        active_parameters=counted.active_parameters,
        metrics=evaluated.metrics,
        tokens_per_second=tokens / log.steady_seconds if log.steady_seconds else None,
        mfu=flops / (log.steady_seconds * spec.chips * peak) if peak and log.steady_seconds else None,
        compile_time=log.compile_seconds,
        steady_time=log.steady_seconds,
        spent_time=log.spent_seconds,
        attempts=[
            AttemptInfo(
                number=attempt.number,
                started=attempt.started,
                hardware=attempt.hardware,
                num_chips=attempt.chips,
                seconds=attempt.seconds,
                first_step=attempt.first_step,
                last_step=attempt.last_step,
                wall_seconds=attempt.wall_seconds,
                lost_steps=attempt.lost_steps,
                cause=attempt.cause,
                others_cpu_share=attempt.others_cpu_share,
            )
            for attempt in log.attempts
        ],
        step_log=step_log_info(identity.seed, log_text, steps=len(log.steps), complete=not missing),
        source_digest=identity.source_digest,
        recipe_fingerprint=identity.fingerprint,
        run_key=identity.key,
        git_commit=commit,
        git_dirty=dirty,
        versions=computing_versions(),
        training_data=_corpus_summary(job, data),
        contamination=_contamination(job),
        corpus="user" if identity.uses_own_corpus else "rung",
        evaluation_data=identity.evaluation,
    )


def _hardware_flops(log: StepLog) -> float | None:
    """Step seconds x chips x peak, summed over attempts, each with its own hardware; each step once."""
    total = 0.0
    for attempt in log.attempts:
        (spec,) = parse_hardware(attempt.hardware)
        flops = hardware_flops(sum(step.seconds for step in log.steps if step.attempt == attempt.number), spec)
        if flops is None:
            return None
        total += flops
    return total


def _corpus_summary(job: RecordJob, data: RungData) -> dict[str, Any]:
    """What the training data are: counts and hashes of documents, parts of a mixture, commits of the hub."""
    summary: dict[str, Any] = {"name": data.name}
    if job.sources:
        summary["sources"] = {name: source_on_record(path) for name, path in job.sources.items()}
    if job.parts:
        summary["mixture"] = [{"name": name, "weight": weight, **_counts(path)} for name, weight, path in job.parts]
    return summary | _counts(job.corpus_path)


def _counts(path: str | None) -> dict[str, Any]:
    """What the step at ``path`` counted of its documents."""
    return {} if path is None else json.loads(StoragePath(prefix_join(path, "corpus.json")).read_text())


def _contamination(job: RecordJob) -> Contamination | None:
    """Of the training documents where their raw text is at hand: pretokenized data have none."""
    if not job.training_texts:
        return None
    training = (item["text"] for file in job.training_texts for item in read_documents(file))
    return count_contamination(training, (item["text"] for item in read_documents(job.texts)))


def settings_on_record(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Any]]:
    """(``model_config``, ``train_config``) as a record of ``recipe`` holds them."""
    plain = _plain(recipe)
    return plain.pop("model"), plain


def _plain(value: Any) -> Any:
    """A configuration as people read it: nested fields under their names, with the type beside them."""
    described = canonical(value)

    def simplify(item: Any) -> Any:
        match item:
            case {"fields": fields, "type": name}:
                return {"type": name, **{key: simplify(field) for key, field in fields.items()}}
            case {"enum": _, "name": name}:
                return name
            case {"map": pairs}:
                return {str(simplify(key)): simplify(entry) for key, entry in pairs}
            case dict():
                return {key: simplify(entry) for key, entry in item.items()}
            case list():
                return [simplify(entry) for entry in item]
        return item

    return simplify(described)


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """(commit, whether tracked files but those in results/ differ from it); (None, None) outside a repository."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None or not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        return None, None
    # What runs write, such as this one's line in attempts.jsonl, is no change of what is run.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
    return commit, bool(changed) if changed is not None else None
