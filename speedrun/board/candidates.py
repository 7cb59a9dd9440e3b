"""docs/candidates.md: every candidate with its two gates. Written by ``speedrun leaderboard --write``."""

from collections.abc import Sequence

from speedrun.board.badges import gate_one
from speedrun.board.model import ArmRow, Board, Figure, GateOne
from speedrun.board.sheets import CLAIMS_NOTHING
from speedrun.board.text import Link, Sheet, bits, escape, markdown, plain, ratio
from speedrun.catalog import Listed, list_candidates
from speedrun.ladder import LADDER
from speedrun.project import Project

FILE = "docs/candidates.md"
BESIDE = "measured beside the score"

_HEAD = f"""# Candidates, by their two gates

Written by `speedrun leaderboard --write` from the candidates' files and records; don't edit it by hand.

**Gate 1**: it ports. `speedrun check` builds, traces, shards and counts it at every rung, on a CPU. **Gate 2**: it
moves the metric. At the budget its bits per byte are lower than the baseline's, beyond noise; `speedrun compare` says
more. A verdict is for one rung, and the map below gives that of the largest one measured. **Theoretical (realised)**
is by how many times less compute, and less time on the same hardware, a candidate reaches its loss than the baseline.

{CLAIMS_NOTHING}

Where a docstring says that a learning rate was carried by a rule, it was tuned at micro_1 alone, while AdamW was tuned
at every micro rung: a small loss at the others is no verdict on the method.

Levanter's Mars, RMSProp and Scion fail under the jax that is pinned here, and so are no candidates.
"""


def candidates_markdown(project: Project, shown: Board) -> str:
    """The text of docs/candidates.md. The same files give the same text on any day."""
    listed = list_candidates(project)
    gates = {item.name: gate_one(project, item.name) for item in listed}
    arms = {item.name: _arms_of(shown, item.name) for item in listed}
    rows = [_map_row(item, gates[item.name], arms[item.name]) for item in listed]
    columns = (
        "candidate",
        "what it is",
        "gate 1",
        "gate 2",
        "at",
        "theoretical (realised)",
        BESIDE,
    )
    parts = [_HEAD, markdown(Sheet("The map", columns, rows), 2)]
    parts += [_section(item, gates[item.name], arms[item.name], shown) for item in listed]
    return "\n".join(parts)


def _arms_of(shown: Board, name: str) -> list[ArmRow]:
    """Its arms, smallest rung first."""
    arms = [arm for ladder in shown.ladders for arm in ladder.arms if arm.candidate == name]
    order = list(LADDER)
    return sorted(arms, key=lambda arm: order.index(arm.rung))


def _map_row(item: Listed, gate: GateOne | None, arms: Sequence[ArmRow]) -> tuple[str | Link, ...]:
    top = arms[-1] if arms else None
    return (
        Link(item.name, f"../executor_steps/{item.path.name}"),
        item.summary,
        _gate_word(gate),
        _verdict(top) if top else "not measured",
        top.rung if top else "–",
        _theoretical(top.speedup, top.realised) if top else "–",
        _metrics(top) if top else "–",
    )


def _section(item: Listed, gate: GateOne | None, arms: Sequence[ArmRow], shown: Board) -> str:
    hypotheses = {info.name: info.hypothesis for info in shown.candidates}
    said = escape(hypotheses.get(item.name) or item.summary)
    found = f"Gate 1: {_gate_word(gate)}" + (f" at {', '.join(gate.rungs)}." if gate else ".")
    problems = [f"- {escape(plain(problem, 500))}" for problem in (gate.problems if gate else [])]
    parts = [f"## {escape(item.name)}\n\n{said}\n\n{found}", *problems]
    if arms:
        columns = ("rung", "bits per byte", "seeds", "speedup", "realised", "gate 2", BESIDE)
        table = markdown(Sheet("", columns, [_rung_row(arm) for arm in arms]))
        parts.append(table.partition("\n\n")[2].rstrip("\n"))
    meanings = {metric.name: metric.meaning for arm in arms for metric in arm.metrics}
    parts += [f"{escape(name)}: {escape(meaning)}" for name, meaning in meanings.items()]
    return "\n\n".join(parts) + "\n"


def _rung_row(arm: ArmRow) -> tuple[str, ...]:
    seeds = str(sum(not run.flags for run in arm.runs))
    figures = bits(arm.bits_per_byte), seeds, ratio(arm.speedup), ratio(arm.realised)
    return (arm.rung, *figures, _verdict(arm), _metrics(arm))


def _gate_word(gate: GateOne | None) -> str:
    return "not checked" if gate is None else "passed" if gate.passed else "failed"


def _verdict(arm: ArmRow) -> str:
    return arm.verdict or arm.not_ranked or "the baseline"


def _theoretical(speedup: Figure, realised: Figure) -> str:
    """``1.31x (1.25x)``."""
    if speedup.value is None:
        return "–"
    return f"{speedup.value:.2f}x ({'–' if realised.value is None else f'{realised.value:.2f}x'})"


def _metrics(arm: ArmRow) -> str:
    return ", ".join(f"{metric.name} {metric.value:,.4g} {metric.unit}" for metric in arm.metrics) or "–"
