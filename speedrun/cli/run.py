"""``speedrun run``: train, evaluate and record a candidate."""

import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from speedrun.cli.futility import is_futile
from speedrun.cli.options import (
    RECIPE_FIELDS,
    Asked,
    EngineAsked,
    asked,
    build_dags,
    engine_asked,
    engine_options,
    run_options,
)
from speedrun.cli.output import diverted_output
from speedrun.engines.engine import Engine, EngineName, open_engine
from speedrun.errors import SpeedrunError
from speedrun.project import Project, find_project

if TYPE_CHECKING:
    from speedrun.cli.execution import Published
    from speedrun.steps.dag import RunDag


@click.command("run", context_settings=RECIPE_FIELDS)
@run_options
@click.option("--ladder", type=click.Choice(["micro", "standard"]), help="All rungs of a ladder, instead of --rung.")
@click.option("--with-baseline", is_flag=True, help="Run the baseline too, where it has no record of recipe and seed.")
@click.option(
    "--stop-for-futility",
    "claimed",
    type=float,
    metavar="GAIN",
    help="Go rung by rung; stop when the rungs so far leave no room for this speedup at the top one, such as 1.05.",
)
@engine_options
@click.option("--results", type=click.Path(path_type=Path), help="Put records into this folder, not into results/.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON.")
def command(
    engine: EngineName | None,
    ray_address: str | None,
    results: Path | None,
    as_json: bool,
    claimed: float | None,
    **options: Any,
) -> None:
    """Train, evaluate and record candidate NAME.

    Fields of the recipe can be set, as in --optimizer.learning_rate 0.01. Such a run is scratch: its record
    stays in the work folder unless --record-as names it. A run that was interrupted goes on where it
    stopped; one that has been made is served from the cache.
    """
    where = engine_asked(engine, ray_address)
    ask = asked(**options)
    if claimed is not None and (not math.isfinite(claimed) or claimed <= 0):
        raise SpeedrunError(f"--stop-for-futility takes a speedup above 0, such as 1.05, got {claimed:g}")
    if claimed is not None and ask.is_scratch:
        raise SpeedrunError("--stop-for-futility compares records, and a scratch run leaves none in results/")
    project = find_project()
    if results is not None:
        project = dataclasses.replace(project, results_elsewhere=results.absolute())
    published = run(project, ask, where, quiet=as_json, claimed=claimed)
    if as_json:
        click.echo(json.dumps([p.info.model_dump(by_alias=True, mode="json") for p in published], indent=2))
        return
    from speedrun.cli.summary import print_summary

    print_summary(Console(), project, ask, published)


def run(
    project: Project, ask: Asked, where: EngineAsked, *, quiet: bool = False, claimed: float | None = None
) -> "list[Published]":
    """Build everything that ``ask`` means, with progress on stderr. Exits with 1 when a step fails.

    Args:
        claimed: the speedup that must still be possible at the top rung for the next rung to be run.
    """
    from speedrun.cli.execution import check_results_folder, results_folder

    refuse_early(project, ask)
    if not ask.is_scratch:
        for rung in ask.rungs:
            check_results_folder(results_folder(project, ask.record_as or ask.name, rung, scratch_label=None))
    return build_and_publish(
        project, ask, where, lambda engine: build_dags(project, on_engine(ask, engine)), quiet=quiet, claimed=claimed
    )


def build_and_publish(
    project: Project,
    ask: Asked,
    where: EngineAsked,
    make_dags: "Callable[[Engine], list[RunDag]]",
    *,
    quiet: bool = False,
    claimed: float | None = None,
) -> "list[Published]":
    """Build the DAGs that ``make_dags`` gives, and publish their records. See ``run``."""
    from speedrun.access import require
    from speedrun.cli.execution import StepFailed, execute, results_folder, resume_hint

    log = project.work / "logs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{ask.name}-{os.getpid()}.log"
    prepare_environment(project, where)
    with diverted_output(log) as console:
        console.quiet = quiet
        dags: list[RunDag] = []
        engine = None
        try:
            with console.status("loading jax, levanter and marin"):
                engine = open_engine(where.name, project.store, ray_address=where.ray_address)
                dags = make_dags(engine)
                require(project, [source for dag in dags for source, _ in dag.data.sources])
            folders = [
                results_folder(
                    project,
                    dag.identity.record_as,
                    dag.identity.rung.name,
                    scratch_label=dag.identity.fingerprint[:12] if _is_scratch(ask, dag) else None,
                )
                for dag in dags
            ]
            if claimed is None:
                return execute(project, engine, dags, folders, console, log)
            published: list[Published] = []
            for name in ask.rungs:
                here = [(dag, at) for dag, at in zip(dags, folders, strict=True) if dag.identity.rung.name == name]
                published += execute(project, engine, [dag for dag, _ in here], [at for _, at in here], console, log)
                if name != ask.rungs[-1] and is_futile(project, ask, name, claimed, console):
                    break
            return published
        except KeyboardInterrupt:
            console.quiet = False
            console.print(resume_hint(project, dags), markup=False)
            if engine is not None:
                engine.close()
            # The engine's thread cannot be stopped, and need not be: whatever it leaves can be resumed.
            os._exit(130)
        except StepFailed as failure:
            console.quiet = False
            console.print(f"speedrun: {failure}", markup=False, highlight=False, soft_wrap=True)
            sys.exit(1)
        finally:
            if engine is not None:
                engine.close()


def on_engine(ask: Asked, engine: Engine) -> Asked:
    """``ask`` with the engine's own hardware where none was named."""
    return ask if ask.hardware is not None else dataclasses.replace(ask, hardware=engine.hardware())


def _is_scratch(ask: Asked, dag: "RunDag") -> bool:
    """Overrides make the candidate's runs scratch and not its baseline's; other data than the rung's make both."""
    return ask.is_scratch and (ask.is_off_board or dag.identity.candidate.name == ask.name)


def prepare_environment(project: Project, where: EngineAsked | None = None) -> None:
    """Set, before jax and its friends are imported, what they read from the environment."""
    if where is not None and where.name == "ray":
        # The chips are for the ranks; this process only counts and evaluates shapes.
        os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["MARIN_PREFIX"] = project.store
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("WANDB_DIR", str(project.work))


def refuse_early(project: Project, ask: Asked) -> None:
    """Find the user's mistakes that can be found before anything heavy is imported."""
    from speedrun.access import require, sources_of, wandb_mode
    from speedrun.catalog import find_candidate
    from speedrun.ladder import LADDER

    find_candidate(project, ask.name)
    wandb_mode()
    if ask.hardware is not None:
        from speedrun.hardware import parse_hardware

        parse_hardware(ask.hardware)
    # A recipe may train on something else and with another tokenizer, which only its code can say.
    needed = [sources_of(LADDER[name], ask.evaluation) for name in ask.rungs]
    require(project, [of["evaluation"] for of in needed if of])


def shown_path(project: Project, path: Path) -> str:
    """``path`` as it is shown: relative to the project where it lies in it."""
    return str(path.relative_to(project.root)) if path.is_relative_to(project.root) else str(path)


def seeds_of(published: "Sequence[Published]", rung: str) -> "list[Published]":
    """The runs at one rung."""
    return [item for item in published if item.info.rung == rung]
