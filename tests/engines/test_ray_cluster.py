"""Jobs on simulated clusters: the right machines in the right order, and what is lost on the way."""

import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, make_project
from tests.engines.simulated import Simulated, simulated_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

GANG = """
import dataclasses, sys
import speedrun.steps.dag as dag
one = dag.resources_of
# Two hosts with a CPU each: what no --hardware says, since a CPU means this computer.
dag.resources_of = lambda hardware, cpus: dataclasses.replace(one(hardware, cpus), replicas=2)
from speedrun.cli import main
main()
"""


@pytest.fixture(scope="module")
def simulated() -> Iterator[Simulated]:
    yield from simulated_cluster()


@pytest.fixture(scope="module")
def notices() -> "queue.SimpleQueue[str]":
    return queue.SimpleQueue()


@pytest.fixture(scope="module")
def client(simulated: Simulated, notices: "queue.SimpleQueue[str]", tmp_path_factory: pytest.TempPathFactory) -> Any:
    from speedrun.engines.ray import RayClient

    store = tmp_path_factory.mktemp("store")
    client = RayClient(simulated.address, str(store), notices.put, placement_timeout=120)
    yield client
    client.shutdown()


def submit(client: Any, hardware: str, function: Callable[..., None], *words: str) -> Any:
    from fray.types import Entrypoint, JobRequest, create_environment

    from speedrun.hardware import parse_hardware
    from speedrun.steps.dag import resources_of

    resources = resources_of(parse_hardware(hardware)[0], cpus_per_host=1)
    entry = Entrypoint.from_callable(function, args=words)
    return client.submit(JobRequest(f"on-{hardware}", entry, resources, create_environment()))


def note(folder: str) -> None:
    import os
    from pathlib import Path

    (Path(folder) / os.environ.get("SPEEDRUN_PROCESS", "0")).write_text(os.environ["SIMULATED_MACHINE"])


@pytest.fixture(autouse=True)
def _by_value() -> None:
    """Workers cannot import this file."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.mark.parametrize(
    ("hardware", "machines"),
    [
        ("h100x8", [{"h100-a", "h100-b"}]),
        ("h100x16", [{"h100-a", "h100-b"}, {"h100-a", "h100-b"}]),
        ("v5p-8", [{"v5p-8"}]),
        ("v5p-16", [{"v5p-16-worker-0"}, {"v5p-16-worker-1"}]),
        ("v6e-4", [{"v6e-4"}]),
    ],
)
def test_ranks_are_on_the_right_machines_in_order(
    client: Any, tmp_path: Path, hardware: str, machines: list[set[str]]
) -> None:
    submit(client, hardware, note, str(tmp_path)).wait(timeout=240)
    placed = [(tmp_path / str(rank)).read_text() for rank in range(len(machines))]
    assert len(list(tmp_path.iterdir())) == len(machines)
    assert len(set(placed)) == len(machines)
    assert all(where in allowed for where, allowed in zip(placed, machines, strict=True)), placed


def test_what_can_never_be_held_is_refused_before_anything_runs(simulated: Simulated, project: Cli) -> None:
    done = project(
        "run", "adamw", "--rung", "micro_1", "--engine", "ray", "--ray-address", simulated.address,
        "--hardware", "h100x32", ok=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "it needs 4 x {CPU: 1, GPU: 8, H100} on distinct nodes; the cluster can ever hold 2" in done.stderr
    assert "The nearest that would fit: --hardware h100x16." in done.stderr
    assert not (project.root / ".speedrun" / "store").exists()


def test_a_busy_cluster_is_waited_for_and_then_given_up(
    client: Any, notices: "queue.SimpleQueue[str]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.util.placement_group import placement_group, remove_placement_group

    from speedrun.errors import SpeedrunError

    others = placement_group([{"TPU": 4, "TPU-v6e-4-head": 1}])
    assert others.wait(30)
    monkeypatch.setattr(client, "_placement_timeout", 4.0)
    try:
        with pytest.raises(SpeedrunError, match="got no place within 4 s: it needs 1 x {CPU: 1, TPU: 4, TPU-v6e-4"):
            submit(client, "v6e-4", note, str(tmp_path)).wait(timeout=60)
    finally:
        remove_placement_group(others)
    assert "on-v6e-4 waits for 1 x {CPU: 1, TPU: 4" in notices.get(timeout=1)


def test_workers_that_differ_or_see_another_store_are_refused(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from speedrun.engines import gang
    from speedrun.engines import ray as engine
    from speedrun.errors import SpeedrunError

    mine = gang.versions() | {"ray": "1.0"}
    with monkeypatch.context() as patch:
        patch.setattr(gang, "versions", lambda: mine)
        with pytest.raises(SpeedrunError, match=r"has ray 2\.\d+\.\d+ \(here 1\.0\): install the same on every node"):
            submit(client, "h100x8", note, str(tmp_path)).wait(timeout=120)
    # A store on a disk of the driver's own: what it writes there, workers do not see.
    monkeypatch.setattr(engine.Path, "touch", lambda path: None)
    with pytest.raises(SpeedrunError, match="cannot see the artifact store"):
        submit(client, "h100x8", note, str(tmp_path)).wait(timeout=120)


def stay(folder: str) -> None:
    """Say who this is, and go on until there is a file called "go"."""
    import json
    import os
    import time
    from pathlib import Path

    told = json.loads(os.environ["SPEEDRUN_ATTEMPT"])
    about = {"pid": os.getpid(), "machine": os.environ["SIMULATED_MACHINE"], "ended": list(told["ended"].values())}
    attempt = len(told["ended"]) + 1
    file = Path(folder) / f"{attempt}-{os.environ['SPEEDRUN_PROCESS']}.json"
    file.with_suffix(".part").write_text(json.dumps(about | {"coordinator": os.environ["SPEEDRUN_COORDINATOR"]}))
    file.with_suffix(".part").rename(file)
    while not (Path(folder) / "go").exists():
        time.sleep(0.1)


def test_a_gang_that_loses_a_rank_or_a_node_is_started_again_as_a_whole(
    simulated: Simulated, client: Any, tmp_path: Path
) -> None:
    from fray.types import Entrypoint, JobRequest, ResourceConfig, create_environment

    def seen(attempt: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 300
        files = [tmp_path / f"{attempt}-{rank}.json" for rank in (0, 1)]
        while not all(file.exists() for file in files):
            assert time.monotonic() < deadline, f"attempt {attempt} never began"
            time.sleep(0.1)
        return [json.loads(file.read_text()) for file in files]

    entry = Entrypoint.from_callable(stay, args=[str(tmp_path)])
    job = client.submit(JobRequest("gang", entry, ResourceConfig.with_cpu(replicas=2), create_environment()))
    first = seen(1)
    assert first[0]["coordinator"] == first[1]["coordinator"]
    assert first[0]["machine"] != first[1]["machine"]
    os.kill(first[1]["pid"], signal.SIGKILL)
    second = seen(2)
    assert first[0]["pid"] not in simulated.ranks()
    simulated.lose(second[1]["machine"])
    third = seen(3)
    assert second[1]["machine"] not in [rank["machine"] for rank in third]
    (tmp_path / "go").touch()
    job.wait(timeout=60)
    causes = [end["cause"] for end in third[0]["ended"]]
    assert causes[0].startswith("the process died")
    assert causes[1].startswith("node ") and causes[1].endswith(" was lost")
    assert all(end["wall_seconds"] > 0 for end in third[0]["ended"])


def test_a_job_that_crashes_again_and_again_is_given_up(client: Any) -> None:
    def crash() -> None:
        import os

        os._exit(9)

    from fray.types import Entrypoint, JobRequest, create_environment

    entry = Entrypoint.from_callable(crash)
    with pytest.raises(RuntimeError, match="was given up after 4 crashes and 0 lost nodes; the last time, the process"):
        client.submit(JobRequest("crashing", entry, environment=create_environment())).wait(timeout=300)


def train(cli: Cli, simulated: Simulated, *options: str, program: tuple[str, ...] = ("-m", "speedrun")) -> Any:
    """Start a run of AdamW on the cluster; its output goes to a file, since nobody reads it while it runs."""
    log = cli.root / "said.log"
    words = ("run", "adamw", "--rung", "micro_1", "--hardware", "cpu", "--engine", "ray")
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, *program, *words, "--ray-address", simulated.address, *options],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=cli.environment(),
            cwd=cli.root,
            # Whoever runs the tests in the background has them ignore Ctrl-C; a user's shell does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )


def wait_for(condition: Callable[[], Any], process: "subprocess.Popen[bytes]", cli: Cli) -> Any:
    deadline = time.monotonic() + 400
    while not (met := condition()):
        assert process.poll() is None, (cli.root / "said.log").read_text()
        assert time.monotonic() < deadline, "the moment never came:\n" + (cli.root / "said.log").read_text()
        time.sleep(0.05)
    return met


def finish(process: "subprocess.Popen[bytes]", cli: Cli) -> dict[str, Any]:
    assert process.wait(timeout=500) == 0, (cli.root / "said.log").read_text()
    (file,) = cli.root.rglob("speedrun_results.json")
    return json.loads(file.read_text())["runs"][0]["run_info"]


def steps_of(cli: Cli, attempt: int) -> int:
    """Steps that an attempt has logged."""
    try:
        logs = list(cli.root.rglob(f"step_log/attempt-{attempt:04d}.jsonl"))
        return sum(file.read_text().count('"step"') for file in logs)
    except OSError:  # what is being looked through was just taken away
        return 0


def has_checkpoint(cli: Cli) -> bool:
    try:
        return any(cli.root.rglob("checkpoints/step-*/metadata.json"))
    except OSError:
        return False


def _only(ranks: set[int]) -> set[int] | None:
    """``ranks`` where there is just one."""
    return ranks if len(ranks) == 1 else None


def is_freed(simulated: Simulated, strangers: set[int]) -> None:
    """The cluster has no rank any more but those of others."""
    deadline = time.monotonic() + 60
    while set(simulated.ranks()) - strangers:
        assert time.monotonic() < deadline, "the cluster was not freed"
        time.sleep(0.2)


def test_kills_of_the_worker_and_of_the_driver(
    simulated: Simulated, tmp_path: Path, downloads: Path, record: dict[str, Any]
) -> None:
    cli = make_project(tmp_path / "project", downloads)
    # A node that an earlier test killed may leave ranks behind, which no raylet ends.
    strangers = set(simulated.ranks())
    driver = train(cli, simulated, "--checkpoint-every", "600")
    wait_for(lambda: steps_of(cli, 1) >= 5, driver, cli)
    (worker,) = wait_for(lambda: _only(set(simulated.ranks()) - strangers), driver, cli)
    os.kill(worker, signal.SIGKILL)  # before a checkpoint
    wait_for(lambda: steps_of(cli, 2) >= 5, driver, cli)
    driver.kill()
    driver.wait()
    is_freed(simulated, strangers)
    driver = train(cli, simulated)
    wait_for(lambda: _only(set(simulated.ranks()) - strangers), driver, cli)
    assert "cancelled adamw micro_1 seed 42" in cli("cancel", "adamw").stdout  # from another terminal, as Ctrl-C does
    assert driver.wait(timeout=60) == 130
    assert "Nothing is lost: the same command goes on" in (cli.root / "said.log").read_text()
    is_freed(simulated, strangers)
    driver = train(cli, simulated, "--checkpoint-every", "1")
    wait_for(lambda: steps_of(cli, 3) >= 5 and has_checkpoint(cli), driver, cli)
    (worker,) = wait_for(lambda: _only(set(simulated.ranks()) - strangers), driver, cli)
    os.kill(worker, signal.SIGKILL)  # after a checkpoint
    info = finish(driver, cli)
    assert info["bits_per_byte"] == pytest.approx(record["bits_per_byte"], rel=1e-6)
    assert (info["step_log"]["steps"], info["step_log"]["complete"]) == (record["train_config"]["steps"], True)
    attempts = info["attempts"]
    assert [attempt["first_step"] for attempt in attempts[:3]] == [0, 0, 0]
    assert 0 < attempts[3]["first_step"] <= attempts[2]["last_step"] + 1
    died = "the process died (killed, out of host memory, or a crash of native code)"
    assert [attempt["cause"] for attempt in attempts] == [died, None, died, None]
    assert [attempt["wall_seconds"] is None for attempt in attempts] == [False, True, False, False]
    replayed = attempts[2]["last_step"] + 1 - attempts[3]["first_step"]
    assert attempts[0]["lost_steps"] == attempts[0]["last_step"] + 1
    assert (attempts[2]["lost_steps"], attempts[3]["lost_steps"]) == (replayed, 0)
    assert info["spent_time"] > info["training_time"]


@pytest.fixture(scope="module")
def gang_record(simulated: Simulated, tmp_path_factory: pytest.TempPathFactory, downloads: Path) -> dict[str, Any]:
    """The record of a run on two hosts that nothing interrupted."""
    cli = make_project(tmp_path_factory.mktemp("gang") / "project", downloads)
    return finish(train(cli, simulated, "--steps", "20", program=("-c", GANG)), cli)


def test_two_hosts_train_as_one(gang_record: dict[str, Any], simulated: Simulated) -> None:
    said = "".join(log.read_text() for log in simulated.logs.glob("speedrun-rank-1-*.log"))
    assert "Initialized jax.distributed with 2 devices, 2 processes" in said
    # A batch that is split over two adds up in another order: nearly the same score, and one step log.
    assert gang_record["step_log"]["steps"] == 20
    assert len(gang_record["attempts"]) == 1


def test_loss_of_a_rank_and_of_a_node(
    simulated: Simulated, tmp_path: Path, downloads: Path, gang_record: dict[str, Any]
) -> None:
    cli = make_project(tmp_path / "project", downloads)
    driver = train(cli, simulated, "--steps", "20", "--checkpoint-every", "1", program=("-c", GANG))
    wait_for(lambda: steps_of(cli, 1) >= 3 and has_checkpoint(cli), driver, cli)
    second = wait_for(simulated.second_rank, driver, cli)
    os.kill(second, signal.SIGKILL)
    wait_for(lambda: steps_of(cli, 2) >= 3, driver, cli)
    simulated.lose(simulated.ranks()[wait_for(simulated.second_rank, driver, cli)])
    info = finish(driver, cli)
    assert info["bits_per_byte"] == pytest.approx(gang_record["bits_per_byte"], rel=1e-6)
    assert (info["step_log"]["steps"], info["step_log"]["complete"]) == (20, True)
    causes = [attempt["cause"] or "" for attempt in info["attempts"]]
    assert [cause.split(" (")[0][:5] for cause in causes] == ["the p", "node ", ""]
    assert "starting it again (crash 1, lost nodes 1)" in (cli.root / "said.log").read_text()
