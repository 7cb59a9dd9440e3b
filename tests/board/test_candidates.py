"""docs/candidates.md: both gates of every candidate, from records and texts alone."""

import json

from speedrun.board.candidates import candidates_markdown


def text_of(writer) -> str:
    return candidates_markdown(writer.project, writer.board())


def row_of(text: str, name: str) -> list[str]:
    (row,) = [line for line in text.splitlines() if line.startswith(f"| [{name}]")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_every_candidate_has_its_gates_on_the_map(writer) -> None:
    writer.ladder({"adamw": 1.0, "faster": 1.3})
    for name in ("adamw", "faster", "untried"):
        (writer.project.candidates / f"{name}.py").write_text(f'"""What {name} is."""\n\nCANDIDATE = None\n')
    lines = [{"question": "it traces", "state": "failed", "text": "no | such axis"}]
    check = {"rungs": [{"rung": "micro_1", "lines": lines}]}
    (writer.project.results / "faster" / "check.json").write_text(json.dumps(check))
    text = text_of(writer)
    assert row_of(text, "untried")[1:] == ["What untried is.", "not checked", "not measured", "–", "–", "–"]
    assert row_of(text, "adamw")[2:4] == ["not checked", "the baseline"]
    # Written with a gain of 1.3 in compute.
    assert row_of(text, "faster")[2:5] == ["failed", "better", "micro_3"]
    assert row_of(text, "faster")[5].startswith("1.30x (")
    assert "micro_1: it traces: no \\| such axis" in text
    assert "claim nothing about scale" in text


def test_what_was_measured_beside_the_score_is_shown_as_a_mean(writer) -> None:
    writer.ladder({"adamw": 1.0, "faster": 1.3})
    (writer.project.candidates / "faster.py").write_text('"""Faster."""\n\nCANDIDATE = None\n')
    for rung in ("micro_1", "micro_2", "micro_3"):
        file = writer.project.results / "faster" / rung / "speedrun_results.json"
        content = json.loads(file.read_text())
        for at, run in enumerate(content["runs"]):
            metric = {"name": "sparsity", "value": 0.5 + at / 100, "unit": "share", "meaning": "Zeros."}
            run["run_info"]["metrics"] = [metric]
        file.write_text(json.dumps(content))
    text = text_of(writer)
    # Three seeds with 0.50, 0.51 and 0.52.
    assert row_of(text, "faster")[6] == "sparsity 0.51 share"
    assert "sparsity: Zeros." in text
