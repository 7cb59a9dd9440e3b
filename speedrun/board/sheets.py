"""The board's tables: one definition for LEADERBOARD.md and for the terminal."""

from collections.abc import Iterator, Sequence

from speedrun.board.badges import BADGES
from speedrun.board.model import ArmRow, Board, Hit, Ladder, PublicBoard, Track
from speedrun.board.text import Link, Sheet, bits, count, percent, plain, ratio, scientific, seconds, slope
from speedrun.errors import UnknownNameError
from speedrun.ladder import LADDER

CLAIMS_NOTHING = "The micro rungs fit a laptop. They show that the machinery works, and claim nothing about scale."
PUBLIC_SHOWN = 10
"""Rows of each public rung that LEADERBOARD.md and the terminal show; the site and ``--json`` have all."""

_RUNG_COLUMNS = (
    "rank",
    "tier",
    "candidate",
    "bits per byte",
    "seeds",
    "speedup",
    "realised",
    "verdict",
    "model FLOPs",
    "of budget",
    "optimizer's share",
    "hardware FLOPs",
    "MFU",
    "time",
    "on",
    "parameters",
    "tokens",
    "search",
    "date",
    "author",
    "badges",
)


_RUNG_BRIEF = ("rank", "candidate", "bits per byte", "seeds", "speedup", "verdict", "time")


def ladder_sheets(board: Board) -> Iterator[Sheet]:
    """Our own ladders: the gain over each, then each rung, largest first."""
    for ladder in board.ladders:
        yield _over_ladder(ladder)
        for rung in reversed(ladder.rungs):
            yield rung_sheet(ladder, rung)
        yield from _tracks(ladder.tracks, f"Targets of the {ladder.name} ladder")


def _over_ladder(ladder: Ladder) -> Sheet:
    rows = [
        (
            row.candidate,
            row.top_rung,
            str(row.rungs),
            ratio(row.speedup),
            ratio(row.realised),
            slope(row.slope),
            row.word,
        )
        for row in ladder.over_ladder
    ]
    before = [CLAIMS_NOTHING] if ladder.name == "micro" else []
    if ladder.problem:
        before.append(f"No speedups: {ladder.problem}.")
    warned = list(dict.fromkeys(note for row in ladder.over_ladder for note in row.warnings))
    if not rows:
        before.append(f"Nothing stands beside {ladder.baseline} on this ladder yet.")
    return Sheet(
        f"The {ladder.name} ladder, against {ladder.baseline}",
        ("candidate", "top rung", "rungs", "speedup there", "realised", "slope", "the gain"),
        rows,
        before,
        [f"Seed noise: {ladder.noise}.", *(f"{note[:1].upper()}{note[1:]}." for note in warned)],
        ("candidate", "top rung", "speedup there", "slope", "the gain"),
    )


def rung_sheet(ladder: Ladder, rung: str) -> Sheet:
    """One rung."""
    arms = [arm for arm in ladder.arms if arm.rung == rung]
    notes = [f"{arm.candidate} is not ranked: {arm.not_ranked}." for arm in arms if arm.not_ranked]
    notes += [
        f"{arm.candidate}, seed {run.seed}, is left out: {', '.join(run.flags)}."
        for arm in arms
        for run in arm.runs
        if run.flags and not arm.not_ranked
    ]
    notes += [
        f"{arm.candidate} is beaten at every rung by {arm.beaten_by}."
        for arm in arms
        if arm.beaten_by and arm.candidate != ladder.baseline
    ]
    notes += [f"{arm.candidate}: {arm.ended}." for arm in arms if arm.ended]
    budget = LADDER[rung].budget_flops
    title = f"{rung}: {scientific(budget)} model FLOPs"
    rows = [_arm(arm) for arm in arms]
    if not any(arm.pull_request for arm in arms):
        return Sheet(title, _RUNG_COLUMNS, rows, (), notes, _RUNG_BRIEF)
    links = [Link(f"#{arm.pull_request}", arm.pull_request_url) if arm.pull_request else "–" for arm in arms]
    with_links = [(*row, link) for row, link in zip(rows, links, strict=True)]
    return Sheet(title, (*_RUNG_COLUMNS, "pull request"), with_links, (), notes, _RUNG_BRIEF)


def _arm(arm: ArmRow) -> tuple[str | Link, ...]:
    return (
        "–" if arm.rank is None else str(arm.rank),
        "–" if arm.tier is None else str(arm.tier),
        Link(arm.candidate, arm.record),
        bits(arm.bits_per_byte),
        str(sum(not run.flags for run in arm.runs)),
        ratio(arm.speedup),
        ratio(arm.realised),
        arm.verdict,
        scientific(arm.model_flops),
        percent(arm.budget_share),
        percent(arm.optimizer_share),
        scientific(arm.hardware_flops),
        percent(arm.mfu),
        seconds(arm.training_seconds),
        arm.hardware,
        f"{count(arm.parameters)}, {count(arm.sparse)} active" if arm.sparse else count(arm.parameters),
        count(arm.tokens),
        f"{arm.search_runs} runs, {scientific(arm.search_flops)}" if arm.search_runs else "–",
        arm.completed,
        _authors(arm),
        ", ".join(arm.badges),
    )


def _authors(arm: ArmRow) -> str | Link:
    if not arm.authors:
        return ""
    more = f" and {len(arm.authors) - 1} more" if len(arm.authors) > 1 else ""
    return Link(plain(arm.authors[0].name, 30) + more, arm.authors[0].url)


def _tracks(tracks: Sequence[Track], title: str) -> Iterator[Sheet]:
    if not tracks:
        return
    rows = [
        (track.name, f"{track.bits_per_byte:.4f}", _first(track.by_flops, False), _first(track.by_time, True))
        for track in tracks
    ]
    yield Sheet(title, ("target", "bits per byte", "with the least compute", "in the least time"), rows)


def _first(hits: Sequence[Hit], by_time: bool) -> str | Link:
    if not hits:
        return "nobody yet"
    hit = hits[0]
    on = f" on {hit.hardware}" if hit.hardware else ""
    cost = f"{seconds(hit.training_seconds)}{on}" if by_time else f"{scientific(hit.model_flops)} model FLOPs"
    return Link(f"{plain(hit.name, 40)}: {cost}", hit.link)


def public_sheets(public: PublicBoard) -> Iterator[Sheet]:
    """Marin's historic board."""
    yield Sheet(
        "Marin's public board, scored anew",
        ("suite", "rungs", "asymptote", "exponent", "projected at 1e22", "leaving one rung out"),
        [
            (
                line.candidate,
                str(len(line.point_flops)),
                f"{line.asymptote:.4f}",
                f"{line.exponent:.3f}",
                f"{line.projection.value:.4f}",
                "–" if line.projection.low is None else f"{line.projection.low:.4f} to {line.projection.high:.4f}",
            )
            for line in public.lines
            if line.projection is not None
        ],
        [
            f"Figures as of {public.as_of}, from {public.source}. They are Levanter's own bits per byte on Paloma "
            "C4-EN, with one seed each, and compare with none of the scores above. Fitted by least squares to the "
            "optimum; the board's own fit stopped short of it. A projection this far out is never ranked on."
        ],
    )
    for rung in reversed(public.rungs):
        if any(row.rung == rung and row.rank for row in public.rows):
            yield public_rung_sheet(public, rung)
    yield from _tracks(public.tracks, "Marin's targets")


def public_rung_sheet(public: PublicBoard, rung: str) -> Sheet:
    """One rung of the historic board."""
    ranked = [row for row in public.rows if row.rung == rung and row.rank]
    rows = [
        (
            str(row.rank),
            str(row.tier),
            Link(row.candidate, row.run_link or ""),
            f"{row.bits_per_byte:.4f}",
            ratio(row.speedup),
            scientific(row.model_flops),
            seconds(row.training_seconds),
            row.completed,
            Link(row.author, row.author_url),
        )
        for row in ranked[:PUBLIC_SHOWN]
    ]
    columns = ("rank", "tier", "suite", "bits per byte", "speedup", "model FLOPs", "time", "date", "author")
    notes = [f"{len(ranked) - PUBLIC_SHOWN} more on the site."] if len(ranked) > PUBLIC_SHOWN else []
    brief = ("rank", "suite", "bits per byte", "speedup", "author")
    return Sheet(f"Marin's {rung}, against {public.baseline}", columns, rows, (), notes, brief)


def sheets_of_rung(board: Board, rung: str) -> list[Sheet]:
    """The tables of one rung, ours or the historic board's.

    Raises:
        UnknownNameError: for a rung that neither has.
    """
    ours = [rung_sheet(ladder, rung) for ladder in board.ladders if rung in ladder.rungs]
    public = [public_rung_sheet(board.public, rung)] if board.public and rung in board.public.rungs else []
    if not ours and not public and rung not in LADDER:
        known = [name for ladder in board.ladders for name in ladder.rungs]
        raise UnknownNameError("rung", rung, [*known, *(board.public.rungs if board.public else [])])
    return ours + public


def badge_notes(board: Board) -> list[str]:
    """What the badges that occur mean."""
    used = {badge for ladder in board.ladders for arm in ladder.arms for badge in arm.badges}
    return [f"**{badge}**: {meaning}" for badge, meaning in BADGES.items() if badge in used]
