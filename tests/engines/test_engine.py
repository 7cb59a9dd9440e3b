"""How an engine is chosen."""

import pytest

from tests.conftest import Cli


def test_an_address_of_ray_needs_the_engine_ray(project: Cli) -> None:
    done = project("run", "adamw", "--rung", "micro_1", "--ray-address", "head:6379", ok=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--ray-address head:6379 is for --engine ray, and the engine is local" in done.stderr


def test_iris_is_found_by_its_own_variable_and_by_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    from speedrun.engines.engine import engine_found

    monkeypatch.delenv("IRIS_TASK_ID", raising=False)
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert engine_found() == "local"
    monkeypatch.setenv("IRIS_TASK_ID", "/job/0")
    assert engine_found() == "iris"


def test_iris_outside_of_a_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from speedrun.engines.engine import open_engine
    from speedrun.errors import SpeedrunError

    monkeypatch.delenv("IRIS_TASK_ID", raising=False)
    with pytest.raises(SpeedrunError, match="works inside a job of Marin's Iris"):
        open_engine("iris", "/nowhere")


def test_rays_client_protocol_is_refused() -> None:
    from speedrun.engines.cluster import connect
    from speedrun.errors import SpeedrunError

    with pytest.raises(SpeedrunError, match="ray job submit"):
        connect("ray://head:10001")
