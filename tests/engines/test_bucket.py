"""A run whose artifacts, checkpoints and step log lie in a bucket, against a server that speaks S3's interface."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.conftest import Cli, make_project

pytestmark = pytest.mark.slow


@pytest.fixture
def environment(s3: dict[str, str]) -> Iterator[dict[str, str]]:
    """Of a command whose store is a bucket of that server."""
    # Sockets of Ray have short names: not below tmp_path.
    folder = tempfile.mkdtemp(prefix="ray-")
    yield s3 | {"MARIN_PREFIX": "s3://speedrun-store/marin", "RAY_TMPDIR": folder}
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def objects(s3: dict[str, str]) -> Callable[[], list[str]]:
    """Lists the names in the bucket."""
    client = boto3.client("s3", endpoint_url=s3["AWS_ENDPOINT_URL"], aws_access_key_id="k", aws_secret_access_key="s")
    client.create_bucket(Bucket="speedrun-store")
    pages = client.get_paginator("list_objects_v2")

    def names() -> list[str]:
        return [entry["Key"] for page in pages.paginate(Bucket="speedrun-store") for entry in page.get("Contents", [])]

    return names


def rank_of(cli: Cli) -> int | None:
    """Process number of the worker that Ray has for ``cli``'s run."""
    for folder in Path("/proc").iterdir():
        try:
            is_rank = folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(b"ray::Rank")
            if is_rank and f"SPEEDRUN_PROJECT={cli.root}\0" in (folder / "environ").read_text():
                return int(folder.name)
        except OSError:
            continue
    return None


def test_a_worker_killed_right_after_a_checkpoint_in_a_bucket_is_followed_by_one_that_resumes(
    environment: dict[str, str],
    objects: Callable[[], list[str]],
    tmp_path: Path,
    downloads: Path,
    record: dict[str, Any],
) -> None:
    cli = make_project(tmp_path / "project", downloads)
    log = tmp_path / "said.log"
    words = ("run", "adamw", "--rung", "micro_1", "--engine", "ray", "--checkpoint-every", "1")
    with log.open("wb") as file:
        driver = subprocess.Popen(
            cli.command(*words), stdout=file, stderr=subprocess.STDOUT, env=cli.environment(**environment), cwd=cli.root
        )
    deadline = time.monotonic() + 300
    while not any("/checkpoints/" in name and name.endswith("metadata.json") for name in objects()):
        assert driver.poll() is None, log.read_text()
        assert time.monotonic() < deadline, "no checkpoint came:\n" + log.read_text()
        time.sleep(0.05)
    worker = rank_of(cli)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    assert driver.wait(timeout=300) == 0, log.read_text()

    (file,) = (cli.root / "results").rglob("speedrun_results.json")
    info = json.loads(file.read_text())["runs"][0]["run_info"]
    assert info["bits_per_byte"] == pytest.approx(record["bits_per_byte"], rel=1e-6)
    assert (info["step_log"]["steps"], info["step_log"]["complete"]) == (record["train_config"]["steps"], True)
    first, second = info["attempts"]
    # No step between the checkpoint and the log's last line is lost to the record.
    assert 0 < second["first_step"] <= first["last_step"] + 1
    assert first["cause"].startswith("the process died")
    store = cli.root / ".speedrun" / "store"
    assert [path for path in store.rglob("*") if path.is_file() and "compilation_cache" not in path.parts] == []
    kept = [path.read_bytes() for path in cli.root.rglob("*") if path.is_file()]
    assert not any(environment["AWS_SECRET_ACCESS_KEY"].encode() in content for content in (*kept, log.read_bytes()))
