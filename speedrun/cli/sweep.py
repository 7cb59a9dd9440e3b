"""``speedrun sweep``: tune fields of a recipe over a grid, with the search's cost on record."""

import dataclasses
import itertools
import json
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from speedrun.cli.options import FIRST_SEED, Asked, EngineAsked, build_dags, engine_asked, engine_options
from speedrun.cli.output import diverted_output
from speedrun.cli.progress import duration
from speedrun.cli.run import on_engine, prepare_environment, refuse_early, shown_path
from speedrun.engines.engine import EngineName, open_engine
from speedrun.errors import SpeedrunError
from speedrun.ladder import rungs_named
from speedrun.overrides import read_value
from speedrun.project import Project, find_project
from speedrun.records.sweeps import SWEEP_FILE, Sweep, SweepPoint, fields_at_edge, keep_points


@click.command("sweep")
@click.argument("name")
@click.option("--rung", "rungs", multiple=True, required=True, help="Rung to tune at; may be repeated.")
@click.option("--set", "fields", multiple=True, required=True, metavar="FIELD=A,B,C", help="Values to try; repeatable.")
@click.option("--seeds", default=1, show_default=True, help="Seeds for each point.")
@click.option("--hardware", help="As in `speedrun run`.")
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(
    name: str,
    rungs: Sequence[str],
    fields: Sequence[str],
    seeds: int,
    hardware: str | None,
    engine: EngineName | None,
    ray_address: str | None,
    as_json: bool,
) -> None:
    """Try every combination of values for candidate NAME and say which is best.

    What has been tried is not trained again, so an interrupted sweep goes on where it stopped. Every point
    and its cost stay in results/NAME/RUNG/sweep.json.
    """
    where = engine_asked(engine, ray_address)
    project = find_project()
    grid = parse_grid(fields)
    if seeds < 1:
        raise SpeedrunError(f"--seeds must be at least 1, got {seeds}")
    ask = Asked(
        name, [r.name for r in rungs_named(rungs)], [FIRST_SEED + at for at in range(seeds)], hardware, None, None, {}
    )
    refuse_early(project, ask)
    results = {rung: _sweep_rung(project, dataclasses.replace(ask, rungs=[rung]), where, grid) for rung in ask.rungs}
    if as_json:
        click.echo(json.dumps({rung: sweep.model_dump(mode="json") for rung, sweep in results.items()}, indent=2))
        return
    for rung, sweep in results.items():
        _print(Console(), project, name, rung, sweep, grid)


def parse_grid(fields: Sequence[str]) -> dict[str, list[Any]]:
    """``FIELD=A,B,C`` words as values by field.

    Raises:
        SpeedrunError: for a word without values, or a value twice.
    """
    grid: dict[str, list[Any]] = {}
    for word in fields:
        field, equals, values = word.partition("=")
        if not equals or not field or not values:
            raise SpeedrunError(f"--set {word}: write --set optimizer.learning_rate=0.003,0.01,0.03")
        grid[field] = [read_value(field, value) for value in values.split(",")]
        if len(set(map(repr, grid[field]))) < len(grid[field]):
            raise SpeedrunError(f"--set {word}: a value stands there twice")
    return grid


def _sweep_rung(project: Project, ask: Asked, where: EngineAsked, grid: dict[str, list[Any]]) -> Sweep:
    from speedrun.access import require
    from speedrun.cli.execution import StepFailed, execute, results_folder, resume_hint

    log = project.work / "logs" / f"{time.strftime('%Y%m%d-%H%M%S')}-sweep-{ask.name}-{os.getpid()}.log"
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    prepare_environment(project, where)
    with diverted_output(log) as console:
        with console.status("loading jax, levanter and marin"):
            engine = open_engine(where.name, project.store, ray_address=where.ray_address)
            ask = on_engine(ask, engine)
            dags = [dag for point in points for dag in build_dags(project, dataclasses.replace(ask, overrides=point))]
            require(project, [source for dag in dags for source, _ in dag.data.sources])
        folders = [
            results_folder(project, ask.name, ask.rungs[0], scratch_label=dag.identity.fingerprint[:12]) for dag in dags
        ]
        try:
            done = execute(project, engine, dags, folders, console, log)
        except StepFailed as failure:
            # A learning rate at which training breaks down is a result of the search, not its end.
            console.print(f"speedrun: {failure}", markup=False, highlight=False, soft_wrap=True)
            done = failure.published
        except KeyboardInterrupt:
            console.print(resume_hint(project, dags), markup=False)
            engine.close()
            os._exit(130)
        finally:
            engine.close()
    infos = {item.info.run_key: item.info for item in done}
    tried = []
    for dag in dags:
        info = infos.get(dag.identity.key)
        tried.append(
            SweepPoint(
                overrides=dict(dag.identity.overrides),
                seed=dag.identity.seed,
                recipe_fingerprint=dag.identity.fingerprint,
                bits_per_byte=info.bits_per_byte if info else None,
                model_flops=info.model_flops if info else None,
                training_time=info.training_time if info else None,
            )
        )
    return keep_points(project.results / ask.name / ask.rungs[0], tried)


def _print(console: Console, project: Project, name: str, rung: str, sweep: Sweep, grid: dict[str, list[Any]]) -> None:
    table = Table(*grid, "bits per byte", "seeds", title=f"{name} · {rung}", title_justify="left")
    scores: dict[str, list[float | None]] = {}
    for point in sweep.points:
        if point.overrides.keys() == grid.keys():
            scores.setdefault(json.dumps(point.overrides), []).append(point.bits_per_byte)
    means = {
        key: statistics.mean(known) for key, each in scores.items() if (known := [s for s in each if s is not None])
    }
    best = min(means, key=means.__getitem__, default=None)
    for key, each in sorted(scores.items(), key=lambda item: means.get(item[0], float("inf"))):
        overrides = json.loads(key)
        score = f"{means[key]:.4f}" if key in means else "failed"
        style = "bold green" if key == best else None
        table.add_row(*(f"{overrides[field]}" for field in grid), score, str(len(each)), style=style)
    console.print(table)
    if best is not None:
        tried = {field: [json.loads(key)[field] for key in scores] for field in grid}
        for field in fields_at_edge(json.loads(best), tried):
            console.print(
                f"! the best {field} is the edge of what was tried: the optimum may lie beyond it; widen the sweep",
                style="yellow",
            )
    console.print(
        f"search so far: {len(sweep.points)} runs, {sweep.model_flops:.3g} model FLOPs, "
        f"{duration(sweep.training_seconds)} of training; kept in "
        f"{shown_path(project, project.results / name / rung / SWEEP_FILE)}",
        highlight=False,
        soft_wrap=True,
    )
