"""A comparison as tables and sentences: for the terminal, and as Markdown for the pull request."""

from collections.abc import Iterator

from speedrun.board.model import Figure
from speedrun.board.pairs import LEVANTER, Pair, Report, RungPair
from speedrun.board.sheets import CLAIMS_NOTHING
from speedrun.board.text import Sheet, bits, ratio, scientific, slope
from speedrun.scoring.power import EVIDENCE

_COLUMNS = (
    "rung",
    "bits per byte",
    "seeds",
    "baseline",
    "seeds",
    "difference",
    "over documents",
    "speedup",
    "realised",
    "interpolated",
    "verdict",
)


def report_sheets(report: Report) -> Iterator[Sheet]:
    """Gate 1, gate 2 on every ladder, and the stack as a table where several candidates were given."""
    yield _gate_one(report)
    yield from stack_sheets(report)
    for pair in [*report.steps, *report.whole]:
        yield pair_sheet(pair)


def _gate_one(report: Report) -> Sheet:
    words = []
    for name, gate in report.gate_one.items():
        if gate is None:
            words.append(f"{name}: not checked yet; `speedrun check {name}` does it.")
        elif gate.passed:
            words.append(f"{name}: passed at {', '.join(gate.rungs)}.")
        else:
            words.append(f"{name}: failed. {'; '.join(gate.problems)}.")
    return Sheet("Gate 1: it ports", (), (), words or ["Public suites are not checked here."])


def pair_sheet(pair: Pair) -> Sheet:
    """One ladder: a row a rung, then what it comes to."""
    where = "by Levanter's own figure" if pair.ladder == LEVANTER else f"on the {pair.ladder} ladder"
    before = [CLAIMS_NOTHING] if pair.ladder == "micro" else []
    return Sheet(
        f"Gate 2: {pair.candidate} against {pair.baseline}, {where}",
        _COLUMNS,
        [_row(rung) for rung in pair.rungs],
        before,
        list(_notes(pair)),
        ("rung", "bits per byte", "baseline", "speedup", "verdict"),
    )


def _row(rung: RungPair) -> tuple[str, ...]:
    return (
        rung.rung,
        bits(rung.candidate.bits_per_byte),
        str(rung.candidate.seeds),
        bits(rung.baseline.bits_per_byte),
        str(rung.baseline.seeds),
        f"{rung.difference:+.4f}",
        _difference(rung.over_documents),
        ratio(rung.speedup),
        ratio(rung.realised),
        ratio(rung.interpolated),
        rung.verdict,
    )


def _difference(figure: Figure) -> str:
    """``-0.0123 [-0.0140, -0.0106]``."""
    if figure.value is None or figure.low is None or figure.high is None:
        return "–"
    return f"{figure.value:+.4f} [{figure.low:+.4f}, {figure.high:+.4f}]"


def _notes(pair: Pair) -> Iterator[str]:
    top = pair.rungs[-1]
    verdict = "passes" if pair.passes else "does not pass"
    yield f"{pair.candidate} {verdict} gate 2: {top.verdict} at {top.rung}, the largest rung that both have."
    for rung in pair.rungs:
        yield f"{rung.rung}: {rung.verdict}; {rung.why}."
    yield f"Over the ladder: {_over_ladder(pair)}"
    if pair.ended:
        yield f"{pair.candidate}: {pair.ended}."
    if pair.next is not None:
        expected = pair.next
        yield (
            f"Next, {expected.rung} should show {expected.bits_per_byte:.4f} bits per byte against "
            f"{expected.baseline_bits_per_byte.value:.4f} of {pair.baseline}"
            f"{_band(expected.baseline_bits_per_byte)}, a speedup of {expected.speedup:.2f}. A forecast, "
            f"at {expected.extrapolation:.1f} times the largest compute on the baseline's curve; run it and see."
        )
    documents = [rung.over_documents for rung in pair.rungs]
    if any(figure.value is not None for figure in documents):
        yield (
            "Over documents: the difference with its interval over the texts, each paired with itself. It tells "
            "whether other texts of the kind would say so too, and knows nothing of seeds."
        )
    for reason in dict.fromkeys(figure.reason for figure in documents if figure.reason and pair.ladder != LEVANTER):
        yield f"Over documents: {reason}."
    for reason in dict.fromkeys(rung.speedup.reason for rung in pair.rungs if rung.speedup.reason):
        yield f"Speedup: {reason}."
    for reason in dict.fromkeys(rung.realised.reason for rung in pair.rungs if rung.realised.reason):
        yield f"Realised: {reason}."
    if top.without_a_rung is not None:
        low, high = top.without_a_rung
        upper = "no end" if high is None else f"{high:.2f}"
        yield f"With the curve fitted without one of its rungs, the speedup at {top.rung} is {low:.2f} to {upper}."
    if pair.search_flops:
        searches = ", ".join(f"{name} {scientific(flops)}" for name, flops in pair.search_flops.items())
        yield f"Model FLOPs spent on the search for settings: {searches}."
    yield f"Seed noise: {pair.noise}. Intervals are at 90 %; a word needs p below {EVIDENCE:g}."
    for warning in pair.warnings:
        yield f"Mind: {warning}."


def _over_ladder(pair: Pair) -> str:
    words = {
        "grows": "the gain grows with compute",
        "holds": "the gain holds",
        "shrinks": "the gain shrinks with compute",
        "unknown": "whether the gain grows or shrinks with compute is unknown",
    }[pair.word]
    if pair.slope.value is None:
        return f"{words} ({pair.slope.reason})."
    return f"{words}; slope of ln S over ln C {slope(pair.slope)}."


def _band(figure: Figure) -> str:
    return "" if figure.low is None or figure.high is None else f" ({figure.low:.4f} to {figure.high:.4f})"


def stack_sheets(report: Report) -> Iterator[Sheet]:
    """Each step against the one before and the whole against the base, at every rung, beside what others published."""
    for whole in report.whole:
        pairs = [*(pair for pair in report.steps if pair.ladder == whole.ladder), whole]
        published = {pair.published.measured: pair.published.source for pair in pairs if pair.published}
        yield Sheet(
            f"The stack on the {whole.ladder} ladder",
            ("step", "against", "rung", "theoretical", "(realised)", "published", "verdict"),
            [_stack_row(pair, rung) for pair in pairs for rung in pair.rungs],
            [CLAIMS_NOTHING] if whole.ladder == "micro" else [],
            [
                "The last step is the whole, measured. Gains do not multiply: the steps' product is not the whole's.",
                *(f"Published: theoretical (realised), {what}. {source}." for what, source in published.items()),
            ],
        )


def _stack_row(pair: Pair, rung: RungPair) -> tuple[str, ...]:
    speedups = ratio(rung.speedup), f"({ratio(rung.realised)})"
    return pair.candidate, pair.baseline, rung.rung, *speedups, _published(pair), rung.verdict


def _published(pair: Pair) -> str:
    if pair.published is None:
        return "–"
    realised = pair.published.realised
    return f"{pair.published.theoretical:g} ({'–' if realised is None else f'{realised:g}'})"
