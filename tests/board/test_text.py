"""Text of strangers has no effect, in Markdown, in a spreadsheet or in a table's cell."""

import re

from hypothesis import given
from hypothesis import strategies as st

from speedrun.board.flat import flat_rows
from speedrun.board.markdown import board_markdown
from speedrun.board.model import Figure
from speedrun.board.text import Link, Sheet, bits, markdown, plain, ratio, safe_target, scientific, seconds

HOSTILE = "<script>alert(1)</script> [x](javascript:alert(1)) | `a` *b* \n\n# h ![i](http://x/y.png) =1+1"


@given(st.text())
def test_a_cell_stays_one_cell_of_one_line(text: str) -> None:
    lines = markdown(Sheet("t", ("a", "b"), [(text, "x"), (Link(text, text), "y")])).splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 3
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    assert not any(re.search(r"(?<!\\)<", row) for row in rows)


@given(st.text(), st.integers(1, 50))
def test_plain_is_short_and_shows_nothing_invisible(text: str, longest: int) -> None:
    shown = plain(text, longest)
    assert len(shown) <= longest and (shown.isprintable() or not shown)


def test_only_web_addresses_and_paths_are_links() -> None:
    good = "https://wandb.ai/a/b", "results/adamw/30m/speedrun_results.json", "http://x.example/?a=b&c=d"
    bad = "javascript:alert(1)", "data:text/html,x", "https://x/)evil", "//evil.example<", "https://a b", "x" * 501, ""
    assert all(safe_target(target) == target for target in good)
    assert not any(safe_target(target) for target in bad)


def test_figures_read_as_they_should() -> None:
    assert ratio(Figure(value=1.306, low=1.27, high=1.352)) == "1.31 [1.27, 1.35]"
    assert ratio(Figure(value=1.3, low=1.2, high=None)) == "1.30 [1.20, ∞]"
    assert bits(Figure(value=2.60493, low=2.60233, high=2.60753)) == "2.6049 ± 0.0026"
    assert (scientific(1.08e17), scientific(None)) == ("1.08e17", "–")
    assert (seconds(37.2), seconds(744), seconds(54420.35)) == ("37 s", "12.4 min", "15.1 h")


def test_a_hostile_record_has_no_effect_on_markdown_or_spreadsheets(writer) -> None:
    def spoil(info) -> None:
        info["description"] = HOSTILE
        info["authors"] = [{"name": HOSTILE, "affiliation": HOSTILE, "url": "javascript:alert(1)"}]
        info["author"] = info["authors"][0]
        info["run_completion_timestamp"] = "=HYPERLINK(1)"

    writer.ladder({"adamw": 1.0})
    writer.arm("odd", "micro_1", change=spoil)
    shown = writer.board()
    text = board_markdown(shown)
    assert not re.search(r"(?<!\\)<script", text)
    assert "](javascript:" not in text.replace("\\[", "")
    rows = [row for row in flat_rows(shown) if row["candidate"] == "odd"]
    assert not any(str(value).startswith("=") for row in rows for value in row.values())
