"""The dry run as a user meets it: the price of each rung, over-budget recipes, and the cache."""

import json
from pathlib import Path

import pytest

from speedrun.cli.dry_run import parse_mfu
from speedrun.cost.estimate import RungCost, rung_costs
from speedrun.cost.plan import Range
from speedrun.errors import SpeedrunError
from speedrun.ladder import LADDER, STANDARD
from speedrun.project import Project
from tests.conftest import Cli, make_project


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A project in which AdamW has been priced on the standard rungs, for one and for eight chips."""
    cli = make_project(tmp_path_factory.mktemp("priced") / "project")
    costs = rung_costs(Project(cli.root), "adamw", STANDARD, [1, 8])
    assert all(isinstance(cost, RungCost) for cost in costs.values()), costs
    return cli


def test_known_figures_of_the_reference_ladder(priced: Cli) -> None:
    content = priced.json("dry-run", "adamw", "--hardware", "h100,h100x8")
    rungs = content["rungs"]
    assert [rungs[r]["parameters"] for r in rungs] == [33_784_960, 73_273_600, 299_649_792, 1_431_373_824]
    assert [rungs[r]["steps"] for r in rungs] == [1_863, 4_802, 7_794, 25_985]
    million = [round(3 * rungs[r]["charged_flops_per_token"] / 1e6, 2) for r in rungs]
    assert million == [110.57, 268.08, 1321.35, 8631.88]
    assert {rungs[r]["charged_by"] for r in rungs} == {"convention"}
    # Parameters and Adam's two moments in float32: 12 bytes a parameter, over the chips.
    for rung, cost in rungs.items():
        assert cost["memory"]["1"]["state_bytes"] == pytest.approx(12 * cost["parameters"], rel=1e-3), rung
        assert cost["memory"]["8"]["state_bytes"] == pytest.approx(12 * cost["parameters"] / 8, rel=0.02), rung
        assert 0.999 < cost["budget_used"] <= 1


def test_hours_and_dollars_follow_from_flops_peak_and_mfu(priced: Cli) -> None:
    plan = priced.json("dry-run", "adamw", "--rung", "1_4b", "--hardware", "h100x8", "--mfu", "40")["plans"]
    figures = plan["h100x8"]["1_4b"]
    # The budget over eight H100s at 989.5 TFLOP/s and 40 %.
    hours = 2.352e20 / (8 * 989.5e12 * 0.4) / 3600
    assert figures["hours"] == pytest.approx([hours, hours], rel=1e-3)
    assert figures["chip_hours"] == pytest.approx([8 * hours] * 2, rel=1e-3)
    assert figures["mfu_source"] == "--mfu"


def test_a_candidate_seen_before_is_priced_without_jax(priced: Cli) -> None:
    code = (
        "import sys; from speedrun.cli import main\n"
        "sys.argv = ['speedrun', 'dry-run', 'adamw', '--hardware', 'h100x8']\n"
        "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code\n"
        "print('HEAVY', sorted({'jax', 'levanter', 'marin'} & set(sys.modules)))"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=priced.environment())
    assert done.stdout.splitlines()[-1] == "HEAVY []", done.stdout + done.stderr


def test_seeds_and_a_baseline_without_records_multiply_the_total(priced: Cli) -> None:
    content = priced.json("dry-run", "adamw", "--rung", "30m")
    assert content["baseline_arm_needed"] == []
    said = priced("dry-run", "adamw", "--rung", "30m", "--seeds", "3").stdout
    assert "1 rung x 3 seeds" in said
    total = 3 * content["rungs"]["30m"]["model_flops"]
    assert f"{total:.3g} model FLOPs" in said
    totals = priced.json("dry-run", "adamw", "--rung", "30m", "--rung", "75m", "--seeds", "3")["totals"]["h100x8"]
    assert totals["runs"] == 6
    assert totals["model_flops"] == pytest.approx(3 * (1.08e17 + 6.75e17), rel=2e-3)


def test_the_markdown_is_a_table(priced: Cli) -> None:
    lines = priced("dry-run", "adamw", "--markdown").stdout.splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 5
    assert len({row.count("|") for row in rows}) == 1
    assert any("6ND would overstate it 1.83x" in line for line in lines)
    # Markdown ends a table at an empty line: what follows directly would become a row.
    assert lines[lines.index(rows[-1]) + 1] == ""


def write(cli: Cli, name: str, change: str, before: str = "") -> None:
    (cli.root / "executor_steps" / f"{name}.py").write_text(
        f"import dataclasses\nfrom speedrun import Author, Candidate, reference\n{before}\n\n"
        f"def recipe(rung):\n    base = reference.recipe(rung)\n    return base.replace({change})\n\n\n"
        f'CANDIDATE = Candidate(name="{name}", authors=[Author("A")], hypothesis="h", recipe=recipe)\n'
    )


def test_over_budget_fails_and_says_how_many_steps_fit(priced: Cli) -> None:
    write(priced, "greedy", "steps=1_900")
    rung_costs(Project(priced.root), "greedy", [LADDER["30m"]], [8])
    done = priced("dry-run", "greedy", "--rung", "30m", ok=False)
    assert done.returncode == 1
    assert "over budget: 1,900 steps; 1,863 steps fit" in done.stdout


def test_a_field_of_the_recipe_can_be_set(priced: Cli) -> None:
    half = {"batch_size": 256}
    rung_costs(Project(priced.root), "adamw", [LADDER["30m"]], [8], overrides=half)
    cost = priced.json("dry-run", "adamw", "--rung", "30m", "--batch_size", "256")["rungs"]["30m"]
    assert (cost["batch_size"], cost["steps"]) == (256, 3726)
    assert "adamw batch_size=256 on h100x8" in priced("dry-run", "adamw", "--rung", "30m", "--batch_size=256").stdout
    with pytest.raises(SpeedrunError, match="Did you mean 'batch_size'"):
        rung_costs(Project(priced.root), "adamw", [LADDER["30m"]], [8], overrides={"batch_siz": 256})


def test_a_target_that_nothing_compiles_for_is_refused_before_anything_is_traced(priced: Cli) -> None:
    done = priced("dry-run", "adamw", "--rung", "micro_4", "--compile", "w7900", ok=False)
    assert done.returncode == 2
    assert "it can for h100" in done.stderr and not done.stdout


def test_a_head_size_that_the_formula_ignores_is_found_and_charged(priced: Cli) -> None:
    write(priced, "wide", "model=dataclasses.replace(base.model, head_dim=128)")
    cost = rung_costs(Project(priced.root), "wide", [LADDER["300m"]], [1])["300m"]
    assert isinstance(cost, RungCost)
    assert cost.charged_by == "trace"
    # By hand, per layer: queries, keys, values and outputs of 64 more a head, and their scores over 1,024 positions.
    more = 12 * (2 * 768 * 36 * 64 + 2 * 768 * 12 * 64 + 4 * 1024 * 12 * 64)
    assert cost.traced_flops_per_token == 440.451072e6 - 3 * 1024 * 12 * 12 + more
    assert "17.6% low" in cost.disagreement
    assert cost.steps < 7_794


def test_a_candidate_that_raises_is_an_answer_of_its_own(priced: Cli) -> None:
    write(priced, "raises", "model=dataclasses.replace(base.model, num_heads=1 // 0)")
    done = priced("dry-run", "raises", "--rung", "30m", ok=False)
    assert done.returncode == 1
    assert "raises.py:7" in done.stdout and "ZeroDivisionError" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "no peak" not in done.stdout


def test_an_unknown_accelerator_says_how_to_declare_it(priced: Cli) -> None:
    done = priced("dry-run", "adamw", "--hardware", "rtx5090", ok=False)
    assert done.returncode == 2
    assert "rtx5090" in done.stderr and "declare its peak" in done.stderr


@pytest.mark.parametrize(
    ("text", "low", "high"), [("30-50", 0.3, 0.5), ("0.3-0.5", 0.3, 0.5), ("40%", 0.4, 0.4), ("50-30", 0.3, 0.5)]
)
def test_utilisation_is_read_as_people_write_it(text: str, low: float, high: float) -> None:
    assert parse_mfu(text) == Range(low, high)


@pytest.mark.parametrize("text", ["", "a-b", "0-50", "10-20-30", "150-300"])
def test_a_wrong_utilisation_is_refused(text: str) -> None:
    with pytest.raises(SpeedrunError, match="--mfu"):
        parse_mfu(text)


def test_a_damaged_cache_is_worked_out_again(tmp_path: Path) -> None:
    cli = make_project(tmp_path / "project")
    project = Project(cli.root)
    first = rung_costs(project, "adamw", [LADDER["micro_1"]], [1])
    (file,) = (cli.root / ".speedrun" / "cache" / "cost").rglob("micro_1.json")
    file.write_text("{")
    assert rung_costs(project, "adamw", [LADDER["micro_1"]], [1]) == first
    assert json.loads(file.read_text())["rung"] == "micro_1"
