"""Kills at every stage, two processes at once, a full disk: nothing lost, nothing twice, the same score."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.conftest import Cli

pytestmark = pytest.mark.slow

RUN = ("run", "adamw", "--rung", "micro_1")
OFTEN = ("--checkpoint-every", "1")


def results(cli: Cli) -> dict[str, Any]:
    return json.loads((cli.root / "results" / "adamw" / "micro_1" / "speedrun_results.json").read_text())


def address(cli: Cli, label: str) -> Path:
    """Where a step of the only run of a project writes."""
    (manifest,) = (cli.root / ".speedrun" / "runs").glob("*.json")
    return Path(json.loads(manifest.read_text())["addresses"][label])


def status_of(cli: Cli, label: str) -> str:
    try:
        return (address(cli, label) / ".executor_status").read_text()
    except (OSError, ValueError):
        return ""


def logged_steps(cli: Cli) -> int:
    try:
        files = sorted((address(cli, "train") / "step_log").glob("*.jsonl"))
        return sum(file.read_text().count('"step"') for file in files)
    except (OSError, ValueError):
        return 0


def has_checkpoint(cli: Cli) -> bool:
    try:
        return any(address(cli, "train").rglob("checkpoints/step-*/metadata.json"))
    except (OSError, ValueError):
        return False


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the moment to kill never came"
        time.sleep(0.01)


def kill_and_rerun(cli: Cli, moment: Callable[[], bool], *options: str) -> None:
    process = cli.start(*RUN, *options)
    wait_for(moment, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (cli.root / "results").exists() or not list((cli.root / "results").rglob("speedrun_results.json"))
    started = time.monotonic()
    cli(*RUN, *options)
    # The lease of a dead holder would run for 90 s more; a rerun trains for less than that.
    assert time.monotonic() - started < 85 or os.getloadavg()[0] > 3


def assert_as_uninterrupted(cli: Cli, reference: dict[str, Any]) -> dict[str, Any]:
    (run,) = results(cli)["runs"]
    info = run["run_info"]
    assert info["bits_per_byte"] == pytest.approx(reference["bits_per_byte"], rel=1e-6)
    assert info["step_log"]["steps"] == reference["train_config"]["steps"]
    assert info["step_log"]["complete"]
    assert info["run_key"] == reference["run_key"]
    return info


def test_killed_while_tokenizing(new_project, record: dict[str, Any]) -> None:
    cli = new_project("tokenizing")
    kill_and_rerun(cli, lambda: status_of(cli, "training set") == "RUNNING")
    assert len(assert_as_uninterrupted(cli, record)["attempts"]) == 1


def test_killed_before_the_first_checkpoint(new_project, record: dict[str, Any]) -> None:
    cli = new_project("early")
    kill_and_rerun(cli, lambda: logged_steps(cli) >= 5, "--checkpoint-every", "600")
    info = assert_as_uninterrupted(cli, record)
    assert [attempt["first_step"] for attempt in info["attempts"]] == [0, 0]
    assert info["spent_time"] > info["training_time"]


def test_killed_after_a_checkpoint(new_project, record: dict[str, Any]) -> None:
    cli = new_project("late")
    kill_and_rerun(cli, lambda: has_checkpoint(cli) and logged_steps(cli) >= 30, *OFTEN)
    info = assert_as_uninterrupted(cli, record)
    first, second = info["attempts"]
    # It resumed where a checkpoint was, and did not begin again.
    assert 0 < second["first_step"] <= first["last_step"] + 1


def test_killed_while_evaluating(new_project, record: dict[str, Any]) -> None:
    cli = new_project("evaluating")
    kill_and_rerun(cli, lambda: status_of(cli, "evaluate") == "RUNNING")
    assert len(assert_as_uninterrupted(cli, record)["attempts"]) == 1


def test_killed_while_recording(new_project, record: dict[str, Any]) -> None:
    cli = new_project("recording")
    folder = cli.root / "results" / "adamw" / "micro_1"
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"):
        # The record is made, and cannot be put into its file while another holds the folder.
        process = cli.start(*RUN)
        wait_for(lambda: status_of(cli, "record") == "SUCCESS", process)
        time.sleep(1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (folder / "speedrun_results.json").exists()
    cli(*RUN)
    assert_as_uninterrupted(cli, record)


def test_two_processes_make_one_record(new_project, record: dict[str, Any]) -> None:
    cli = new_project("two")
    first = cli.start(*RUN)
    wait_for(lambda: status_of(cli, "train") == "RUNNING", first)
    second = cli.start(*RUN)
    said = second.communicate(timeout=400)[0]
    assert first.wait(timeout=400) == 0, first.communicate()[0]
    assert second.returncode == 0, said
    assert f"waiting for process {first.pid}" in said
    info = assert_as_uninterrupted(cli, record)
    assert len(info["attempts"]) == 1


def test_ctrl_c_says_how_to_go_on(new_project) -> None:
    cli = new_project("interrupted")
    process = cli.start(*RUN, *OFTEN)
    wait_for(lambda: logged_steps(cli) >= 5, process)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "the same command goes on from the last checkpoint" in said
    assert "Traceback" not in said
    (run,) = cli.json("status")
    assert run["state"] == "stopped"


def test_cancel_from_another_terminal_frees_what_was_held(new_project) -> None:
    cli = new_project("cancelled")
    process = cli.start(*RUN, *OFTEN)
    wait_for(lambda: logged_steps(cli) > 3, process)
    (seen,) = cli.json("status")
    assert (seen["state"], seen["attempts"], seen["cost_usd"]) == ("running", 1, None)
    assert "cancelled adamw micro_1 seed 42" in cli("cancel", "adamw").stdout
    process.wait(30)
    assert not list(cli.root.rglob(".executor_status.lock"))
    assert cli.json("status")[0]["state"] == "stopped"


def in_namespace(cli: Cli, mount: str) -> subprocess.CompletedProcess[str]:
    """Run with a file system of its own mounted somewhere, as any user may in a namespace of his own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this machine lets no user make a mount namespace, which the test needs for a small disk")
    command = ["unshare", "-rm", "sh", "-ec", f'{mount}\nexec "$@"', "sh", *cli.command(*RUN)]
    return subprocess.run(command, capture_output=True, text=True, env=cli.environment(), cwd=cli.root, timeout=400)


def test_a_full_disk_is_said_and_nothing_is_lost(new_project, record: dict[str, Any]) -> None:
    cli = new_project("full")
    (cli.root / ".speedrun" / "store").mkdir()
    done = in_namespace(cli, "mount -t tmpfs -o size=3m tmpfs .speedrun/store")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (cli.root / "results").exists()
    cli(*RUN)
    assert_as_uninterrupted(cli, record)


def test_a_read_only_results_folder_is_refused_before_training(new_project) -> None:
    cli = new_project("readonly")
    (cli.root / "results").mkdir()
    done = in_namespace(cli, "mount -t tmpfs -o ro tmpfs results")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "cannot be written" in done.stderr
    assert not (cli.root / ".speedrun" / "store").exists()
