"""`speedrun diff`: what one candidate changes against another."""

from pathlib import Path

import pytest

from speedrun.catalog import own_lines
from tests.conftest import Cli

REPOSITORY = Path(__file__).parents[2]
OPTIMIZERS = ("adamh", "cautious", "kron", "lion", "muon", "soap")


def test_it_shows_the_fields_that_differ_and_the_lines_behind_them(project: Cli) -> None:
    shown = project.json("diff", "adamw", "lion", "--rung", "micro_1", "--rung", "30m")
    changes = {(row["field"], *row["rungs"]): (row["first"], row["second"]) for row in shown["changes"]}
    assert changes["optimizer.weight_decay", "micro_1", "30m"] == (0.1, 0.7)
    assert changes["optimizer.learning_rate", "30m"] == (0.003, 0.001)
    assert {row["field"].partition(".")[0] for row in shown["changes"]} == {"optimizer"}
    assert shown["own_lines"]["adamw"] == 1


def test_a_candidate_is_no_different_from_itself(project: Cli) -> None:
    done = project("diff", "adamw", "adamw", "--rung", "micro_1")
    assert "No setting differs" in done.stdout


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_candidate_that_changes_the_optimizer_has_at_most_12_lines_of_its_own(name: str) -> None:
    assert 1 <= own_lines((REPOSITORY / "executor_steps" / f"{name}.py").read_bytes()) <= 12


def test_own_lines_are_code_that_says_the_method() -> None:
    text = b'''"""A docstring
of two lines."""

from levanter.optim.muon import MuonConfig  # 1

from speedrun import Author, Candidate, reference

# A comment.
RATE = 0.02  # 2


def recipe(rung):  # 3
    """What it does,
    in two lines."""

    return reference.recipe(rung).replace(  # 4
        # Within a statement too.
        optimizer=MuonConfig(learning_rate=RATE),  # 5
    )  # 6


CANDIDATE = Candidate(
    name="mine",
    authors=[Author("A")],
    hypothesis="h",
    recipe=recipe,  # 7
    rungs=(  # 8
        "micro_1",  # 9
    ),  # 10
)

if __name__ == "__main__":
    CANDIDATE.main()
'''
    assert own_lines(text) == 10
