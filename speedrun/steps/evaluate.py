"""The evaluate step: load a finished checkpoint and score it by the harness's own protocol."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import jax
from fray.types import ResourceConfig
from haliax.partitioning import round_axis_for_partitioning
from levanter.checkpoint import latest_checkpoint_path, load_checkpoint
from levanter.models.lm_model import LmConfig, LmHeadModel
from levanter.tokenizers import load_tokenizer
from levanter.trainer import TrainerConfig
from levanter.utils.jax_utils import parameter_count
from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep, StepContext
from marin.execution.remote import remote
from marin.training.training import LevanterCheckpoint
from pydantic import BaseModel
from rigging.filesystem.factory import url_to_fs
from rigging.filesystem.storage_path import StoragePath, prefix_join

from speedrun.candidate import Recipe
from speedrun.cost.abstract import training_mesh
from speedrun.errors import SpeedrunError
from speedrun.evaluation.ledger import score_documents
from speedrun.identity import canonical, sha256_of_json
from speedrun.records.schema import PROTOCOL, Evaluation, Metric, utc_now
from speedrun.steps.corpus import read_documents
from speedrun.steps.data import RungData
from speedrun.steps.tokenizer import tokenizer_sha256
from speedrun.steps.train import with_local_tokenizer
from speedrun.steps.version import STEP_VERSION

EVALUATION_FILE = "evaluation.json"
PROGRESS_FILE = "progress.json"

Metrics = Sequence[Callable[[LmHeadModel], Metric]]
"""As ``Candidate.metrics``."""


@dataclass(frozen=True)
class EvaluateJob:
    """What the evaluate step runs."""

    train_path: str
    texts: str
    tokenizer: str
    model: LmConfig
    steps: int
    length: int
    vocab_size: int
    metrics: Metrics
    output_path: str
    resources: ResourceConfig


def evaluate_step(
    name: str,
    train: ArtifactStep[LevanterCheckpoint],
    recipe: Recipe,
    data: RungData,
    *,
    metrics: Metrics,
    resources: ResourceConfig,
) -> ArtifactStep[Artifact]:
    """The score of a finished run, as a step: leaves ``evaluation.json``.

    Args:
        metrics: measured on the same model. They stand in the step's name, so that others are measured anew.
    """
    measured = canonical(metrics)
    if metrics:
        name = f"{name}-{sha256_of_json(measured)[:8]}"

    def build_config(ctx: StepContext) -> EvaluateJob | dict[str, Any]:
        assert recipe.steps is not None
        if ctx.is_fingerprint:
            return {"protocol": PROTOCOL, "train": ctx.artifact_path(train), "model": canonical(recipe.model)}
        tokenizer = data.tokenizer_path(ctx)
        return EvaluateJob(
            train_path=ctx.artifact_path(train),
            texts=prefix_join(ctx.artifact_path(data.texts), data.texts_glob),
            tokenizer=tokenizer,
            model=with_local_tokenizer(recipe.model, tokenizer),
            steps=recipe.steps,
            length=recipe.sequence_length,
            vocab_size=data.vocab_size,
            metrics=metrics,
            output_path=ctx.output_path,
            resources=ctx.runtime_arg("resources"),
        )

    return ArtifactStep(
        name=name,
        version=STEP_VERSION,
        artifact_type=Artifact,
        run=_dispatch,
        build_config=build_config,
        deps=(train, *data.deps),
        runtime_args={"resources": resources},
    )


class Evaluated(BaseModel):
    """What the step leaves."""

    evaluation: Evaluation
    parameters: int
    """Of the model."""
    completed: str
    """When, in UTC."""
    metrics: list[Metric] = []


def read_evaluation(path: str) -> Evaluated:
    """What the evaluate step left at ``path``."""
    return Evaluated.model_validate_json(StoragePath(prefix_join(path, EVALUATION_FILE)).read_text())


def _dispatch(job: EvaluateJob) -> None:
    remote(_evaluate, resources=job.resources)(job)


def _evaluate(job: EvaluateJob) -> None:
    texts = [document["text"] for file in _expand(job.texts) for document in read_documents(file)]
    tokenizer = load_tokenizer(job.tokenizer)
    with_accelerator = job.resources.device.kind != "cpu"
    trainer = TrainerConfig(mesh=training_mesh(), require_accelerator=with_accelerator)
    with trainer.use_device_mesh(), hax.axis_mapping(trainer.parameter_axis_mapping):
        model = load_model(job, trainer, len(tokenizer))
        parameters = parameter_count(model)
        metrics = [measure(model) for measure in job.metrics]
        ledger = score_documents(
            model,
            texts,
            tokenizer,
            length=job.length,
            batch_size=batch_size(job.length, job.vocab_size),
            on_progress=_progress_writer(prefix_join(job.output_path, PROGRESS_FILE)),
        )
    evaluation = Evaluation(
        protocol=PROTOCOL,
        bits_per_byte=ledger.bits_per_byte,
        nats=float(ledger.nats.sum()),
        tokens=int(ledger.tokens.sum()),
        bytes=int(ledger.bytes.sum()),
        documents=ledger.documents,
        texts_sha256=ledger.texts_sha256,
        tokenizer_sha256=tokenizer_sha256(job.tokenizer),
    )
    done = Evaluated(evaluation=evaluation, parameters=int(parameters), completed=utc_now(), metrics=metrics)
    StoragePath(prefix_join(job.output_path, EVALUATION_FILE)).write_text(done.model_dump_json(indent=2))


def batch_size(length: int, vocab_size: int) -> int:
    """Windows at a time, so that their float32 logits take at most 256 MiB."""
    return max(1, 2**28 // (4 * length * vocab_size))


def load_model(job: EvaluateJob, trainer: TrainerConfig, vocab_size: int) -> LmHeadModel:
    """The trained model in float32, from the run's last checkpoint.

    Args:
        vocab_size: tokens of the tokenizer, by which Levanter sized the model. A small corpus of a user's own
            may not have pairs for as many as were asked for.

    Raises:
        SpeedrunError: when that checkpoint is not the one of the final step.
    """
    checkpoints = LevanterCheckpoint(path=job.train_path).checkpoint_dir
    checkpoint = latest_checkpoint_path(checkpoints)
    step = json.loads(StoragePath(prefix_join(checkpoint, "metadata.json")).read_text())["step"]
    if step != job.steps - 1:
        raise SpeedrunError(
            f"the last checkpoint in {checkpoints} is of step {step}, but the run has {job.steps} steps: "
            f"only a finished run is scored"
        )
    vocab = round_axis_for_partitioning(hax.Axis("vocab", vocab_size), trainer.parameter_axis_mapping)
    shape = eqx.filter_eval_shape(job.model.build, vocab, key=jax.random.PRNGKey(0))
    return load_checkpoint(
        shape, checkpoint, subpath="model", axis_mapping=trainer.parameter_axis_mapping, mesh=trainer.device_mesh
    )


def _expand(pattern: str) -> list[str]:
    """Files that match, in sorted order: the evaluation's order is part of its identity."""
    fs, path = url_to_fs(pattern, use_listings_cache=False)
    return sorted(fs.unstrip_protocol(file) if "://" in pattern else file for file in fs.glob(path))


def _progress_writer(path: str) -> Callable[[int, int], None]:
    def write(done: int, total: int) -> None:
        StoragePath(path).write_text(json.dumps({"done": done, "total": total}))

    return write
