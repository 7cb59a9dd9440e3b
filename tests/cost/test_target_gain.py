"""``speedrun dry-run --target-gain``: how many seeds a gain needs, and what they cost."""

import shutil
from pathlib import Path

import pytest

from speedrun.cost.estimate import rung_costs
from speedrun.ladder import rungs_named
from speedrun.project import Project
from tests.conftest import REPOSITORY, Cli, make_project


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A project with the public board, AdamW's own micro records, and what is asked here priced."""
    cli = make_project(tmp_path_factory.mktemp("target") / "project")
    for name in ("marin", "adamw"):
        shutil.copytree(REPOSITORY / "results" / name, cli.root / "results" / name)
    rung_costs(Project(cli.root), "muonh", rungs_named(["30m", "1_4b", "micro_4"]), [8])
    rung_costs(Project(cli.root), "adamw", rungs_named(["micro_4"]), [8])
    return cli


STANDARD = ("--rung", "30m", "--rung", "1_4b")


def test_on_the_public_ladder_it_takes_the_seeds_that_its_figures_give(cli: Cli) -> None:
    """With sigma 0.0004, p < 0.01 and 80 %, one seed shows 2.6 % at 154-300M and 5.2 % at 0.6-1.4B."""
    found = cli.json("dry-run", "muonh", *STANDARD, "--target-gain", "5%")["target_gain"]
    assert {rung: at["seeds_of_each"] for rung, at in found["rungs"].items()} == {"30m": 1, "1_4b": 2}
    assert any("borrowed from Marin's public board" in note for note in found["notes"])
    # Seeds grow with the square of the gain's inverse: more than (5 / 3)^2 x 1, at most (5 / 3)^2 x 2, rounded up.
    small = cli.json("dry-run", "muonh", "--rung", "1_4b", "--target-gain", "0.03")["target_gain"]["rungs"]["1_4b"]
    assert 3 <= small["seeds_of_each"] <= 6


def test_both_arms_are_paid_for_and_what_is_on_record_is_not(cli: Cli) -> None:
    found = cli.json("dry-run", "muonh", "--rung", "30m", "--target-gain", "5%", "--mfu", "40")
    (at,) = found["target_gain"]["rungs"].values()
    assert at["runs"] == 2
    assert at["model_flops"] == pytest.approx(2 * 1.08e17, rel=1e-3)
    # Two runs of 1.08e17 FLOPs on eight H100s at 989.5 TFLOP/s and 40 %.
    hours = 2 * 1.08e17 / (8 * 989.5e12 * 0.4) / 3600
    assert found["target_gain"]["totals"]["h100x8"]["hours"] == pytest.approx([hours, hours], rel=1e-3)
    micro = cli.json("dry-run", "muonh", "--rung", "micro_4", "--target-gain", "200%")["target_gain"]["rungs"][
        "micro_4"
    ]
    seeds, there = micro["seeds_of_each"], micro["baseline_seeds_on_record"]
    assert there >= 3 and micro["runs"] == seeds + max(0, seeds - there)
    own = cli.json("dry-run", "adamw", "--rung", "micro_4", "--target-gain", "200%")["target_gain"]["rungs"]["micro_4"]
    assert own["runs"] == max(0, seeds - there)


def test_without_any_curve_it_says_why_it_cannot_tell(tmp_path: Path) -> None:
    cli = make_project(tmp_path / "project")
    rung_costs(Project(cli.root), "adamw", rungs_named(["micro_1"]), [8])
    said = cli("dry-run", "adamw", "--rung", "micro_1", "--target-gain", "5%").stdout
    assert "cannot be told yet: the baseline has 0" in " ".join(said.split())


def test_it_is_part_of_the_markdown(cli: Cli) -> None:
    lines = cli("dry-run", "muonh", *STANDARD, "--target-gain", "5%", "--markdown").stdout.splitlines()
    assert "### To show a gain of 5 % in compute, on h100x8" in lines
    assert any(line.startswith("| 1_4b | 2 | 0 of adamw | 4 | 9.41e20 |") for line in lines)


@pytest.mark.parametrize("gain", ["lots", "0", "-5%"])
def test_a_gain_that_is_none_is_refused(cli: Cli, gain: str) -> None:
    done = cli("dry-run", "muonh", f"--target-gain={gain}", ok=False)
    assert done.returncode == 2 and "--target-gain" in done.stderr
