"""Shared fixtures: projects in temporary folders, the command line as a user has it, and one real run."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
"""Real files of others, read where they are and committed nowhere."""


@dataclass(frozen=True)
class Cli:
    """The installed command, run in a project of its own."""

    root: Path

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "speedrun", *words]

    def environment(self, **more: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB", "HF_", "MARIN"))}
        # The compilation cache is shared by all tests: compiling is most of what a small run takes.
        return kept | {"SPEEDRUN_PROJECT": str(self.root), "COLUMNS": "160"} | more

    def __call__(
        self, *words: str, ok: bool = True, env: Mapping[str, str] | None = None, timeout: float = 400
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment(**(env or {})),
            cwd=self.root,
        )
        if ok:
            assert done.returncode == 0, done.stderr + done.stdout
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(),
            cwd=self.root,
            # Whoever runs the tests in the background has them ignore Ctrl-C; a user's shell does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus file, fetched once for all tests."""
    from speedrun.steps.corpus import _find_wiki_file

    folder = tmp_path_factory.mktemp("downloads")
    _find_wiki_file(folder)
    return folder


def make_project(root: Path, downloads: Path | None = None) -> Cli:
    """A project with the repository's candidates and nothing else."""
    (root / "executor_steps").mkdir(parents=True)
    for file in (REPOSITORY / "executor_steps").glob("*.py"):
        shutil.copy(file, root / "executor_steps")
    if downloads is not None:
        shutil.copytree(downloads, root / ".speedrun" / "downloads")
    return Cli(root)


@pytest.fixture
def project(tmp_path: Path) -> Cli:
    """A fresh project without data: for what needs no training."""
    return make_project(tmp_path / "project")


@pytest.fixture
def new_project(tmp_path: Path, downloads: Path) -> Callable[[str], Cli]:
    """Makes fresh projects that can train."""
    return lambda name: make_project(tmp_path / name, downloads)


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """The environment in which s3:// is a server on this machine, that speaks the real interface."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "a-key-for-moto",
        "AWS_SECRET_ACCESS_KEY": "a-secret-for-moto",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server.stop()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, downloads: Path) -> Cli:
    """A project in which AdamW was really trained at micro_1, with two seeds. Read it; do not change it."""
    cli = make_project(tmp_path_factory.mktemp("trained") / "project", downloads)
    cli("run", "adamw", "--rung", "micro_1", "--seeds", "2")
    return cli


@pytest.fixture(scope="session")
def record(trained: Cli) -> dict[str, Any]:
    """The record of the first seed of ``trained``."""
    file = trained.root / "results" / "adamw" / "micro_1" / "speedrun_results.json"
    return json.loads(file.read_text())["runs"][0]["run_info"]
