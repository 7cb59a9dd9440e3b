"""Probes: questions to a finished model whose answer must be yes, or its score means nothing.

Does it see ahead? Does a packed document reach into the next? Does it remember what it was asked before, or look
at its neighbours in the batch? Does any token make it answer with no number? Each measures how far nats move that
must not move. They ask through the very function that scores (speedrun/evaluation/nats.py), some forty windows
in all and one row for every ``length`` tokens of the vocabulary.
"""

from collections.abc import Sequence

import numpy as np

from speedrun.evaluation.nats import NatsFunction
from speedrun.records.schema import PROBE_LIMITS, Probe

ROW_TOKENS = 2048
"""Tokens in the rows that are asked about at a time; at least two rows."""


class ProbesFailed(Exception):
    """A model that failed a probe. Its run has no score."""


def probe_model(
    nats: NatsFunction, encoded: Sequence[Sequence[int]], *, bos: int, end: int, vocab_size: int, length: int
) -> list[Probe]:
    """Ask all of them.

    Args:
        nats: of the model, as it is scored.
        encoded: the evaluation's documents, as tokens; the longest of them are used.
        bos: what documents begin with.
        end: the end-of-text token, by which packed documents are told apart.
        vocab_size: ids 0 to ``vocab_size`` - 1 are asked about.
        length: tokens per window; the run's training length.
    """
    random = np.random.default_rng(0)
    text = _windows(encoded, bos, length, random, vocab_size)
    return [
        _finite(nats, vocab_size, len(text), length, random),
        _causality(nats, text, random, vocab_size),
        _batch(nats, text, random, vocab_size),
        _state(nats, text, random, vocab_size),
        _isolation(nats, text, random, bos, end, vocab_size),
    ]


def check_probes(probes: Sequence[Probe]) -> None:
    """Raises ``ProbesFailed`` naming each one that did not pass."""
    failed = [probe for probe in probes if not probe.passed]
    if failed:
        told = "; ".join(f"{probe.name}: {probe.meaning}: {probe.value:.3g}, limit {probe.limit:g}" for probe in failed)
        raise ProbesFailed(f"the model fails {len(failed)} of {len(probes)} probes, so it has no score: {told}")


def _windows(
    encoded: Sequence[Sequence[int]], bos: int, width: int, random: np.random.Generator, vocab_size: int
) -> np.ndarray:
    """Rows of width + 1 tokens: BOS and the beginnings of the longest documents, filled up at random."""
    rows = random.integers(0, vocab_size, (max(2, ROW_TOKENS // width), width + 1), dtype=np.int32)
    rows[:, 0] = bos
    for row, tokens in zip(rows, sorted(encoded, key=len, reverse=True), strict=False):
        kept = tokens[:width]
        row[1 : 1 + len(kept)] = kept
    return rows


def _finite(nats: NatsFunction, vocab_size: int, rows: int, width: int, random: np.random.Generator) -> Probe:
    """Every token of the vocabulary is read once and asked for once."""
    ids = random.permutation(vocab_size).astype(np.int32)
    groups = np.resize(ids, (-(-vocab_size // (rows * width)), rows, width))
    bad = sum(int((~np.isfinite(nats(group, np.roll(group, -1, axis=1)))).sum()) for group in groups)
    return _probe("finite", bad, "answers that are no finite number, when every token is read and asked for")


def _causality(nats: NatsFunction, text: np.ndarray, random: np.random.Generator, vocab_size: int) -> Probe:
    """All tokens from some place on are replaced; what was asked before that place must not move."""
    inputs, targets = text[:, :-1], text[:, 1:]
    width = inputs.shape[1]
    before = nats(inputs, targets)
    moved = 0.0
    for at in (1, width // 4, width // 2, 3 * width // 4, width - 1):
        changed = inputs.copy()
        changed[:, at:] = _others(changed[:, at:], random, vocab_size)
        moved = max(moved, _distance(nats(changed, targets)[:, :at], before[:, :at]))
    return _probe("causality", moved, "nats by which later tokens move the nats of an earlier one")


def _batch(nats: NatsFunction, text: np.ndarray, random: np.random.Generator, vocab_size: int) -> Probe:
    """Rows in another order, among other rows, and fewer at a time."""
    inputs, targets = text[:, :-1], text[:, 1:]
    before = nats(inputs, targets)
    order = random.permutation(len(inputs))
    moved = _distance(nats(inputs[order], targets[order]), before[order])
    half = len(inputs) // 2
    neighbours = inputs.copy()
    neighbours[half:] = _others(neighbours[half:], random, vocab_size)
    moved = max(moved, _distance(nats(neighbours, targets)[:half], before[:half]))
    moved = max(moved, _distance(nats(inputs[:half], targets[:half]), before[:half]))
    return _probe("batch", moved, "nats by which a batch's order and other rows move a token's nats")


def _state(nats: NatsFunction, text: np.ndarray, random: np.random.Generator, vocab_size: int) -> Probe:
    """The same question again, with others in between."""
    inputs, targets = text[:, :-1], text[:, 1:]
    before = nats(inputs, targets)
    for _ in range(2):
        nats(_others(inputs, random, vocab_size), targets)
    return _probe("state", _distance(nats(inputs, targets), before), "nats by which earlier calls move a token's nats")


def _isolation(
    nats: NatsFunction, text: np.ndarray, random: np.random.Generator, bos: int, end: int, vocab_size: int
) -> Probe:
    """Two documents in a row, packed as in training: BOS, text, end-of-text; BOS, text. The first one changes."""
    inputs, targets = text[:, :-1].copy(), text[:, 1:]
    width = inputs.shape[1]
    second = width // 2
    inputs[:, second - 1], inputs[:, second] = end, bos
    segments = np.repeat((np.arange(width) >= second).astype(np.int32)[None], len(inputs), axis=0)
    before = nats(inputs, targets, segments)
    first = inputs.copy()
    first[:, 1 : second - 1] = _others(first[:, 1 : second - 1], random, vocab_size)
    moved = _distance(nats(first, targets, segments)[:, second:], before[:, second:])
    return _probe("isolation", moved, "nats by which a packed document moves a token of the next one")


def _others(tokens: np.ndarray, random: np.random.Generator, vocab_size: int) -> np.ndarray:
    """Another token in the place of each."""
    return ((tokens + random.integers(1, vocab_size, tokens.shape)) % vocab_size).astype(np.int32)


def _distance(after: np.ndarray, before: np.ndarray) -> float:
    """The largest difference; where one of the two is no number, as far as can be."""
    difference = np.abs(after - before)
    return float(np.where(np.isfinite(difference), difference, np.finfo(np.float64).max).max())


def _probe(name: str, value: float, meaning: str) -> Probe:
    limit = PROBE_LIMITS[name]
    return Probe(name=name, passed=bool(value <= limit), value=float(value), limit=limit, meaning=meaning)
