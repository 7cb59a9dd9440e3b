"""What travels to a worker and back, without a cluster."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli

WORKER = """
import pickle, sys
from speedrun.engines.rank import Place, Rank
failure = Rank().run(pickle.load(open(sys.argv[1], "rb")), {"TOLD": "yes"}, Place(0, 1))
pickle.dump(failure, open(sys.argv[2], "wb"))
"""
FAILING = '''"""A candidate that fails in its own way."""
import os

from speedrun import Author, Candidate, reference


class NormError(Exception):
    """No worker has a module for it."""


def fail() -> None:
    assert os.environ["TOLD"] == "yes"
    raise NormError("the norm of nothing")


CANDIDATE = Candidate(
    name="failing", authors=[Author("A", "B")], hypothesis="None.", baseline="adamw", recipe=reference.recipe
)
'''


def test_a_candidates_own_error_comes_back_with_its_line(project: Cli, tmp_path: Path) -> None:
    from fray.types import Entrypoint

    from speedrun.catalog import load_candidate
    from speedrun.engines.ray import _job
    from speedrun.project import Project

    file = project.root / "executor_steps" / "failing.py"
    file.write_text(FAILING)
    load_candidate(Project(project.root), "failing")
    module = sys.modules["executor_steps.failing"]
    job, answer = tmp_path / "job", tmp_path / "answer"
    job.write_bytes(pickle.dumps(_job(Entrypoint.from_callable(module.fail))))
    done = subprocess.run([sys.executable, "-c", WORKER, str(job), str(answer)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    error = pickle.loads(answer.read_bytes()).exception()
    assert isinstance(error, module.NormError)
    assert str(error) == "the norm of nothing"
    assert error.remote_frames[-1] == (str(file), 13, "fail")
    # The worker's own log shows the line though it has no such module.
    assert 'raise NormError("the norm of nothing")' in done.stderr


def test_a_worker_is_told_what_it_needs_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    from fray.types import Entrypoint, JobRequest, ResourceConfig, create_environment

    from speedrun.engines.ray import _environment

    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("WANDB_API_KEY", "key")
    monkeypatch.setenv("SOME_OTHER_SECRET", "secret")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_from-a-file")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    gpu = ResourceConfig.with_gpu("H100", count=8)
    told = _environment(JobRequest("job", Entrypoint.from_callable(print), gpu, create_environment()))
    # Said although it is empty: a worker on this machine would otherwise inherit "cpu".
    assert told["JAX_PLATFORMS"] == ""
    assert (told["WANDB_API_KEY"], told["HF_TOKEN"]) == ("key", "hf_from-a-file")
    assert "SOME_OTHER_SECRET" not in told
