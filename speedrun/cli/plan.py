"""``speedrun plan``: the steps of a run, their addresses, and what is cached. Builds nothing."""

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from speedrun.cli.options import RECIPE_FIELDS, asked, build_dags, run_options
from speedrun.cli.progress import title
from speedrun.cli.run import prepare_environment
from speedrun.project import find_project


@click.command("plan", context_settings=RECIPE_FIELDS)
@run_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def command(as_json: bool, **options: Any) -> None:
    """Show the DAG of a run of candidate NAME: each step's address and whether it is cached."""
    ask = asked(**options)
    project = find_project()
    prepare_environment(project)
    dags = build_dags(project, ask)
    from speedrun.cli.execution import manifest_of
    from speedrun.engines.manifest import step_states

    manifests = [manifest_of(dag, project.results, project.work) for dag in dags]
    if as_json:
        content = [
            {
                "candidate": m.candidate,
                "rung": m.rung,
                "seed": m.seed,
                "run_key": m.key,
                "recipe_fingerprint": dag.identity.fingerprint,
                "training_steps": m.steps_total,
                "steps": [
                    {"label": label, "address": m.addresses[label], "state": state}
                    for label, (state, _) in step_states(m.addresses).items()
                ],
            }
            for dag, m in zip(dags, manifests, strict=True)
        ]
        click.echo(json.dumps(content, indent=2))
        return
    console = Console()
    for manifest in manifests:
        table = Table("step", "state", "address", title=title(manifest), title_justify="left")
        for label, (state, _) in step_states(manifest.addresses).items():
            shown = {"done": "cached", "waiting": "to build"}.get(state, state)
            table.add_row(label, shown, manifest.addresses[label].removeprefix(project.store).lstrip("/"))
        console.print(table)
    console.print(f"addresses are below {project.store}", markup=False, highlight=False, soft_wrap=True)
