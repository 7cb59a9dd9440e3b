"""The train step: a recipe with a seed becomes a Levanter run, through Marin's pod configuration."""

import dataclasses
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import jmp
from fray.types import ResourceConfig
from levanter.adaptor import NoAdaptorConfig
from levanter.checkpoint import discover_latest_checkpoint
from levanter.data.text.datasets import LmDataConfig
from levanter.main.train_lm import TrainLmConfig
from levanter.models.lm_model import LmConfig
from levanter.tokenizers import load_tokenizer
from levanter.tracker.tracker import TrackerConfig
from levanter.tracker.wandb import WandbConfig
from levanter.trainer import TrainerConfig
from marin.execution.lazy import ArtifactStep, StepContext
from marin.execution.remote import remote
from marin.experiment.data import mixture
from marin.training.training import (
    LevanterCheckpoint,
    TrainLmOnPodConfig,
    run_levanter_train_lm,
    temporary_checkpoint_base_path,
)

from speedrun.access import wandb_mode
from speedrun.candidate import Recipe
from speedrun.cost.abstract import training_mesh
from speedrun.errors import SpeedrunError
from speedrun.evaluation.round_trip import check_tokenizer
from speedrun.identity import canonical
from speedrun.records.steps import checkpoint_told, read_step_log
from speedrun.sources import MARIN_TOKENIZER
from speedrun.steps.data import RungData
from speedrun.steps.step_log import LoggedCheckpointerConfig, StepLogConfig, StepLogError
from speedrun.steps.version import STEP_VERSION

LEVANTER_EVALUATION_BATCH = 32
"""Sequences in a batch of Levanter's own evaluation. Its figure moves with this, so it is pinned."""


@dataclass(frozen=True)
class TrainPlace:
    """Where and how a run trains. Nothing here changes what is computed."""

    resources: ResourceConfig
    hardware: str
    chips: int
    log_folder: Path
    checkpoint_every: timedelta
    compilation_cache: str | None = None


@dataclass(frozen=True)
class TrainJob:
    """What the train step runs."""

    pod: TrainLmOnPodConfig
    steps: int
    name: str
    """What the job is called where it runs."""
    vocab_size: int | None
    """Ids that the recipe says its own tokenizer has; None where it uses the rung's."""


def train_step(
    name: str, recipe: Recipe, data: RungData, *, seed: int, run_id: str, levanter_key: str, place: TrainPlace
) -> ArtifactStep[LevanterCheckpoint]:
    """A training run as a step.

    Args:
        name: address of the run; it must tell this run from every other (``identity.run_key``).
        recipe: with its number of steps filled in.
        run_id: Levanter's and W&B's name for the run.
        levanter_key: the ``eval/.../bpb`` key under which Levanter is to log its own figure.
    """

    def build_config(ctx: StepContext) -> TrainJob | dict[str, Any]:
        assert recipe.steps is not None
        if ctx.is_fingerprint:
            return {"recipe": canonical(recipe), "seed": seed, "data": [ctx.artifact_path(dep) for dep in data.deps]}
        where: TrainPlace = ctx.runtime_arg("place")
        trainer = trainer_config(recipe, where, seed=seed, run_id=run_id, output_path=ctx.output_path)
        levanter_config = TrainLmConfig(
            data=data_config(ctx, data, levanter_key),
            trainer=trainer,
            model=with_local_tokenizer(recipe.model, data.tokenizer_path(ctx)),
            optimizer=recipe.optimizer,
            z_loss_weight=recipe.z_loss_weight,
            train_seq_len=recipe.sequence_length,
            hf_save_steps=None,  # type: ignore[arg-type]  # no export to Hugging Face's format
            adapter=NoAdaptorConfig(),
        )
        pod = TrainLmOnPodConfig(levanter_config, where.resources, ctx.output_path)
        said = recipe.tokenizer.vocab_size if recipe.tokenizer else None
        return TrainJob(pod, recipe.steps, f"train-{run_id}", said)

    return ArtifactStep(
        name=name,
        version=STEP_VERSION,
        artifact_type=LevanterCheckpoint,
        run=_dispatch,
        build_config=build_config,
        deps=data.deps,
        runtime_args={"place": place},
    )


def trainer_config(recipe: Recipe, place: TrainPlace, *, seed: int, run_id: str, output_path: str) -> TrainerConfig:
    """How Levanter's trainer is set up for a run."""
    assert recipe.steps is not None
    return TrainerConfig(
        id=run_id,
        seed=seed,
        tracker=_trackers(output_path, run_id, place),
        mp=jmp.get_policy(recipe.precision),
        train_batch_size=recipe.batch_size if isinstance(recipe.batch_size, int) else list(recipe.batch_size),
        per_device_parallelism=-1,
        per_device_eval_parallelism=max(1, LEVANTER_EVALUATION_BATCH // place.chips),
        num_train_steps=recipe.steps,
        # Levanter evaluates once more at the end in any case; a score before that is not asked for.
        steps_per_eval=recipe.steps + 1,
        checkpointer=LoggedCheckpointerConfig(save_interval=place.checkpoint_every, keep=[]),
        mesh=training_mesh(),
        allow_nondivisible_batch_size=True,
        log_dir=place.log_folder,
        log_jaxprs=False,
        log_xla_hlo=False,
        jax_compilation_cache_dir=place.compilation_cache,
    )


def with_local_tokenizer(model: LmConfig, tokenizer: str) -> LmConfig:
    """``model`` with its converter pointed at ``tokenizer``, so that building it asks no model hub."""
    names = {field.name for field in dataclasses.fields(model)}
    changes: dict[str, Any] = {name: tokenizer for name in ("tokenizer", "reference_checkpoint") if name in names}
    return dataclasses.replace(model, **changes)


def _dispatch(job: TrainJob) -> None:
    """Submit the training job to whichever engine is in charge, and wait for it."""
    remote(_train, resources=job.pod.resources, name=job.name)(job)
    assert job.pod.output_path is not None
    missing = read_step_log(job.pod.output_path).missing(job.steps)
    if missing:
        raise SpeedrunError(
            f"the step log lacks {len(missing)} of {job.steps} steps (first: {missing[0]}), so the run's times "
            f"would be wrong. Remove {job.pod.output_path} and run the same command again."
        )


def _train(job: TrainJob) -> None:
    assert job.pod.output_path is not None
    _refuse_to_begin_again(job.pod.output_path)
    path = job.pod.train_config.data.tokenizer
    tokenizer = load_tokenizer(path)
    check_tokenizer(tokenizer, path)
    if job.vocab_size is not None and len(tokenizer) != job.vocab_size:
        raise SpeedrunError(
            f"the recipe says that its tokenizer has {job.vocab_size:,} ids, and {path} has {len(tokenizer):,}: its "
            "FLOPs would be counted wrong. Say Tokenizer("
            f"vocab_size={len(tokenizer)}, ...)"
        )
    try:
        run_levanter_train_lm(job.pod)
    except StepLogError as error:
        raise SpeedrunError(str(error)) from error


def _refuse_to_begin_again(output_path: str) -> None:
    """Levanter begins at step 0 when it finds no checkpoint, whatever has been trained before.

    Raises:
        SpeedrunError: when the step log tells of a checkpoint and there is none.
    """
    told = checkpoint_told(read_step_log(output_path))
    if told is None:
        return
    permanent = LevanterCheckpoint(path=output_path).checkpoint_dir
    if discover_latest_checkpoint(permanent, temporary_checkpoint_base_path(output_path)) is None:
        raise SpeedrunError(
            f"{told}, but there is no checkpoint in {permanent}. Bring it back, or see that this machine sees the "
            f"same storage; to train the run again from step 0, remove {output_path}"
        )


def _trackers(output_path: str, run_id: str, place: TrainPlace) -> tuple[TrackerConfig, ...]:
    about: dict[str, Any] = {
        "hardware": place.hardware,
        "chips": place.chips,
        "checkpoint_every": place.checkpoint_every.total_seconds(),
    }
    step_log = StepLogConfig(output_path=output_path, about=about)
    mode = wandb_mode()
    if mode == "disabled":
        return (step_log,)
    project = os.environ.get("WANDB_PROJECT", "marin-speedrun")
    return (step_log, WandbConfig(project=project, name=run_id, mode=mode, save_code=False))


def data_config(ctx: StepContext, data: RungData, levanter_key: str) -> LmDataConfig:
    """Marin's mixture, with the held-out part under the name from which Levanter makes its metric's key."""
    config = mixture(ctx, {}, validation=[data.held_out])
    name = levanter_key.removeprefix("eval/").removesuffix("/bpb")
    training = {step.name: (ctx.resolved(step), weight) for step, weight in data.weights.items()}
    same = {config.tokenizer, *([MARIN_TOKENIZER.repo_id] if data.tokenizer.name == MARIN_TOKENIZER.step else [])}
    for step, (cache, _) in training.items():
        if cache.tokenizer not in same:
            raise SpeedrunError(
                f"{step} was made with the tokenizer {cache.tokenizer}, and this run has another: a mixture's token "
                "sets share one. Give its documents instead, which are tokenized here"
            )
    return dataclasses.replace(
        config,
        components={
            **{step: cache.as_component() for step, (cache, _) in training.items()},
            name: config.components[data.held_out.name],
        },
        train_weights={**{step: weight for step, (_, weight) in training.items()}, name: 0.0},
    )
