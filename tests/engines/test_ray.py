"""Runs through Ray: the same bits, the user's own errors, no secrets left behind."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, make_project

pytestmark = pytest.mark.slow

SECRET = "hf_this-must-not-be-kept-anywhere"
BROKEN = '''
"""A candidate whose optimizer cannot be built."""
from dataclasses import dataclass
from levanter.optim.config import AdamConfig, OptimizerConfig
from speedrun import Author, Candidate, Recipe, Rung, reference


class NormError(Exception):
    """An error that no worker has a module for."""


@OptimizerConfig.register_subclass("broken")
@dataclass(frozen=True)
class BrokenConfig(AdamConfig):
    def build(self, num_train_steps):
        raise NormError("the norm of nothing")


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(optimizer=BrokenConfig(learning_rate=0.001))


CANDIDATE = Candidate(
    name="broken", authors=[Author("A", "B")], hypothesis="None.", baseline="adamw", recipe=recipe
)
'''


@pytest.fixture
def ray_files() -> Iterator[Path]:
    """A folder for Ray's own logs. Not below tmp_path: sockets have short names."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_the_micro_run_has_the_same_bits_and_keeps_no_secret(
    trained: Cli, tmp_path: Path, downloads: Path, record: dict[str, Any], ray_files: Path
) -> None:
    cli = make_project(tmp_path / "project", downloads)
    environment = {"RAY_TMPDIR": str(ray_files), "HF_TOKEN": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET}
    (cli.root / "executor_steps" / "broken.py").write_text(BROKEN.lstrip())
    said = cli("run", "adamw", "--rung", "micro_1", "--engine", "ray", env=environment)
    file = cli.root / "results" / "adamw" / "micro_1" / "speedrun_results.json"
    info = json.loads(file.read_text())["runs"][0]["run_info"]
    assert info["bits_per_byte"] == record["bits_per_byte"]
    assert info["run_key"] == record["run_key"]
    (log,) = (cli.root / ".speedrun" / "logs").glob("*.log")
    # What rank 0 says stands in the run's log.
    assert re.search(r"Rank pid=.*levanter.checkpoint", log.read_text())

    failed = cli("run", "broken", "--rung", "micro_1", "--engine", "ray", env=environment, ok=False)
    assert failed.returncode == 1, failed.stderr
    assert "NormError: the norm of nothing" in failed.stderr
    assert "executor_steps/broken.py:15, in build" in failed.stderr
    assert "Traceback" not in failed.stderr

    assert SECRET not in said.stdout + said.stderr + failed.stdout + failed.stderr
    kept = [path for folder in (cli.root, ray_files) for path in folder.rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    assert any("worker-" in path.name for path in kept), "Ray's logs were not looked at"
