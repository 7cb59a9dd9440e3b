"""The evaluate step: load a finished checkpoint, probe it, and score it by the harness's own protocol."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jmp
from fray.types import ResourceConfig
from haliax.partitioning import round_axis_for_partitioning
from levanter.checkpoint import latest_checkpoint_path, load_checkpoint
from levanter.data.text.datasets import LmDataConfig
from levanter.models.lm_model import LmConfig, LmHeadModel
from levanter.tokenizers import MarinTokenizer, load_tokenizer
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
from speedrun.evaluation.ledger import Ledger, first_token, score_documents
from speedrun.evaluation.levanter_bpb import levanter_figures
from speedrun.evaluation.nats import nats_function
from speedrun.evaluation.probes import check_probes, probe_model
from speedrun.evaluation.round_trip import check_tokenizer
from speedrun.identity import canonical, sha256_of_json
from speedrun.records.documents import documents_info, documents_text
from speedrun.records.schema import PROTOCOL, Evaluation, LevanterFigures, Metric, Probe, utc_now
from speedrun.steps.corpus import read_documents
from speedrun.steps.data import RungData
from speedrun.steps.tokenizer import tokenizer_sha256
from speedrun.steps.train import LEVANTER_EVALUATION_BATCH, data_config, with_local_tokenizer
from speedrun.steps.version import EVALUATION_VERSION

EVALUATION_FILE = "evaluation.json"
DOCUMENTS_FILE = "documents.json"
PROBES_FILE = "probes.json"
"""Stays behind also where a probe failed."""
PROGRESS_FILE = "progress.json"
PROBED_DOCUMENTS = 8
"""The longest documents, from which the probes take their text."""
TOKENS_AT_A_TIME = 8_192
"""Tokens that a device is given at a time: with a block of the vocabulary, a quarter of a gigabyte of logits."""

Metrics = Sequence[Callable[[LmHeadModel], Metric]]
"""As ``Candidate.metrics``."""


@dataclass(frozen=True)
class EvaluateJob:
    """What the evaluate step runs."""

    train_path: str
    seed: int
    texts: str
    packed: LmDataConfig
    """Holds the evaluation set as Levanter packs it."""
    tokenizer: str
    model: LmConfig
    precision: str
    steps: int
    length: int
    metrics: Metrics
    output_path: str
    resources: ResourceConfig
    compilation_cache: str


def evaluate_step(
    name: str,
    train: ArtifactStep[LevanterCheckpoint],
    recipe: Recipe,
    data: RungData,
    *,
    seed: int,
    levanter_key: str,
    metrics: Metrics,
    resources: ResourceConfig,
    compilation_cache: str,
) -> ArtifactStep[Artifact]:
    """The score of a finished run, as a step: leaves ``evaluation.json`` and ``documents.json``.

    Args:
        levanter_key: as for the train step.
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
            seed=seed,
            texts=prefix_join(ctx.artifact_path(data.texts), data.texts_glob),
            packed=data_config(ctx, data, levanter_key),
            tokenizer=tokenizer,
            model=with_local_tokenizer(recipe.model, tokenizer),
            precision=recipe.precision,
            steps=recipe.steps,
            length=recipe.sequence_length,
            metrics=metrics,
            output_path=ctx.output_path,
            resources=ctx.runtime_arg("resources"),
            compilation_cache=ctx.runtime_arg("compilation_cache"),
        )

    return ArtifactStep(
        name=name,
        version=EVALUATION_VERSION,
        artifact_type=Artifact,
        run=_dispatch,
        build_config=build_config,
        deps=(train, *data.deps),
        runtime_args={"resources": resources, "compilation_cache": compilation_cache},
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
    check_tokenizer(tokenizer, job.tokenizer)
    with_accelerator = job.resources.device.kind != "cpu"
    trainer = TrainerConfig(mesh=training_mesh(), require_accelerator=with_accelerator)
    # A dozen small programs are compiled, and the next seed's are the same.
    jax.config.update("jax_compilation_cache_dir", job.compilation_cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if not jax.distributed.is_initialized():
        trainer.distributed.initialize()
    with trainer.use_device_mesh(), hax.axis_mapping(trainer.parameter_axis_mapping):
        model = load_model(job, trainer, len(tokenizer))
        probes = _probe(job, trainer, model, tokenizer, texts)
        metrics = [measure(model) for measure in job.metrics]
        ledger = score_documents(
            model,
            texts,
            tokenizer,
            length=job.length,
            batch_size=max(1, TOKENS_AT_A_TIME // job.length) * jax.device_count(),
            mapping=trainer.compute_axis_mapping,
            on_progress=_progress_writer(prefix_join(job.output_path, PROGRESS_FILE)),
        )
        levanter = _levanter(job, trainer, model, tokenizer)
        parameters = int(parameter_count(model))
    documents = documents_text(ledger.by_document())
    evaluation = _evaluation(ledger, job, levanter, probes, documents)
    done = Evaluated(evaluation=evaluation, parameters=parameters, completed=utc_now(), metrics=metrics)
    _write(job, DOCUMENTS_FILE, documents)
    _write(job, EVALUATION_FILE, done.model_dump_json(indent=2).encode())


def _probe(
    job: EvaluateJob, trainer: TrainerConfig, model: LmHeadModel, tokenizer: MarinTokenizer, texts: Sequence[str]
) -> list[Probe]:
    """Raises ``ProbesFailed`` after writing down what was found."""
    if tokenizer.eos_token_id is None:
        raise SpeedrunError(f"the tokenizer {job.tokenizer} has no end-of-text token to tell packed documents apart by")
    probes = probe_model(
        nats_function(model, mapping=trainer.compute_axis_mapping),
        [tokenizer.encode(text, add_special_tokens=False) for text in sorted(texts, key=len)[-PROBED_DOCUMENTS:]],
        bos=first_token(tokenizer),
        end=tokenizer.eos_token_id,
        vocab_size=len(tokenizer),
        length=job.length,
    )
    _write(job, PROBES_FILE, json.dumps([probe.model_dump() for probe in probes], indent=2).encode())
    check_probes(probes)
    return probes


def _levanter(
    job: EvaluateJob, trainer: TrainerConfig, model: LmHeadModel, tokenizer: MarinTokenizer
) -> LevanterFigures:
    ((dataset, _),) = job.packed.tagged_eval_sets(job.model.max_Pos.resize(job.length))
    return levanter_figures(
        model,
        dataset,
        tokenizer,
        batch_size=LEVANTER_EVALUATION_BATCH,
        policy=jmp.get_policy(job.precision),
        mesh=trainer.device_mesh,
        mapping=trainer.compute_axis_mapping,
    )


def _evaluation(
    ledger: Ledger, job: EvaluateJob, levanter: LevanterFigures, probes: list[Probe], documents: bytes
) -> Evaluation:
    return Evaluation(
        protocol=PROTOCOL,
        bits_per_byte=ledger.bits_per_byte,
        nats=float(ledger.nats.sum()),
        tokens=int(ledger.tokens.sum()),
        bytes=int(ledger.bytes.sum()),
        documents=ledger.documents,
        texts_sha256=ledger.texts_sha256,
        tokenizer_sha256=tokenizer_sha256(job.tokenizer),
        end_of_text_bits_per_byte=ledger.end_of_text_bits_per_byte,
        levanter=levanter,
        probes=probes,
        documents_file=documents_info(job.seed, documents),
    )


def _write(job: EvaluateJob, name: str, content: bytes) -> None:
    """Of several hosts, all of which have the whole result, the first one writes."""
    if jax.process_index() == 0:
        StoragePath(prefix_join(job.output_path, name)).write_bytes(content)


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
        if jax.process_index() == 0:
            StoragePath(path).write_text(json.dumps({"done": done, "total": total}))

    return write
