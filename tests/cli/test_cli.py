"""The command line as a newcomer meets it: fast, clear about mistakes, and without a traceback."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from speedrun.cli.options import Asked, build_dags
from speedrun.project import Project
from tests.conftest import Cli

HEAVY = ("jax", "levanter", "marin", "ray", "pandas", "scipy")


@pytest.mark.parametrize("words", [["--help"], ["list"], ["run", "--help"], ["status"], ["new", "idea"]])
def test_light_commands_import_nothing_heavy(project: Cli, words: list[str]) -> None:
    code = (
        "import sys; from speedrun.cli import main\n"
        f"sys.argv = ['speedrun', *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code, leave.code\n"
        f"print('HEAVY', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=project.environment(), cwd=project.root
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "adamv", "--rung", "micro_1"], "Did you mean 'adamw'"),
        (["run", "adamw", "--rung", "micro1"], "Did you mean 'micro_1'"),
        (["run", "adamw"], "--rung"),
        (["run", "adamw", "--rung", "micro_1", "--ladder", "micro"], "exclude one another"),
        (["run", "adamw", "--ladder", "micro", "--stop-for-futility", "0"], "a speedup above 0"),
        (
            ["run", "adamw", "--ladder", "micro", "--stop-for-futility", "1", "--steps", "3"],
            "a scratch run leaves none",
        ),
        (["run", "adamw", "--rung", "micro_1", "--seeds", "0"], "--seeds must be at least 1"),
        (["run", "adamw", "--rung", "micro_1", "--hardware", "h100x"], "h100"),
        (["run", "adamw", "--rung", "micro_1", "--optimizer.beta1"], "--optimizer.beta1 needs a value"),
        (["run", "adamw", "--rung", "micro_1", "--config", "none.yaml"], "none.yaml cannot be read"),
        (["run", "adamw", "--rung", "micro_1", "--record-as", "other"], "no field of the recipe was set"),
        (["run", "adamw", "--rung", "micro_1", "--record-as", "adamw", "--steps", "3"], "under the candidate's own"),
        (["sweep", "adamw", "--rung", "micro_1", "--set", "optimizer.beta1"], "write --set"),
        (["sweep", "adamw", "--rung", "micro_1", "--set", "steps=1,1"], "a value stands there twice"),
        (["new", "adamw"], "is there already"),
        (["new", "../up"], "is no candidate name"),
        (["cancel"], "nothing runs"),
        (["runn"], "Did you mean 'run'"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(project: Cli, words: list[str], says: str) -> None:
    done = project(*words, ok=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert not (project.root / "results").exists()


def test_wandb_without_its_key_is_refused_before_anything_runs(project: Cli) -> None:
    done = project("run", "adamw", "--rung", "micro_1", ok=False, env={"WANDB_MODE": "online"})
    assert done.returncode == 2
    assert "WANDB_API_KEY is not set" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project.root / ".speedrun").exists()


def test_outside_a_project_the_way_in_is_named(project: Cli, tmp_path: Path) -> None:
    done = project("list", ok=False, env={"SPEEDRUN_PROJECT": str(tmp_path)})
    assert done.returncode == 2
    assert "no executor_steps/ folder" in done.stderr


def test_list_shows_rungs_candidates_and_wrong_files(project: Cli) -> None:
    (project.root / "executor_steps" / "broken.py").write_text("def f(:\n")
    content = project.json("list")
    assert [rung["name"] for rung in content["rungs"]][:2] == ["micro_1", "micro_2"]
    candidates = {item["name"]: item for item in content["candidates"]}
    assert candidates["adamw"]["problem"] is None
    assert candidates["broken"]["problem"].startswith("line 1")
    assert "broken" in project("list").stdout


def test_the_starter_template_is_a_candidate_that_plans(project: Cli) -> None:
    project("new", "my_idea")
    (dag,) = project.json("plan", "my_idea", "--rung", "30m", "--hardware", "h100x8")
    # Only the optimizer differs from the reference, so the budget buys the reference's steps.
    assert dag["training_steps"] == 1_863
    assert [step["label"] for step in dag["steps"]][-3:] == ["train", "evaluate", "record"]
    assert {step["state"] for step in dag["steps"]} == {"waiting"}


def test_addresses_depend_on_recipe_seed_and_hardware(project: Cli) -> None:
    plain = Asked("adamw", ["micro_1"], [42], "cpu", corpus=None, record_as=None, overrides={})

    def train_address(**changes: Any) -> str:
        (dag,) = build_dags(Project(project.root), dataclasses.replace(plain, **changes))
        return dag.train.name

    addresses = [
        train_address(),
        train_address(seeds=[7]),
        train_address(hardware="h100x8"),
        train_address(overrides={"optimizer.beta1": 0.95}),
    ]
    assert len(set(addresses)) == 4
    assert train_address(checkpoint_every=5.0) == addresses[0]


def test_a_damaged_results_file_is_refused_before_anything_runs(project: Cli) -> None:
    folder = project.root / "results" / "adamw" / "micro_1"
    folder.mkdir(parents=True)
    (folder / "speedrun_results.json").write_text('{"runs": [')
    done = project("run", "adamw", "--rung", "micro_1", ok=False)
    assert done.returncode == 2
    assert "not valid JSON" in done.stderr
    assert (folder / "speedrun_results.json").read_text() == '{"runs": ['
    assert not (project.root / ".speedrun" / "store").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "matches no file"), (b"", "too few"), (b"caf\xe9", "is not UTF-8 text")],
)
def test_a_wrong_corpus_is_refused(project: Cli, tmp_path: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / "mine.txt").write_bytes(content)
    done = project("run", "adamw", "--rung", "micro_1", "--corpus", str(tmp_path / "mine.txt"), ok=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_leaves_a_record_and_a_second_one_is_served_from_the_cache(trained: Cli) -> None:
    file = trained.root / "results" / "adamw" / "micro_1" / "speedrun_results.json"
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    done = trained("run", "adamw", "--rung", "micro_1", "--seeds", "2")
    assert done.stdout.count("cached") == 2
    assert "standard deviation" in done.stdout
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    states = [run["state"] for run in trained.json("status")]
    assert states == ["done", "done"]


@pytest.mark.slow
def test_a_ladder_goes_up_with_the_baselines_missing_runs(trained: Cli) -> None:
    here = Project(trained.root)
    ask = Asked("muonh", ["micro_1", "micro_2"], [42], "cpu", None, None, {}, with_baseline=True)
    runs = [(dag.identity.record_as, dag.identity.rung.name) for dag in build_dags(here, ask)]
    # adamw at micro_1 is on record.
    assert runs == [("muonh", "micro_1"), ("adamw", "micro_2"), ("muonh", "micro_2")]


def test_status_of_a_project_without_runs(project: Cli) -> None:
    assert "nothing has been run here yet" in project("status").stdout
    assert project.json("status") == []


def test_a_candidates_own_file_prints_the_plan(project: Cli) -> None:
    done = subprocess.run(
        [sys.executable, "executor_steps/adamw.py", "--rung", "micro_1", "--hardware", "cpu", "--json"],
        capture_output=True,
        text=True,
        env=project.environment(),
        cwd=project.root,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["candidate"] == "adamw"
