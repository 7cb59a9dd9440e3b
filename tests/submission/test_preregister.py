"""``speedrun preregister``: refusals that cost nothing, and the real thing once."""

from typing import Any

import pytest

from speedrun.errors import SpeedrunError
from speedrun.hardware import parse_hardware
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.preregistrations import Plan, PlannedRung, read_preregistration
from speedrun.submission.power_plan import cost_sheet, power_sheet
from speedrun.submission.preregister import parse_gain


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody", "--rung", "micro_1"], "unknown candidate 'nobody'"),
        (["adamw"], "say with --rung"),
        (["adamw", "--rung", "micro_9"], "unknown rung 'micro_9'"),
        (["adamw", "--rung", "micro_1", "--rung", "30m"], "two ladders"),
        (["adamw", "--rung", "micro_1", "--seeds", "0"], "--seeds must be 1 to 64"),
        (["adamw", "--rung", "micro_1", "--hardware", "h9000"], "unknown accelerator"),
        (["adamw", "--rung", "micro_1", "--smallest-gain", "lots"], "--smallest-gain lots"),
        (["../x", "--rung", "micro_1"], "is no candidate name"),
    ],
)
def test_mistakes_are_found_before_anything_is_loaded_or_written(project: Any, words: list[str], message: str) -> None:
    done = project("preregister", *words, ok=False)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert not (project.root / "preregistrations").exists()


@pytest.mark.parametrize(("text", "gain"), [("5%", 0.05), ("0.05", 0.05), (" 2.5 % ", 0.025), ("100%", 1.0)])
def test_gains_are_read_in_both_ways_of_writing_them(text: str, gain: float) -> None:
    assert parse_gain(text, "--x") == pytest.approx(gain)


@pytest.mark.parametrize("text", ["", "%", "-5%", "0", "nan", "inf", "1e9", "five"])
def test_gains_that_are_none(text: str) -> None:
    with pytest.raises(SpeedrunError, match="--x"):
        parse_gain(text, "--x")


def plan(rungs: list[str], seeds: int, smallest: float = 0.02) -> Plan:
    planned = {
        rung: PlannedRung(
            recipe_fingerprint="f",
            model_settings={},
            train_settings={},
            versions={},
            tokens=1,
            model_flops=LADDER[rung].budget_flops,
            seeds=list(range(42, 42 + seeds)),
        )
        for rung in rungs
    }
    return Plan(
        candidate="muonh",
        baseline="adamw",
        registered="",
        source_digest="",
        expected_gain=None,
        smallest_gain=smallest,
        hardware="",
        rungs=planned,
    )


def test_power_needs_three_rungs_of_the_baseline_and_says_so(tree: Any) -> None:
    sheet = power_sheet(Project(tree.root), plan(["micro_1"], 3))
    assert not sheet.rows and "cannot be told yet" in sheet.after[0]


def test_more_seeds_show_smaller_gains_and_larger_gains_need_fewer_seeds(tree: Any) -> None:
    tree.add("adamw", "micro_3", score=2.3)
    tree.add("adamw", "micro_4", score=2.2)
    project = Project(tree.root)

    def shown(seeds: int) -> float:
        return float(power_sheet(project, plan(["micro_2"], seeds)).rows[0][2].rstrip("%"))

    assert shown(3) > shown(5) > shown(20) > 0
    small, large = (power_sheet(project, plan(["micro_2"], 3, gain)).rows[0][3] for gain in (0.5, 3.0))
    assert small == "more than 64" or int(small) >= int(large)


def test_the_cost_counts_the_baselines_arm_where_it_has_no_record(tree: Any) -> None:
    (h100,) = parse_hardware("h100x8")
    both = cost_sheet(Project(tree.root), plan(["30m", "75m"], 3), h100)
    assert [row[1] for row in both.rows] == ["3", "6, half of them adamw's, which has no record"]
    # 3 x 1.08e17 + 6 x 6.75e17
    assert both.rows[0][2] == "3.24e17" and both.rows[1][2] == "4.05e18"
    assert "4.37e18 model FLOPs" in both.after[0]
    (cpu,) = parse_hardware("cpu")
    assert "hours cannot be told" in cost_sheet(Project(tree.root), plan(["micro_1"], 1), cpu).after[-1]


@pytest.mark.slow
def test_a_real_preregistration_stands_until_the_recipe_changes(project: Any) -> None:
    done = project("preregister", "muonh", "--rung", "micro_1", "--rung", "micro_2", "--expected-gain", "10%")
    path = project.root / "preregistrations" / "muonh.md"
    assert path.read_text() in done.stdout
    found = read_preregistration(path)
    assert found is not None and found.intact and found.issue is None
    assert list(found.plan.rungs) == ["micro_1", "micro_2"]
    planned = project.json("plan", "muonh", "--rung", "micro_1")[0]
    assert found.plan.rungs["micro_1"].recipe_fingerprint == planned["recipe_fingerprint"]
    assert found.plan.rungs["micro_1"].tokens == 127 * 8 * 256
    for part in ("Hypothesis", "What changes against adamw", "Regime", "Decision rule", "Stopping rule", "Cost"):
        assert f"## {part}" in done.stdout
    assert "| optimizer.type | micro_1, micro_2 |" in done.stdout
    again = project("preregister", "muonh", "--rung", "micro_1", ok=False)
    assert again.returncode == 2 and "--replace registers anew" in again.stderr
    project("preregister", "muonh", "--issue", "12")
    numbered = read_preregistration(path)
    assert numbered is not None and (numbered.issue, numbered.intact) == (12, True)
    assert project("validate").returncode == 0
