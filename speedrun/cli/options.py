"""What several commands take: which runs are meant, and how their DAGs are made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from speedrun.engines.engine import ENGINES, EngineName, engine_found
from speedrun.errors import SpeedrunError, UnknownNameError

if TYPE_CHECKING:
    from speedrun.ladder import Rung
    from speedrun.project import Project
    from speedrun.steps.dag import RunDag

FIRST_SEED = 42


@dataclass(frozen=True)
class Asked:
    """Which runs a command line asks for."""

    name: str
    rungs: Sequence[str]
    seeds: Sequence[int]
    hardware: str | None
    corpus: str | None
    record_as: str | None
    overrides: dict[str, Any]
    checkpoint_every: float | None = None
    """Seconds."""
    cpus_per_host: int | None = None
    """CPUs to ask a cluster for; Marin's default if None."""
    evaluation: str = ""
    """Name of an evaluation set that takes the place of the rung's; empty for the rung's own."""
    only_scored: bool = False
    """Whether ``evaluation`` scores a run that was trained for the board, instead of one that is trained for it."""
    with_baseline: bool = False
    """Whether the candidate's baseline is run beside it, where it has no record."""

    @property
    def is_scratch(self) -> bool:
        """Whether the record stays in the work folder: an overridden recipe, or other data than the rung's."""
        return (bool(self.overrides) or self.is_off_board) and self.record_as is None

    @property
    def is_off_board(self) -> bool:
        """Whether other data than the rung's are asked for: such a run is never recorded in results/."""
        return self.corpus is not None or bool(self.evaluation)


def run_options(function: Callable[..., None]) -> Callable[..., None]:
    """Click options that say which runs are meant; fields of the recipe may follow as ``--a.b value``."""
    for option in (
        click.argument("overrides", nargs=-1, type=click.UNPROCESSED, metavar="[--FIELD VALUE]..."),
        click.argument("name"),
        click.option("--rung", "rungs", multiple=True, help="Rung to run; may be repeated."),
        click.option("--seeds", default=1, show_default=True, help="How many seeds: 42, 43, ..."),
        click.option("--seed", "only_seed", type=int, help="Just this seed, instead of --seeds."),
        click.option("--hardware", help="What it runs on, such as cpu, h100x8 or v5p-8. Found out by default."),
        click.option("--corpus", help="A folder, glob or URL of your own text, instead of the rung's data (a trial)."),
        click.option(
            "--evaluation", help="Score on this set instead of the rung's (a trial), such as c4_en_proxy or paloma_ptb."
        ),
        click.option("--config", "config", type=click.Path(path_type=Path), help="YAML file with recipe fields."),
        click.option("--checkpoint-every", type=float, help="Seconds between checkpoints. [micro: 20, else 300]"),
        click.option(
            "--cpus-per-host", type=click.IntRange(min=1), help="CPUs to ask for. [1; on a TPU host half of them]"
        ),
        click.option("--record-as", help="Record an overridden run in results/ under this name."),
    ):
        function = option(function)
    return function


def engine_options(function: Callable[..., None]) -> Callable[..., None]:
    """Click options that say where steps run."""
    for option in (
        click.option("--engine", type=click.Choice(ENGINES), help="Where steps run. [local; in a job of Iris, iris]"),
        click.option("--ray-address", help="Ray cluster to join. [RAY_ADDRESS; else a Ray on this machine]"),
    ):
        function = option(function)
    return function


@dataclass(frozen=True)
class EngineAsked:
    """Where steps are to run."""

    name: EngineName
    ray_address: str | None = None


def engine_asked(engine: EngineName | None, ray_address: str | None) -> EngineAsked:
    """The options of ``engine_options``, checked."""
    name = engine or engine_found()
    if ray_address is not None and name != "ray":
        raise SpeedrunError(f"--ray-address {ray_address} is for --engine ray, and the engine is {name}")
    return EngineAsked(name, ray_address)


RECIPE_FIELDS = {"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]}
"""Context settings of commands that take fields of the recipe."""


def asked(
    name: str,
    rungs: Sequence[str],
    seeds: int,
    only_seed: int | None,
    hardware: str | None,
    corpus: str | None,
    evaluation: str | None,
    config: Path | None,
    checkpoint_every: float | None,
    cpus_per_host: int | None,
    record_as: str | None,
    overrides: Sequence[str],
    ladder: str | None = None,
    with_baseline: bool = False,
) -> Asked:
    """The options of ``run_options``, checked, without importing anything heavy."""
    from speedrun.candidate import check_name
    from speedrun.ladder import LADDER, rungs_named
    from speedrun.overrides import parse_arguments, read_file

    if ladder is not None and rungs:
        raise SpeedrunError("--ladder and --rung exclude one another: choose one")
    if ladder is not None:
        rungs = [rung.name for rung in LADDER.values() if rung.ladder == ladder]
    if not rungs:
        raise SpeedrunError("say which rung: --rung NAME, such as --rung micro_1 (`speedrun list` shows them)")
    if seeds < 1:
        raise SpeedrunError(f"--seeds must be at least 1, got {seeds}")
    if checkpoint_every is not None and checkpoint_every <= 0:
        raise SpeedrunError(f"--checkpoint-every must be positive, got {checkpoint_every:g}")
    fields = (read_file(config) if config else {}) | parse_arguments(overrides)
    if record_as is not None:
        check_name(record_as)
        if corpus is not None:
            raise SpeedrunError("--corpus is for trials: its runs are never recorded in results/, so drop --record-as")
        if evaluation:
            raise SpeedrunError("--evaluation is for trials: its runs are never recorded in results/: drop --record-as")
        if not fields:
            raise SpeedrunError("--record-as names an overridden run, and no field of the recipe was set")
        if record_as == name:
            raise SpeedrunError(f"--record-as {name} would put another recipe under the candidate's own name")
    if evaluation is not None:
        _check_evaluation(evaluation, rungs_named(rungs), corpus)
    return Asked(
        name=name,
        rungs=[rung.name for rung in rungs_named(rungs)],
        seeds=[only_seed] if only_seed is not None else [FIRST_SEED + at for at in range(seeds)],
        hardware=hardware,
        corpus=corpus,
        record_as=record_as,
        overrides=fields,
        checkpoint_every=checkpoint_every,
        cpus_per_host=cpus_per_host,
        evaluation=evaluation or "",
        with_baseline=with_baseline,
    )


def _check_evaluation(name: str, rungs: "Sequence[Rung]", corpus: str | None) -> None:
    from speedrun.sources import EVALUATION_SETS

    if name not in EVALUATION_SETS:
        raise UnknownNameError("evaluation set", name, EVALUATION_SETS)
    if corpus is not None:
        raise SpeedrunError("--corpus brings its own evaluation: drop --evaluation")
    for rung in rungs:
        if rung.is_micro:
            raise SpeedrunError(f"--evaluation is for the standard rungs; {rung.name} is scored on held-out summaries")


def build_dags(project: "Project", ask: Asked) -> list["RunDag"]:
    """One DAG for each rung and seed, cheapest rung first. Imports levanter and marin (seconds)."""
    from speedrun.catalog import load_candidate, load_rung
    from speedrun.engines.local import detect_hardware
    from speedrun.hardware import parse_hardware
    from speedrun.overrides import apply_overrides
    from speedrun.steps.dag import build_dag

    if ask.hardware is None:
        spec = detect_hardware()
    else:
        specs = parse_hardware(ask.hardware)
        if len(specs) != 1:
            raise SpeedrunError(f"--hardware {ask.hardware}: a run has one kind of hardware")
        spec = specs[0]
    loaded = load_candidate(project, ask.name)
    every = None if ask.checkpoint_every is None else timedelta(seconds=ask.checkpoint_every)
    same: dict[str, Any] = {
        "corpus": ask.corpus,
        "evaluation": ask.evaluation,
        "only_scored": ask.only_scored,
        "checkpoint_every": every,
        "cpus_per_host": ask.cpus_per_host,
    }
    baseline = None
    if ask.with_baseline:
        if loaded.candidate.baseline == ask.name:
            raise SpeedrunError(f"--with-baseline: {ask.name} is its own baseline")
        baseline = load_candidate(project, loaded.candidate.baseline)
    dags = []
    for name in ask.rungs:
        rung = load_rung(name)
        if ask.corpus is not None and not rung.is_micro:
            raise SpeedrunError(f"--corpus is for the micro rungs; {name} trains on {rung.training_data}")
        recipe = apply_overrides(loaded.recipe(rung), ask.overrides)
        for seed in ask.seeds:
            if baseline is not None:
                dag = build_dag(project, baseline, rung, seed, spec, **same)
                if ask.is_off_board or not _is_recorded(project, dag):
                    dags.append(dag)
            dags.append(
                build_dag(
                    project,
                    loaded,
                    rung,
                    seed,
                    spec,
                    recipe=recipe,
                    overrides=ask.overrides,
                    record_as=ask.record_as,
                    **same,
                )
            )
    return dags


def _is_recorded(project: "Project", dag: "RunDag") -> bool:
    """Whether the run's recipe and seed are on record, wherever they were run."""
    from speedrun.records.store import RESULTS_FILE, read_results

    identity = dag.identity
    file = project.results / identity.record_as / identity.rung.name / RESULTS_FILE
    if not file.exists():
        return False
    infos = [run.run_info for run in read_results(file).runs]
    return any((i.recipe_fingerprint, i.seed) == (identity.fingerprint, identity.seed) for i in infos)
