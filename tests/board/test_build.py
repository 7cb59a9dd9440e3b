"""The board of known records: ranks, intervals, ladders, badges, the cache."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from speedrun.board import build
from speedrun.board.build import board
from speedrun.board.flat import flat_rows
from speedrun.board.markdown import board_markdown, pages
from speedrun.board.pairs import report
from speedrun.errors import SpeedrunError
from speedrun.project import Project

REPOSITORY = Path(__file__).parents[2]


def at(shown, candidate: str, rung: str):
    return next(
        arm for ladder in shown.ladders for arm in ladder.arms if (arm.candidate, arm.rung) == (candidate, rung)
    )


def test_ranks_follow_the_speedup_and_the_intervals_hold_the_truth(known_board) -> None:
    (ladder,) = known_board.ladders
    for rung in ("micro_1", "micro_2", "micro_3"):
        order = [arm.candidate for arm in ladder.arms if arm.rung == rung]
        assert order == ["faster", "adamw", "slower"]
        found = at(known_board, "faster", rung).speedup
        assert found.value == pytest.approx(1.3, rel=0.01)
        assert found.low < 1.3 < found.high
        assert at(known_board, "slower", rung).speedup.value == pytest.approx(0.8, rel=0.01)
    assert [at(known_board, name, "micro_3").verdict for name in ("faster", "adamw", "slower")] == [
        "better",
        "",
        "worse",
    ]
    assert at(known_board, "slower", "micro_2").beaten_by == "adamw, faster"


def test_the_score_has_students_interval(known_board) -> None:
    # sigma 0.001 from 6 degrees of freedom: t = 1.943, so the half width is 1.943 x 0.001 / sqrt(3).
    score = at(known_board, "faster", "micro_1").bits_per_byte
    assert score.value == pytest.approx(1.5 + 1.3**-0.2, abs=1e-9)
    assert (score.high - score.low) / 2 == pytest.approx(0.0011219, rel=1e-3)


def test_an_erratic_candidate_is_not_measured_by_the_steady_baseline(writer) -> None:
    writer.ladder({"adamw": 1.0})
    wild = {42: -0.2, 43: 0.0, 44: 0.2}
    for rung in ("micro_1", "micro_2", "micro_3"):
        writer.arm("wild", rung, 1.3, change=lambda info: info.update(bits_per_byte=1.9 + wild[info["seed"]]))
    score = at(writer.board(), "wild", "micro_1").bits_per_byte
    assert score.high - score.low > 0.1


def test_micro_and_standard_rungs_are_two_ladders(writer) -> None:
    writer.ladder({"adamw": 1.0, "faster": 1.3})
    writer.arm("adamw", "30m", change=lambda info: info.update(bits_per_byte=1.4))
    writer.arm("faster", "30m", change=lambda info: info.update(bits_per_byte=1.3))
    shown = writer.board()
    assert [ladder.name for ladder in shown.ladders] == ["micro", "standard"]
    standard = at(shown, "faster", "30m")
    assert standard.speedup.value is None and "3" in standard.speedup.reason
    assert standard.verdict == "better"
    assert all(budget < 1e13 for line in shown.ladders[0].lines for budget in line.point_flops)


def test_without_a_baseline_nothing_is_ranked_and_the_board_says_why(writer) -> None:
    writer.arm("alone", "micro_1")
    shown = writer.board()
    assert at(shown, "alone", "micro_1").rank is None
    assert "adamw has no record" in at(shown, "alone", "micro_1").not_ranked
    assert "adamw has no record" in board_markdown(shown)


@pytest.mark.parametrize(
    ("flag", "change"),
    [
        ("misplaced", lambda info: info.update(candidate="somebody")),
        ("other_protocol", lambda info: info["evaluation"].update(protocol=2)),
        ("own_corpus", lambda info: info.update(corpus="user")),
        ("other_evaluation", lambda info: info.update(evaluation_data="c4_en_proxy")),
        ("over_budget", lambda info: info.update(model_flops=info["budget_flops"] * 1.01)),
        ("no_score", lambda info: info.update(bits_per_byte=0.0)),
        ("mixed_recipes", lambda info: info.update(recipe_fingerprint=str(info["seed"]))),
        ("repeated_seed", lambda info: info.update(seed=42)),
        ("copied", lambda info: info.update(wandb_run_link="https://wandb.ai/x/runs/one")),
    ],
)
def test_what_cannot_be_compared_is_shown_and_not_ranked(writer, flag: str, change) -> None:
    writer.ladder({"adamw": 1.0})
    writer.arm("odd", "micro_1", 2.0, change=change)
    row = at(writer.board(), "odd", "micro_1")
    assert row.rank is None and row.not_ranked
    assert all(flag in run.flags for run in row.runs)
    assert "odd" in board_markdown(writer.board())


def test_badges_come_from_what_lies_beside_the_record(writer) -> None:
    writer.ladder({"adamw": 1.0})
    writer.arm("odd", "micro_1", seeds=1, change=lambda info: info.update(git_dirty=True))
    folder = writer.project.results / "odd"
    info = json.loads((folder / "micro_1" / "speedrun_results.json").read_text())["runs"][0]["run_info"]
    line = {"question": "it traces", "state": "passed", "text": ""}
    (folder / "check.json").write_text(json.dumps({"rungs": [{"rung": "micro_1", "lines": [line]}]}))
    points = [
        {"overrides": {"lr": lr}, "seed": 42, "recipe_fingerprint": digest, "bits_per_byte": 2.0, "model_flops": 3e11}
        | {"training_time": 1.0}
        for lr, digest in ((0.1, "a"), (0.2, info["recipe_fingerprint"]))
    ]
    (folder / "micro_1" / "sweep.json").write_text(json.dumps({"schema_version": 1, "points": points}))
    row = at(writer.board(), "odd", "micro_1")
    assert row.badges == ["gate 1", "probes passed", "single seed", "dirty tree", "edge of search"]
    assert (row.search_runs, row.search_flops) == (2, 6e11)


def test_a_ladder_that_was_ended_for_futility_says_so_until_it_goes_on(writer) -> None:
    writer.ladder({"adamw": 1.0, "futile": 0.95}, ("micro_1", "micro_2"))
    decision = {"at": "2026-12-01 00:00:00 UTC", "baseline": "adamw", "after_rung": "micro_2", "is_futile": True}
    decision |= {"claimed_speedup": 1.05, "highest_speedup": 0.9731, "reason": "<b>no room</b>"}
    file = writer.project.results / "futile" / "micro_2" / "futility.jsonl"
    file.write_text(json.dumps(decision | {"is_futile": False}) + "\n" + json.dumps(decision) + "\n")
    shown = writer.board()
    assert at(shown, "futile", "micro_2").badges == ["probes passed", "ended early"]
    assert at(shown, "futile", "micro_1").badges == ["probes passed"]
    assert "futile: its ladder was ended after micro_2" in board_markdown(shown)
    said = report(writer.project, ["futile"], None).whole or report(writer.project, ["futile"], None).steps
    assert "1.05 was claimed" in said[0].ended and "at most 0.9731" in said[0].ended
    writer.arm("futile", "micro_3", 0.95)
    assert at(writer.board(), "futile", "micro_2").badges == ["probes passed"]
    file.write_text("damaged")
    assert at(writer.board(), "futile", "micro_2").ended == ""


def test_compare_and_the_board_show_the_same_interval(writer) -> None:
    writer.ladder({"adamw": 1.0, "faster": 1.3})
    wild = {42: -0.02, 43: 0.0, 44: 0.02}
    for rung in ("micro_1", "micro_2", "micro_3"):
        writer.arm("wild", rung, 1.3, change=lambda info: info.update(bits_per_byte=1.9 + wild[info["seed"]]))
    shown = writer.board()
    for name in ("faster", "wild"):
        (pair,) = report(writer.project, [name], None).steps
        for rung in pair.rungs:
            row = at(shown, name, rung.rung)
            assert (row.speedup, row.bits_per_byte) == (rung.speedup, rung.candidate.bits_per_byte)


@pytest.mark.parametrize(
    ("change", "badge"),
    [
        (lambda probes: None, "probes passed"),
        (lambda probes: probes.clear(), "not probed"),
        (lambda probes: probes.pop(), "not probed"),
        (lambda probes: probes[1].update(passed=False), "probes failed"),
        # A record that says otherwise than it measured, or sets its own limit.
        (lambda probes: probes[1].update(value=0.5, limit=1.0), "probes failed"),
    ],
)
def test_probes_are_told_from_what_was_measured(writer, change, badge: str) -> None:
    writer.ladder({"adamw": 1.0})
    writer.arm("odd", "micro_1", change=lambda info: change(info["evaluation"]["probes"]))
    row = at(writer.board(), "odd", "micro_1")
    assert row.badges == [badge] and row.probes == badge
    assert [each["probes"] for each in flat_rows(writer.board()) if each["candidate"] == "odd"] == [badge]


def test_targets_name_who_gets_there_with_least_compute(known_board) -> None:
    (ladder,) = known_board.ladders
    track = next(track for track in ladder.tracks if track.name == "adamw at micro_2")
    assert track.by_flops[0].name == "faster at micro_2"
    assert all(hit.bits_per_byte <= track.bits_per_byte for hit in track.by_flops + track.by_time)


def test_causal_flops_count_half_of_the_attention(known_board) -> None:
    # micro_1: width 48, 2 heads, 2 layers, length 256, 127 steps of 8 sequences; half of 256 positions is 128.
    row = at(known_board, "adamw", "micro_1")
    unseen = 3 * 2 * (4 * 48 + 3 * 2) * 128 * (127 * 8 * 256)
    assert row.model_flops - row.causal_flops == pytest.approx(unseen, rel=1e-12)


def test_the_cache_serves_while_nothing_has_changed_and_never_after(writer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.ladder({"adamw": 1.0, "faster": 1.3})
    first = board(writer.project)
    monkeypatch.setattr(build, "build_board", lambda *_: pytest.fail("it was worked out again"))
    assert board(writer.project) == first
    monkeypatch.undo()
    writer.arm("adamw", "micro_1", 1.1)
    assert board(writer.project) != first


def test_a_damaged_record_is_one_clear_error(writer) -> None:
    writer.ladder({"adamw": 1.0})
    (writer.project.results / "adamw" / "micro_1" / "speedrun_results.json").write_text("{")
    with pytest.raises(SpeedrunError, match="micro_1/speedrun_results.json is not valid JSON"):
        board(writer.project)


def test_the_pages_are_what_the_records_make_them() -> None:
    for file, text in pages(Project(REPOSITORY), board(Project(REPOSITORY))).items():
        assert (REPOSITORY / file).read_text(encoding="utf-8") == text, f"{file}: run `speedrun leaderboard --write`"


def test_nothing_here_imports_jax_levanter_or_marin() -> None:
    code = (
        "import sys, pkgutil, importlib, speedrun.board as b\n"
        "for m in pkgutil.walk_packages(b.__path__, 'speedrun.board.'): importlib.import_module(m.name)\n"
        "for c in ('compare', 'leaderboard', 'site', 'import_'): importlib.import_module('speedrun.cli.' + c)\n"
        "print([m for m in ('jax', 'jaxlib', 'levanter', 'marin', 'haliax', 'ray') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_optimizers_share_active_parameters_and_contamination_are_shown(writer) -> None:
    def sparse(info) -> None:
        # As many optimizer FLOPs as model FLOPs, of all that the run spent: half.
        info["flops"] = {
            "convention_forward_flops_per_token": None,
            "causal_forward_flops_per_token": None,
            "traced_forward_flops_per_token": 1.0,
            "optimizer_flops_per_step": info["model_flops"] / info["step_log"]["steps"],
        }
        info["model_size"], info["active_parameters"] = 2_000_000, 500_000
        info["contamination"] = dict.fromkeys(
            ("training_documents", "training_exact", "training_ngram", "evaluation_documents", "evaluation_exact"), 9
        ) | {"evaluation_ngram": 9, "evaluation_copied": 9, "contaminated": True}

    writer.ladder({"adamw": 1.0})
    writer.arm("sparse", "micro_1", change=sparse)
    shown = writer.board()
    text = board_markdown(shown)
    (row,) = (line for line in text.splitlines() if line.startswith("| ") and "[sparse](results/sparse/micro_1" in line)
    assert "50.0 %" in row and "2 M, 500 k active" in row and "contaminated" in row
    (row,) = (line for line in text.splitlines() if "[adamw](results/adamw/micro_1" in line and "seed" not in line)
    assert "active" not in row and "contaminated" not in row
