"""What the page shows of each ladder: cells with their text and what they sort by, and the charts' points.

All is worked out here; the page's script only places it. Cells are ``text`` or ``[text, sort value]``, or
objects where a cell has a link, an interval to draw, or labels.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from speedrun.board.badges import BADGES, GOOD, NEUTRAL
from speedrun.board.model import ArmRow, Board, Figure, Ladder, PublicBoard, PublicRow, Track
from speedrun.board.sheets import CLAIMS_NOTHING
from speedrun.board.site.charts import charts, public_charts, short, top_rung
from speedrun.board.text import bits, count, percent, plain, ratio, safe_target, scientific, seconds, slope
from speedrun.ladder import LADDER
from speedrun.records.legacy_rows import FLAGS

Cell = str | list[Any] | dict[str, Any]
Payload = dict[str, Any]

_ARM_COLUMNS = (
    ("rank", "Rank, by the lower end of the speedup's interval; = marks a tie that cannot be told apart"),
    ("candidate", "The method, and its authors"),
    ("bits per byte", "Mean over seeds, with its interval at 90 %. Lower is better"),
    ("speedup", "By how many times less compute it reaches its loss than the baseline would"),
    ("realised", "The speedup in time, on the same hardware"),
    ("verdict", "What the rung shows against the baseline, one-sided p below 0.01"),
    ("badges", "What else to know"),
    ("seeds", "Runs behind the figures"),
    ("model FLOPs", "By Marin's convention, with the share of the rung's budget"),
    ("optimizer", "The optimizer's share of its own and the model's FLOPs; only matrix products are counted"),
    ("hardware FLOPs", "Step seconds x chips x peak"),
    ("MFU", "Model FLOPs over peak FLOPs of the steady time"),
    ("time", "Training time, and on what"),
    ("parameters", "All, and of a sparse model those that a token passes through"),
    ("tokens", "Tokens trained on"),
    ("date", "Day of the latest run"),
    ("pull request", "The one that brought the record, by the repository's history"),
)
_LADDER_COLUMNS = (
    ("rank", "By the lower end of the speedup at the largest measured rung"),
    ("candidate", "The method"),
    ("top rung", "The largest rung that it and the baseline have"),
    ("speedup", "At that rung"),
    ("realised", "The speedup in time, on the same hardware"),
    ("slope", "b in ln S = a + b ln(C / C_top): above 0 the gain grows with compute"),
    ("the gain", "What the gain does with compute"),
    ("rungs", "Rungs that both have"),
)
_PUBLIC_COLUMNS = (
    ("rank", "Rank, by the lower end of the speedup's interval"),
    ("run", "The run, and its author"),
    ("bits per byte", "Levanter's own figure on Paloma C4-EN. Lower is better"),
    ("speedup", "Over adamw_llama_scaling, by this project's definitions"),
    ("model FLOPs", "By Marin's convention"),
    ("hardware FLOPs", "As published"),
    ("time", "Training time"),
    ("parameters", "Of the model"),
    ("flags", "What cannot be right, or is missing"),
    ("date", "Day of the run"),
)


def _tone(badge: str) -> str:
    return "good" if badge in GOOD else "plain" if badge in NEUTRAL else "warn"


LABELS = {
    "better": ["good", "better than the baseline"],
    "worse": ["bad", "worse than the baseline"],
    "no evidence": ["plain", "neither better nor worse is shown"],
    "grows": ["good", "the gain grows with compute"],
    "holds": ["good", "the gain holds with compute"],
    "shrinks": ["warn", "the gain shrinks with compute"],
    "unknown": ["plain", "nothing is shown about its trend"],
    **{badge: [_tone(badge), meaning] for badge, meaning in BADGES.items()},
    **{flag: ["warn", about.meaning] for flag, about in FLAGS.items()},
}
"""Tone and meaning of every label."""


FIRST = 100
"""Rows of a table that the first view loads; the page fetches the rest when they are sorted, filtered or asked for."""


def boards(board: Board) -> Iterator[tuple[Payload, dict[str, Payload]]]:
    """For each ladder, and the historic board: (its page, its tables by name, see `_in_parts`)."""
    order = sorted(board.ladders, key=lambda ladder: ladder.name != "standard")
    about = {candidate.name: candidate.hypothesis for candidate in board.candidates}
    for ladder in order:
        yield _ladder_page(ladder), dict(_in_parts(_ladder_tables(ladder, about)))
    if board.public is not None:
        tables = {rung: _public_table(board.public, rung) for rung in board.public.rungs}
        yield _public_page(board.public), dict(_in_parts(tables))


def _in_parts(tables: dict[str, Payload]) -> Iterator[tuple[str, Payload]]:
    """Each table with its first rows, and the rest of a long one by itself, so that a view costs what it shows."""
    for name, table in tables.items():
        yield name, table | {"rows": table["rows"][:FIRST], "total": len(table["rows"])}
        if len(table["rows"]) > FIRST:
            yield f"{name}-rest", {"rows": table["rows"][FIRST:]}


def run_id(candidate: str, rung: str, seed: int) -> str:
    """A run's name in addresses."""
    return f"{candidate}/{rung}/{seed}"


def _ladder_page(ladder: Ladder) -> Payload:
    notes = [CLAIMS_NOTHING] if ladder.name == "micro" else []
    notes += [f"No speedups: {ladder.problem}."] if ladder.problem else []
    warned = dict.fromkeys(note for row in ladder.over_ladder for note in row.warnings)
    return {
        "key": ladder.name,
        "title": f"{ladder.name.capitalize()} ladder",
        "over": "Micro ladder: fits a laptop, claims nothing about scale"
        if ladder.name == "micro"
        else "Standard ladder",
        "headline": _headline(ladder),
        "lead": f"Every method against {ladder.baseline}. Seed noise: {ladder.noise}.",
        "notes": [*notes, *(f"{note[:1].upper()}{note[1:]}." for note in warned)],
        "cards": _cards(ladder),
        "tables": [["ladder", "whole ladder"], *([rung, rung] for rung in reversed(ladder.rungs))],
        "first": ladder.rungs[-1],
        "labels": LABELS,
        "charts": charts(ladder),
        "tracks": _tracks(ladder.tracks),
    }


def _headline(ladder: Ladder) -> str:
    best = next((row for row in ladder.over_ladder if (row.speedup.low or 0) > 1), None)
    if best is None or best.speedup.value is None:
        return f"Nothing is shown to beat {ladder.baseline} yet"
    name = plain(best.candidate, 40)
    return f"{name} reaches its loss with {best.speedup.value:.2f}× less compute than {ladder.baseline}"


def _cards(ladder: Ladder) -> list[dict[str, Any]]:
    words = {
        "grows": "the gain grows with compute",
        "holds": "the gain holds with compute",
        "shrinks": "the gain shrinks with compute",
        "unknown": "its trend with compute is unknown",
    }
    return [
        {
            "name": plain(row.candidate, 40),
            "value": "–" if row.speedup.value is None else f"{row.speedup.value:.2f}×",
            "interval": ratio(row.speedup).partition(" ")[2],
            "at": f"at {row.top_rung}",
            "realised": "" if row.realised.value is None else f"{row.realised.value:.2f}× in time",
            "word": words[row.word],
        }
        for row in ladder.over_ladder[:3]
    ]


def _ladder_tables(ladder: Ladder, about: dict[str, str]) -> dict[str, Payload]:
    tables = {rung: _arm_table(ladder, rung, about) for rung in ladder.rungs}
    return {"ladder": _over_ladder_table(ladder), **tables}


def _over_ladder_table(ladder: Ladder) -> Payload:
    whiskers = _whiskers([row.speedup for row in ladder.over_ladder])
    rows = [
        [
            [str(place), place],
            row.candidate,
            [row.top_rung, list(LADDER).index(row.top_rung)],
            _ratio_cell(row.speedup, whisker),
            _ratio_cell(row.realised, None),
            [slope(row.slope), row.slope.value],
            {"t": row.word, "chips": [row.word]},
            [str(row.rungs), row.rungs],
        ]
        for place, (row, whisker) in enumerate(zip(ladder.over_ladder, whiskers, strict=True), start=1)
    ]
    return _table(_LADDER_COLUMNS, rows, [])


def _arm_table(ladder: Ladder, rung: str, about: dict[str, str]) -> Payload:
    arms = [arm for arm in ladder.arms if arm.rung == rung]
    whiskers = _whiskers([arm.speedup for arm in arms])
    notes = [f"{arm.candidate} is not ranked: {arm.not_ranked}." for arm in arms if arm.not_ranked][:20]
    notes += [
        f"{arm.candidate} is beaten at every rung by {arm.beaten_by}."
        for arm in arms
        if arm.beaten_by and arm.candidate != ladder.baseline
    ][:20]
    notes += [f"{arm.candidate}: {arm.ended}." for arm in arms if arm.ended][:20]
    rows = [_arm_cells(arm, whisker, about) for arm, whisker in zip(arms, whiskers, strict=True)]
    return _table(_ARM_COLUMNS, rows, [plain(note, 300) for note in notes])


def _arm_cells(arm: ArmRow, whisker: list[float] | None, about: dict[str, str]) -> list[Cell]:
    return [
        ["–" if arm.rank is None else str(arm.rank), arm.rank, "" if arm.tier is None else f"tier {arm.tier}"],
        {
            "t": plain(arm.candidate, 64),
            "sub": plain(", ".join(author.name for author in arm.authors), 50),
            "title": plain(about.get(arm.candidate, ""), 300),
            "href": page_of(arm.candidate, arm.rung, arm.runs[0].seed),
        },
        [bits(arm.bits_per_byte), arm.bits_per_byte.value],
        _ratio_cell(arm.speedup, whisker),
        _ratio_cell(arm.realised, None),
        {"t": arm.verdict, "chips": [arm.verdict] if arm.verdict else [], "title": plain(arm.why, 120)},
        {"t": ", ".join(arm.badges), "chips": arm.badges},
        {
            "t": str(sum(not run.flags for run in arm.runs)),
            "v": len(arm.runs),
            "seeds": [run.seed for run in arm.runs[:12]],
            "at": f"runs/{arm.candidate}/{arm.rung}-",
        },
        [scientific(arm.model_flops), arm.model_flops, f"{percent(arm.budget_share)} of budget"],
        [percent(arm.optimizer_share), arm.optimizer_share],
        [scientific(arm.hardware_flops), arm.hardware_flops],
        [percent(arm.mfu), arm.mfu],
        [seconds(arm.training_seconds), arm.training_seconds, plain(arm.hardware, 30)],
        [count(arm.parameters), arm.parameters, f"{count(arm.sparse)} active" if arm.sparse else ""],
        [count(arm.tokens), arm.tokens],
        arm.completed,
        _pull_request(arm),
    ]


def _pull_request(arm: ArmRow) -> Cell:
    if arm.pull_request is None:
        return "–"
    return {"t": f"#{arm.pull_request}", "v": arm.pull_request, "href": safe_target(arm.pull_request_url)}


def page_of(candidate: str, rung: str, seed: int) -> str:
    """Address of a run's page from the front page."""
    return f"runs/{candidate}/{rung}-{seed}.html"


def _ratio_cell(figure: Figure, whisker: list[float] | None) -> Cell:
    if figure.value is None:
        return {"t": "–", "title": plain(figure.reason, 300)}
    value, _, interval = ratio(figure).partition(" ")
    cell: dict[str, Any] = {"t": f"{value}×", "v": figure.value, "sub": interval}
    return cell | {"bar": whisker} if whisker else cell


def _whiskers(figures: Sequence[Figure]) -> list[list[float] | None]:
    """Where each interval, its value and 1 lie on a common logarithmic scale from 0 to 1: [low, value, high, one]."""
    ends = [end for f in figures for end in (f.low, f.value, f.high) if end is not None and end > 0]
    if not ends:
        return [None] * len(figures)
    least, most = math.log(min(*ends, 0.95)), math.log(max(*ends, 1.05))

    def place(value: float | None, otherwise: float) -> float:
        return otherwise if not value else round((math.log(value) - least) / (most - least), 4)

    return [
        None if f.value is None else [place(f.low, 0), place(f.value, 0), place(f.high, 1), place(1.0, 0)]
        for f in figures
    ]


def _tracks(tracks: Sequence[Track]) -> list[dict[str, Any]]:
    return [
        {
            "name": plain(track.name, 60),
            "target": f"{track.bits_per_byte:.4f}",
            "flops": [[plain(hit.name, 60), f"{scientific(hit.model_flops)} FLOPs"] for hit in track.by_flops[:5]],
            "time": [
                [plain(hit.name, 60), f"{seconds(hit.training_seconds)} {plain(hit.hardware, 20)}".strip()]
                for hit in track.by_time[:5]
            ],
        }
        for track in tracks
    ]


def _public_page(public: PublicBoard) -> Payload:
    top = top_rung(public)
    leaders = [row for row in public.rows if row.rung == top and row.rank]
    return {
        "key": "public",
        "title": "Marin's public board",
        "over": f"Marin's public board, as of {public.as_of}",
        "headline": _public_headline(leaders),
        "lead": "Levanter's own bits per byte, one seed each: they compare with none of our scores. Suites are "
        f"compared with {public.baseline}; seed noise is assumed, not measured.",
        "notes": ["The fits are least squares at their optimum; the board's own fit stopped short of it."],
        "cards": [
            {
                "name": short(row.candidate),
                "value": "–" if row.speedup.value is None else f"{row.speedup.value:.2f}×",
                "interval": ratio(row.speedup).partition(" ")[2],
                "at": f"at {top}, tier {row.tier}",
                "realised": "",
                "word": plain(row.author, 40),
            }
            for row in leaders[:3]
        ],
        "tables": [[rung, rung] for rung in reversed(public.rungs)],
        "first": top,
        "labels": LABELS,
        "charts": public_charts(public),
        "tracks": _tracks(public.tracks),
    }


def _public_headline(leaders: Sequence[PublicRow]) -> str:
    if not leaders or leaders[0].speedup.value is None:
        return "Marin's historic runs, scored anew"
    best = leaders[0]
    return f"{plain(best.candidate, 40)} leads the historic board: {best.speedup.value:.2f}× at {best.rung}"


def _public_table(public: PublicBoard, rung: str) -> Payload:
    rows = [row for row in public.rows if row.rung == rung]
    whiskers = _whiskers([row.speedup for row in rows])
    cells = [_public_cells(row, whisker) for row, whisker in zip(rows, whiskers, strict=True)]
    return _table(_PUBLIC_COLUMNS, cells, [])


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]], notes: Sequence[str]) -> Payload:
    """A table without the columns that nobody fills."""
    kept = [at for at in range(len(columns)) if not rows or any(_text(row[at]) not in ("", "–") for row in rows)]
    return {"columns": [columns[at] for at in kept], "rows": [[row[at] for at in kept] for row in rows], "notes": notes}


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0] if isinstance(cell, list) else cell["t"]


def _public_cells(row: PublicRow, whisker: list[float] | None) -> list[Cell]:
    bpb = row.bits_per_byte
    return [
        ["–" if row.rank is None else str(row.rank), row.rank, "" if row.tier is None else f"tier {row.tier}"],
        {
            "t": plain(row.name, 80),
            "sub": plain(row.author, 50),
            "href": safe_target(row.run_link or ""),
            "title": plain(row.not_ranked, 200),
        },
        ["–" if bpb is None else f"{bpb:.4f}", bpb],
        _ratio_cell(row.speedup, whisker),
        [scientific(row.model_flops), row.model_flops],
        [scientific(row.hardware_flops), row.hardware_flops],
        [seconds(row.training_seconds), row.training_seconds],
        [count(row.parameters), row.parameters],
        {"t": ", ".join(row.flags), "chips": row.flags},
        row.completed,
    ]
