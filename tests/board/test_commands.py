"""What a user sees of `compare`, `leaderboard` and `import`."""

import csv
import io
import json
from pathlib import Path

import pytest

from speedrun.errors import SpeedrunError

REPOSITORY = Path(__file__).parents[2]
SHARED_DATA = REPOSITORY / ".." / "shared" / "data"


def test_compare_says_better_by_how_much_and_exits_by_the_verdict(known, speedrun) -> None:
    better, worse = speedrun(known, "compare", "faster"), speedrun(known, "compare", "slower")
    assert (better.exit_code, worse.exit_code) == (0, 1)
    assert "faster passes gate 2: better at micro_3" in better.output
    assert "slower does not pass gate 2: worse at micro_3" in worse.output
    assert "not checked yet; `speedrun check faster`" in better.output
    assert "claim nothing about scale" in better.output


def test_compare_as_data_agrees_with_the_board(known, known_board, speedrun) -> None:
    (pair,) = json.loads(speedrun(known, "compare", "faster", "--json").output)["steps"]
    (ladder,) = known_board.ladders
    for rung in pair["rungs"]:
        arm = next(arm for arm in ladder.arms if (arm.candidate, arm.rung) == ("faster", rung["rung"]))
        assert rung["speedup"] == arm.speedup.model_dump()
        assert rung["candidate"]["bits_per_byte"]["value"] == arm.bits_per_byte.value
    assert pair["next"]["rung"] == "micro_4"
    assert pair["next"]["speedup"] == pytest.approx(1.3, rel=0.05)


def test_compare_as_markdown_is_tables(known, speedrun) -> None:
    text = speedrun(known, "compare", "faster", "--markdown").output
    assert "### Gate 2: faster against adamw, on the micro ladder" in text
    assert "| micro_3 |" in text


def test_a_stack_is_measured_and_its_parts_are_not_multiplied(known, speedrun) -> None:
    found = json.loads(speedrun(known, "compare", "slower", "faster", "--against", "adamw", "--json").output)
    assert [(pair["candidate"], pair["baseline"]) for pair in found["steps"]] == [
        ("slower", "adamw"),
        ("faster", "slower"),
    ]
    top = [pair["rungs"][-1]["speedup"]["value"] for pair in found["steps"]]
    assert top == pytest.approx([0.8, 1.3 / 0.8], rel=0.01)
    assert found["whole"][0]["rungs"][-1]["speedup"]["value"] == pytest.approx(1.3, rel=0.01)
    assert "Gains do not multiply" in speedrun(known, "compare", "slower", "faster", "--against", "adamw").output


def test_a_stack_stands_beside_what_others_published_of_its_steps(writer, speedrun) -> None:
    for name in ("adamw", "moe_64", "moe_256"):
        writer.arm(name, "micro_1")
    stack = speedrun(writer, "compare", "moe_64", "moe_256", "--against", "adamw", "--stack", "--markdown").output
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in stack.splitlines() if "micro_1" in line]
    assert [(row[0], row[1], row[5]) for row in cells] == [
        ("moe_64", "adamw", "6.7 (3.6)"),
        ("moe_256", "moe_64", "1.4 (1.3)"),
        ("moe_256", "adamw", "–"),
    ]
    assert "openathena.ai" in stack
    assert "claim nothing about scale" in stack
    assert "gate 1" not in stack.lower()


def test_a_public_row_is_compared_by_levanters_figure_and_never_by_the_score(writer, speedrun) -> None:
    board = writer.project.results / "marin" / "board.json"
    board.parent.mkdir(parents=True)
    board.write_bytes((REPOSITORY / "results" / "marin" / "board.json").read_bytes())

    def change(info) -> None:
        info.update(rung="300m", budget_flops=1.08e19, model_flops=1.08e19)
        info.update({"bits_per_byte": 0.2 + info["seed"] / 1000, "eval/paloma/c4_en/bpb": 1.0 + info["seed"] / 1e6})

    writer.arm("ours", "75m", change=change)
    folder = writer.project.results / "ours"
    (folder / "75m").rename(folder / "300m")
    found = json.loads(speedrun(writer, "compare", "ours", "--against", "marin:adamw_llama_scaling", "--json").output)
    (rung,) = found["steps"][0]["rungs"]
    assert rung["candidate"]["bits_per_byte"]["value"] == pytest.approx(1.000043)
    assert rung["baseline"]["bits_per_byte"]["value"] == pytest.approx(1.069084644317627)
    assert "assumed" in found["steps"][0]["noise"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "fastr"), "unknown candidate 'fastr'. Did you mean 'faster'"),
        (("compare", "faster", "--against", "faster"), "stands twice"),
        (("compare", "faster", "--stack"), "at least two candidates"),
        (("compare", "faster", "--against", "marin:nobody"), "cannot be read"),
        (("leaderboard", "--rung", "micro_9"), "unknown rung 'micro_9'"),
        (("leaderboard", "--write", "--json"), "exclude one another"),
        (("leaderboard", "--public"), "speedrun import"),
        (("import", "nowhere.json"), "nowhere.json cannot be read"),
        (("import", "x", "--as-of", "yesterday"), "is no day"),
    ],
)
def test_a_mistake_is_one_message(known, speedrun, words, message: str) -> None:
    done = speedrun(known, *words)
    assert isinstance(done.exception, SpeedrunError) and message in str(done.exception)


def test_leaderboard_shows_a_rung_writes_the_file_and_notices_when_it_is_stale(writer, speedrun) -> None:
    writer.ladder({"adamw": 1.0, "faster": 1.3})
    shown = speedrun(writer, "leaderboard", "--rung", "micro_2").output
    assert "micro_2: 8.00e11 model FLOPs" in shown and "micro_1" not in shown.replace("at micro_1", "")
    assert speedrun(writer, "leaderboard", "--check").exit_code == 1
    assert speedrun(writer, "leaderboard", "--write").exit_code == 0
    assert speedrun(writer, "leaderboard", "--check").exit_code == 0
    writer.arm("faster", "micro_1", 1.4)
    assert speedrun(writer, "leaderboard", "--check").exit_code == 1


def test_leaderboard_as_csv_has_a_line_for_each_candidate_and_rung(known, speedrun) -> None:
    rows = list(csv.DictReader(io.StringIO(speedrun(known, "leaderboard", "--csv").output)))
    assert len(rows) == 9
    assert {row["seeds"] for row in rows} == {"3"}
    assert float(rows[0]["speedup_low"]) < float(rows[0]["speedup"]) < float(rows[0]["speedup_high"])


def test_import_shows_flags_and_writes_only_a_board(writer, speedrun, tmp_path: Path) -> None:
    rows = [
        {"run_name": f"suite/{n}", "model_flops": 1e18, "eval_paloma_c4_en_bpb": 1.1, "wandb_link": "https://w/runs/a"}
        | {"description": "long", "author": {"name": "A", "affiliation": "B", "url": "https://a.example"}}
        for n in ("130m", "300m")
    ]
    source = tmp_path / "runs.json"
    source.write_text(json.dumps(rows))
    done = speedrun(writer, "import", str(source), "--write", "--as-of", "2026-01-02")
    assert done.exit_code == 0 and "duplicate_run" in done.output
    written = json.loads((writer.project.results / "marin" / "board.json").read_text())
    assert written["as_of"] == "2026-01-02" and len(written["runs"]) == 2
    assert "description" not in written["runs"][0] and written["runs"][0]["author"]["name"] == "A"


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the real public files are not beside this checkout")
def test_importing_the_public_board_gives_the_figures_that_are_kept_here(writer, speedrun) -> None:
    done = speedrun(writer, "import", str(SHARED_DATA / "marin_runs.json"), "--write")
    assert done.exit_code == 0 and "96 runs, of which 92 can be ranked" in done.output
    written = json.loads((writer.project.results / "marin" / "board.json").read_text())
    kept = json.loads((REPOSITORY / "results" / "marin" / "board.json").read_text())
    by_name = [{row["run_name"]: row for row in content["runs"]} for content in (written, kept)]
    assert by_name[0] == by_name[1]


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the real public files are not beside this checkout")
def test_importing_an_old_result_file_flags_what_is_odd_about_it(known, speedrun) -> None:
    (path,) = (SHARED_DATA / "speedrun_results").glob("*@feb5d9d8.json")
    (row,) = json.loads(speedrun(known, "import", str(path), "--json").output)
    assert "number_as_string" in row["flags"] and not row["ranked"]
