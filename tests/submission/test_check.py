"""Gate 1 on candidates that are right, and on each kind that is wrong."""

from pathlib import Path
from textwrap import dedent

import pytest

from speedrun.catalog import load_candidate
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.submission.check import RungCheck, check_rung, losses_line

CANDIDATE = """
import dataclasses
import itertools
from levanter.models.llama import LlamaConfig, LlamaLMHeadModel
from levanter.optim.muonh import MuonHConfig
from speedrun import Author, Candidate, reference

{before}


def recipe(rung):
    base = reference.recipe(rung)
    return base.replace({change})


CANDIDATE = Candidate(name="mine", authors=[Author("A")], hypothesis="h", recipe=recipe)
"""


def check(tmp_path: Path, change: str, before: str = "", rung: str = "micro_1") -> RungCheck:
    folder = tmp_path / "executor_steps"
    folder.mkdir()
    (folder / "mine.py").write_text(CANDIDATE.format(change=change, before=dedent(before)))
    return check_rung(load_candidate(Project(tmp_path), "mine"), LADDER[rung])


def failures(check: RungCheck) -> dict[str, str]:
    return {line.question: line.text for line in check.lines if line.state == "failed"}


def test_a_matrix_optimizer_on_the_reference_model_passes(tmp_path: Path) -> None:
    found = check(tmp_path, "optimizer=MuonHConfig()")
    assert failures(found) == {}
    groups = {row.path: row.group for row in found.groups}
    assert sorted(set(groups.values())) == ["adam", "adamh", "muonh"]
    assert {group for path, group in groups.items() if ".mlp." in path} == {"muonh"}
    assert found.forward_flops_per_token == 408_576


def test_a_recipe_that_raises_fails_at_its_line(tmp_path: Path) -> None:
    found = check(tmp_path, "batch_size={}['x']")
    assert list(failures(found)) == ["the recipe builds"]
    assert "mine.py:13" in found.lines[-1].text


def test_a_recipe_that_depends_on_chance_fails(tmp_path: Path) -> None:
    found = check(tmp_path, "z_loss_weight=next(COUNT) * 1e-9", "COUNT = itertools.count()")
    assert "twice gives two recipes" in failures(found)["it reads the same from JSON"]


def test_too_many_steps_fail(tmp_path: Path) -> None:
    assert "127 steps fit" in failures(check(tmp_path, "steps=200"))["it is within the budget"]


def test_a_batch_that_does_not_divide_is_worth_a_warning(tmp_path: Path) -> None:
    found = check(tmp_path, "batch_size=6")
    line = next(line for line in found.lines if line.question == "batch and length divide the mesh")
    assert (line.state, "6" in line.text) == ("warn", True)


def test_a_model_that_cannot_be_built_fails_with_its_own_error(tmp_path: Path) -> None:
    before = """
    class Broken(LlamaConfig):
        def build(self, Vocab, *, key):
            raise ValueError("no such layer")
    """
    fields = "{f.name: getattr(base.model, f.name) for f in dataclasses.fields(base.model)}"
    found = check(tmp_path, f"model=Broken(**{fields})", before)
    assert "no such layer" in " ".join(failures(found).values())


def test_a_matrix_optimizer_that_covers_no_matrix_fails(tmp_path: Path) -> None:
    before = """
    import haliax
    import optax
    from levanter.optim.config import AdamConfig

    class Blind(AdamConfig):
        def build(self, num_train_steps):
            rules = {"matrix": optax.sgd(0.1), "plain": optax.adam(1e-3)}
            return optax.multi_transform(rules, lambda p: haliax.tree_util.tree_map(lambda _: "plain", p))
    """
    found = check(tmp_path, "optimizer=Blind()", before)
    # Every parameter in the plain group: the method's name stands on it, and nothing of the method is done.
    assert "covers no matrix" in failures(found)["the optimizer covers its matrices"]
    assert {row.group for row in found.groups} == {"plain"}


@pytest.mark.parametrize(
    ("losses", "state"),
    [
        ([7.0] + [6.0] * 10, "passed"),
        ([7.0] * 11, "failed"),
        ([7.0] + [8.0] * 10, "failed"),
        ([7.0, 6.0], "failed"),
        ([7.0] * 5 + [float("nan")] * 6, "failed"),
    ],
)
def test_a_short_run_must_lower_the_loss(losses: list[float], state: str) -> None:
    assert losses_line(losses).state == state
