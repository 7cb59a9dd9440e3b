"""The whole DAG of one run: corpus -> tokenizer -> tokenized sets -> train -> evaluate -> record."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fray.types import ResourceConfig, TpuConfig
from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep

from speedrun.candidate import Recipe
from speedrun.catalog import Loaded
from speedrun.cost.budget import charged_flops_per_token, with_steps
from speedrun.hardware import HardwareSpec
from speedrun.identity import recipe_fingerprint, run_key, sha256_of_json
from speedrun.ladder import Rung
from speedrun.project import Project
from speedrun.steps.data import RungData, rung_data
from speedrun.steps.evaluate import evaluate_step
from speedrun.steps.record import RunIdentity, record_digest, record_step
from speedrun.steps.train import TrainPlace, train_step

MICRO_CHECKPOINT_EVERY = timedelta(seconds=20)
CHECKPOINT_EVERY = timedelta(minutes=5)
"""Within half a per cent of the best for a gang that loses a machine every hour (speedrun/cost/preemption.py)."""
USER_LEVANTER_KEY = "eval/user/heldout/bpb"


@dataclass(frozen=True)
class RunDag:
    """The steps of one run, and who the run is."""

    identity: RunIdentity
    recipe: Recipe
    """With its steps filled in."""
    data: RungData
    train: ArtifactStep
    evaluate: ArtifactStep[Artifact]
    record: ArtifactStep[Artifact]
    flops_per_token: float
    """Model FLOPs of training per token, as the budget counts them."""
    resources: ResourceConfig
    """What training asks for."""

    def steps(self) -> list[tuple[str, ArtifactStep]]:
        """(label, step), each step once, in an order in which they can be built."""
        labels = {
            id(self.data.texts): "corpus",
            id(self.data.chosen): "chosen documents",
            id(self.data.tokenizer): "tokenizer",
            id(self.data.train): "training set",
            id(self.data.held_out): "held-out set",
            id(self.train): "train",
            id(self.evaluate): "evaluate",
            id(self.record): "record",
        }
        return [(labels.get(id(step), step.name), step) for step in _post_order(self.record)]


def build_dag(
    project: Project,
    loaded: Loaded,
    rung: Rung,
    seed: int,
    hardware: HardwareSpec,
    *,
    recipe: Recipe | None = None,
    overrides: Mapping[str, Any] | None = None,
    record_as: str | None = None,
    corpus: str | None = None,
    evaluation: str = "",
    only_scored: bool = False,
    checkpoint_every: timedelta | None = None,
    cpus_per_host: int | None = None,
) -> RunDag:
    """The DAG of one run of ``loaded`` at ``rung``. Nothing is built and no file is written.

    Args:
        recipe: takes the place of the candidate's own (an overridden one); ``overrides`` says what differs.
        record_as: name of the record; the candidate's own by default.
        corpus: a user's own files, instead of the rung's data.
        evaluation: name of an evaluation set, instead of the rung's.
        only_scored: score the run that was trained for the board on ``evaluation``, instead of training one for it.
        checkpoint_every: time between checkpoints; it does not change what is computed.
        cpus_per_host: CPUs to ask for on each host, instead of Marin's default.
    """
    recipe = loaded.recipe(rung) if recipe is None else recipe
    evaluation = "" if evaluation == rung.evaluation_data else evaluation
    make_data = functools.partial(
        rung_data,
        rung,
        recipe.training_data,
        tokenizer=recipe.tokenizer or None,
        downloads=project.work / "downloads",
        corpus=corpus,
    )
    data = make_data(evaluation=evaluation)
    levanter_key = USER_LEVANTER_KEY if corpus else f"eval/{evaluation}/bpb" if evaluation else rung.levanter_key
    trained_on, trained_key = (make_data(), rung.levanter_key) if only_scored else (data, levanter_key)
    flops_per_token = charged_flops_per_token(recipe, data.vocab_size)
    recipe = with_steps(recipe, rung, flops_per_token)
    fingerprint = sha256_of_json([recipe_fingerprint(recipe), [_address(step) for step in trained_on.deps]])
    run = {"rung": rung.name, "seed": seed, "hardware": str(hardware)}
    trained_where = f"{loaded.candidate.name}/{rung.name}/seed-{seed}-{run_key(fingerprint, **run)}"
    if only_scored:
        fingerprint = sha256_of_json([fingerprint, evaluation])
    key = run_key(fingerprint, **run)
    identity = RunIdentity(
        candidate=loaded.candidate,
        record_as=record_as or loaded.candidate.name,
        rung=rung,
        seed=seed,
        hardware=hardware,
        fingerprint=fingerprint,
        key=key,
        source_digest=loaded.source_digest,
        overrides=overrides or {},
        uses_own_corpus=corpus is not None,
        evaluation=evaluation,
    )
    where = f"{loaded.candidate.name}/{rung.name}/seed-{seed}-{key}"
    resources = resources_of(hardware, cpus_per_host)
    compilation_cache = f"{project.store}/compilation_cache"
    train = train_step(
        f"train/{trained_where}",
        recipe,
        trained_on,
        seed=seed,
        run_id=trained_where.replace("/", "-"),
        levanter_key=trained_key,
        place=TrainPlace(
            resources=resources,
            hardware=str(hardware),
            chips=hardware.chips,
            log_folder=project.work / "logs" / "levanter",
            checkpoint_every=checkpoint_every or (MICRO_CHECKPOINT_EVERY if rung.is_micro else CHECKPOINT_EVERY),
            compilation_cache=compilation_cache,
        ),
    )
    measured = tuple(loaded.candidate.metrics)
    scored = evaluate_step(
        f"evaluate/{where}",
        train,
        recipe,
        data,
        seed=seed,
        levanter_key=levanter_key,
        metrics=measured,
        resources=on_one_host(resources),
        compilation_cache=compilation_cache,
    )
    record = record_step(
        f"record/{where}-{record_digest(identity)[:8]}",
        identity,
        recipe,
        flops_per_token,
        data,
        train,
        scored,
        project_root=project.root,
    )
    return RunDag(identity, recipe, data, train, scored, record, flops_per_token, resources)


def resources_of(hardware: HardwareSpec, cpus_per_host: int | None = None) -> ResourceConfig:
    """What to ask of fray for ``hardware``.

    Args:
        cpus_per_host: Marin's default, where not given, is 1, and half the CPUs of a TPU host (104 on a v5p).
    """
    more = {} if cpus_per_host is None else {"cpu": cpus_per_host}
    match hardware.accelerator.family:
        case "gpu":
            per_host = hardware.chips // hardware.hosts
            return ResourceConfig.with_gpu(
                hardware.accelerator.name.upper(), count=per_host, replicas=hardware.hosts, **more
            )
        case "tpu":
            return ResourceConfig.with_tpu(str(hardware), **more)
        case _:
            return ResourceConfig.with_cpu(**more)


def on_one_host(resources: ResourceConfig) -> ResourceConfig:
    """``resources`` of one host where one can work alone: all but the hosts of a TPU slice."""
    return resources if isinstance(resources.device, TpuConfig) else dataclasses.replace(resources, replicas=1)


def _address(step: ArtifactStep) -> str:
    return f"{step.name}@{step.version}:{step.fingerprint()}"


def _post_order(step: ArtifactStep, seen: set[int] | None = None) -> Iterator[ArtifactStep]:
    seen = set() if seen is None else seen
    if id(step) in seen:
        return
    seen.add(id(step))
    for dep in step.deps:
        yield from _post_order(dep, seen)
    yield step
