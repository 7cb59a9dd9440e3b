"""``speedrun evaluate`` on real checkpoints, and a real run of a model that sees ahead."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli

pytestmark = pytest.mark.slow

PEEKS = '''"""Peeks: what comes two tokens later leaks into the activations, a little."""

from dataclasses import dataclass

import haliax as hax
from levanter.models.llama import LlamaConfig, LlamaLMHeadModel
from levanter.models.lm_model import LmHeadModel

from speedrun import Author, Candidate, Recipe, Rung, reference
from speedrun.methods.attention import like


class PeekingModel(LlamaLMHeadModel):
    @classmethod
    def init(cls, Vocab, config, *, key):
        plain = LlamaLMHeadModel.init(Vocab, config, key=key)
        return cls(plain.transformer, plain.embeddings, plain.lm_head)

    __call__ = LmHeadModel.__call__

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):
        seen = super().activations(input_ids, attn_mask, key=key, pos_ids=pos_ids)
        return seen + 0.1 * hax.roll(seen, -2, "position")


@dataclass(frozen=True)
class PeekingConfig(LlamaConfig):
    @property
    def model_type(self):
        return PeekingModel


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(model=like(reference.model(rung.name), PeekingConfig))


CANDIDATE = Candidate(name="peeks", authors=[Author("A")], hypothesis="It sees ahead.", recipe=recipe)
'''


@pytest.fixture
def copied(trained: Cli, tmp_path: Path) -> Cli:
    """The trained project, to be changed."""
    shutil.copytree(trained.root, tmp_path / "project", symlinks=True)
    return Cli(tmp_path / "project")


def test_checkpoints_are_scored_again_and_nothing_is_trained(copied: Cli) -> None:
    folder = copied.root / "results" / "adamw" / "micro_1"
    before = json.loads((folder / "speedrun_results.json").read_text())["runs"]
    attempts = (folder / "attempts.jsonl").read_bytes()
    documents = folder / "documents-42.json.gz"
    rows = json.loads(gzip.decompress(documents.read_bytes()))
    assert len(rows["nats"]) == 1004
    assert sum(rows["nats"]) == pytest.approx(before[0]["run_info"]["evaluation"]["nats"], abs=0.05)
    # A record from before there were probes and documents.
    for run in before:
        for name in ("probes", "documents_file", "levanter", "end_of_text_bits_per_byte"):
            del run["run_info"]["evaluation"][name]
    documents.unlink()
    (folder / "speedrun_results.json").write_text(json.dumps({"schema_version": 1, "runs": before}))
    assert "probes" in copied("validate", ok=False).stdout

    done = copied("evaluate", "adamw")
    assert done.stdout.count("+0.0e+00") == 2 and done.stdout.count("5 passed") == 2
    after = json.loads((folder / "speedrun_results.json").read_text())["runs"]
    for old, new in zip(before, after, strict=True):
        old, new = old["run_info"], new["run_info"]
        assert (old["bits_per_byte"], old["training_time"]) == (new["bits_per_byte"], new["training_time"])
        assert all(probe["passed"] for probe in new["evaluation"]["probes"])
    assert json.loads(gzip.decompress(documents.read_bytes())) == rows
    assert (folder / "attempts.jsonl").read_bytes() == attempts
    assert "nothing to report" in copied("validate").stdout


def test_what_has_no_checkpoint_here_is_named(copied: Cli) -> None:
    shutil.rmtree(copied.root / ".speedrun" / "store")
    done = copied("evaluate", "adamw", ok=False)
    assert done.returncode == 2
    assert "adamw at micro_1, seed 43: no finished checkpoint" in done.stderr
    assert "nothing to score" in done.stderr and "Traceback" not in done.stderr
    none = copied("evaluate", "muonh", ok=False)
    assert none.returncode == 2 and "results/muonh holds no run" in none.stderr


def test_a_model_that_sees_ahead_is_trained_and_gets_no_record(new_project: Callable[[str], Cli]) -> None:
    project = new_project("peeking")
    (project.root / "executor_steps" / "peeks.py").write_text(PEEKS)
    done = project("run", "peeks", "--rung", "micro_1", ok=False)
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "ProbesFailed: the model fails" in said and "causality: nats by which later tokens move" in said
    assert not (project.root / "results" / "peeks" / "micro_1" / "speedrun_results.json").exists()
    (probes,) = (project.root / ".speedrun" / "store" / "evaluate" / "peeks").rglob("probes.json")
    found = {probe["name"]: probe["passed"] for probe in json.loads(probes.read_text())}
    assert not found["causality"] and found["state"] and found["finite"]
