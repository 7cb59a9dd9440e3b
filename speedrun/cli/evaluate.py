"""``speedrun evaluate``: score finished checkpoints again, without training."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from speedrun.cli.options import RECIPE_FIELDS, Asked, asked, build_dags, engine_asked, engine_options, run_options
from speedrun.cli.run import build_and_publish, on_engine, refuse_early
from speedrun.errors import SpeedrunError
from speedrun.project import Project, find_project

if TYPE_CHECKING:
    from speedrun.cli.execution import Published
    from speedrun.engines.engine import Engine, EngineName
    from speedrun.records.schema import RunInfo
    from speedrun.steps.dag import RunDag


@click.command("evaluate", context_settings=RECIPE_FIELDS)
@run_options
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON.")
def command(engine: "EngineName | None", ray_address: str | None, as_json: bool, **options: Any) -> None:
    """Score the finished checkpoints of candidate NAME again, and rewrite their records.

    Nothing is trained: a new protocol, or a new probe, costs an evaluation. Without --rung, all runs that
    results/NAME holds; with it, the seeds that are named, as in `speedrun run`. With --evaluation the scores on
    another set go into the work folder, and the records stay as they are. Exits with 1 when a checkpoint is not
    in this project's store.
    """
    project = find_project()
    where = engine_asked(engine, ray_address)
    runs = list(_meant(project, options))
    before: dict[str, RunInfo | None] = {}
    missing: list[str] = []

    def finished(engine: "Engine") -> "list[RunDag]":
        dags = [dag for ask in runs for dag in _dags(project, on_engine(ask, engine))]
        here = [dag for dag in dags if _is_trained(dag)]
        missing.extend(_name(dag) for dag in dags if dag not in here)
        before.update({dag.identity.key: _on_record(project, dag) for dag in here})
        for dag in here:
            _forget_evaluation(dag)
        return here

    refuse_early(project, runs[0])
    published = build_and_publish(project, runs[0], where, finished, quiet=as_json)
    for name in missing:
        click.echo(f"speedrun: {name}: no finished checkpoint in {project.store}; not scored", err=True)
    if not published:
        raise SpeedrunError(
            "nothing to score: what is on record was trained in another store, or its recipe has changed since "
            f"(`speedrun plan {runs[0].name} --rung RUNG` shows what is here). `speedrun run` trains it"
        )
    if as_json:
        click.echo(json.dumps([item.info.model_dump(by_alias=True, mode="json") for item in published], indent=2))
    else:
        _print_differences(published, before)
    sys.exit(1 if missing else 0)


def _dags(project: Project, ask: Asked) -> "list[RunDag]":
    dags = build_dags(project, ask)
    if not ask.evaluation:
        return dags
    # What was trained for the board can be scored on any set, what was trained as a trial only on the trial's.
    of_board = build_dags(project, dataclasses.replace(ask, only_scored=True))
    return [trial if _is_trained(trial) else ours for trial, ours in zip(dags, of_board, strict=True)]


def _meant(project: Project, options: dict[str, Any]) -> Iterator[Asked]:
    """The runs that the command line means: those that it names, or all that are on record."""
    if options["rungs"]:
        yield asked(**options)
        return
    from speedrun.ladder import LADDER
    from speedrun.records.store import RESULTS_FILE, read_results

    name = options["record_as"] or options["name"]
    found = False
    for rung in LADDER:
        file = project.results / name / rung / RESULTS_FILE
        for run in read_results(file).runs if file.exists() else []:
            found = True
            ask = asked(**options | {"rungs": [rung], "only_seed": run.run_info.seed})
            yield dataclasses.replace(ask, hardware=ask.hardware or run.run_info.resources.get("hardware"))
    if not found:
        raise SpeedrunError(f"results/{name} holds no run: say which are meant with --rung and --seeds")


def _is_trained(dag: "RunDag") -> bool:
    from speedrun.engines.manifest import step_state

    return step_state(dag.train.path())[0] == "done"


def _forget_evaluation(dag: "RunDag") -> None:
    """Take away what was made of the checkpoint, so that it is made again; the published record stays till then."""
    from rigging.filesystem.factory import url_to_fs

    from speedrun.engines.manifest import step_state

    for step in (dag.record, dag.evaluate):
        state, holder = step_state(step.path())
        if state in ("running", "held"):
            raise SpeedrunError(f"{_name(dag)} is being scored by {holder}: wait for it, or stop it")
        fs, path = url_to_fs(step.path())
        if fs.exists(path):
            fs.rm(path, recursive=True)


def _on_record(project: Project, dag: "RunDag") -> "RunInfo | None":
    from speedrun.records.store import RESULTS_FILE, read_results

    file = project.results / dag.identity.record_as / dag.identity.rung.name / RESULTS_FILE
    infos = [run.run_info for run in read_results(file).runs] if file.exists() else []
    return next((info for info in infos if info.run_key == dag.identity.key), None)


def _name(dag: "RunDag") -> str:
    return f"{dag.identity.record_as} at {dag.identity.rung.name}, seed {dag.identity.seed}"


def _print_differences(published: "Sequence[Published]", before: "dict[str, RunInfo | None]") -> None:
    table = Table("rung", "seed", "scored on", "bits/byte before", "now", "difference", "probes")
    for item in published:
        info, earlier = item.info, before[item.info.run_key]
        probes = f"{sum(probe.passed for probe in info.evaluation.probes)} passed"
        known = ("—", f"{info.bits_per_byte:.6f}", "—")
        if earlier is not None:
            difference = info.bits_per_byte - earlier.bits_per_byte
            known = (f"{earlier.bits_per_byte:.6f}", f"{info.bits_per_byte:.6f}", f"{difference:+.1e}")
        table.add_row(info.rung, str(info.seed), info.evaluation_data or "the rung's set", *known, probes)
    Console().print(table)
