"""What is said of a step that failed."""

from pathlib import Path

from tests.conftest import Cli


def failed(name: str, error: Exception) -> Exception:
    """As Marin's runner wraps it."""
    step = RuntimeError(f"Step failed: {name}_0123abcd")
    step.__cause__ = error
    whole = RuntimeError("1 step(s) failed")
    whole.__cause__ = step
    return whole


def test_out_of_memory_is_said_beside_the_dry_runs_figure(project: Cli) -> None:
    from speedrun.catalog import load_candidate, load_rung
    from speedrun.cli.execution import StepFailed, explain
    from speedrun.hardware import parse_hardware
    from speedrun.project import Project
    from speedrun.steps.dag import build_dag

    here = Project(project.root)
    dag = build_dag(here, load_candidate(here, "adamw"), load_rung("300m"), 42, parse_hardware("h100x8")[0])
    error = RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 99 bytes.")
    said = explain(failed(dag.train.name, error), [dag], Path("run.log"))
    assert isinstance(said, StepFailed)
    # 299,649,792 parameters in float32, and as many first and second moments, over 8 chips: 0.42 GiB.
    assert "0.42 of them for parameters and optimizer" in str(said)
    assert "of the 80 GiB that one has" in str(said)
    assert "Out of memory while trying to allocate 99 bytes" in str(said)
    other = explain(failed(dag.train.name, ValueError("no")), [dag], Path("run.log"))
    assert "dry run" not in str(other)
