"""Rules about what stands behind the score: the documents file, and the probes of the finished model."""

import math
from collections.abc import Iterator

from speedrun.records.documents import DECIMALS, documents_file
from speedrun.records.schema import PROBE_LIMITS
from speedrun.submission.rule import CLOSE, Fault, Rule, Severity, show
from speedrun.submission.subjects import RunCase


def _path(run: RunCase) -> str:
    return f"{run.folder.path}/{documents_file(run.info.seed)}"


def documents(run: RunCase) -> Iterator[Fault]:
    """The documents file is there, under its name, can be read, and has the digest that the record holds."""
    said, name = run.info.evaluation.documents_file, documents_file(run.info.seed)
    if said is None:
        yield Fault("evaluation.documents_file", "it is null: `speedrun evaluate` keeps what each document took")
    elif said.file != name:
        yield Fault("evaluation.documents_file.file", f"{show(said.file)}; it is called {name}")
    elif run.documents.problem:
        yield Fault("", run.documents.problem, _path(run))
    elif run.documents.sha256 != said.sha256:
        what = f"{show(said.sha256)}; the file's text has {run.documents.sha256}"
        yield Fault("evaluation.documents_file.sha256", what)


def documents_sums(run: RunCase) -> Iterator[Fault]:
    """What the documents took, their tokens and their bytes add up to the evaluation's."""
    rows, evaluation = run.documents.documents, run.info.evaluation
    if rows is None or evaluation.documents_file is None:
        return
    counts = (
        ("documents", sum(tokens > 0 for tokens in rows.tokens)),
        ("tokens", sum(rows.tokens)),
        ("bytes", sum(rows.bytes)),
    )
    for name, counted in counts:
        if getattr(evaluation, name) != counted:
            yield Fault(f"evaluation.{name}", f"{getattr(evaluation, name):,}; the documents make it {counted:,}")
    nats = math.fsum(rows.nats)
    if abs(nats - evaluation.nats) > 0.5 * 10**-DECIMALS * len(rows.nats) + CLOSE * nats:
        yield Fault("evaluation.nats", f"{evaluation.nats:.8g}; the documents make it {nats:.8g}")


def probes(run: RunCase) -> Iterator[Fault]:
    """The finished model was asked every question that makes its score mean something, and passed: it sees nothing
    ahead, nothing of other documents or of its neighbours in a batch, remembers nothing, and always gives a number."""
    found = {probe.name: probe for probe in run.info.evaluation.probes}
    for name, limit in PROBE_LIMITS.items():
        probe = found.get(name)
        if probe is None:
            yield Fault("evaluation.probes", f"{name} was not asked: `speedrun evaluate` asks it")
        elif not probe.passed or not 0 <= probe.value <= limit:
            yield Fault("evaluation.probes", f"{name}: {probe.value:.3g}, where at most {limit:g} passes")


EVALUATION_RULES: tuple[Rule[RunCase], ...] = (
    Rule("documents-file", Severity.ERROR, documents),
    Rule("documents-sums", Severity.ERROR, documents_sums),
    Rule("probes", Severity.ERROR, probes),
)
