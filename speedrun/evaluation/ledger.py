"""Protocol 1: nats, tokens and bytes of a set of documents, under a model, from its logits.

The model's loss function, auxiliary losses and training precision never enter (speedrun/evaluation/nats.py).
Documents are alone in their windows: nothing is packed, so nothing can leak from one into the next. See
docs/scoring.md.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from haliax.partitioning import ResourceMapping
from levanter.models.lm_model import LmHeadModel

from speedrun.errors import SpeedrunError
from speedrun.evaluation.nats import VOCABULARY_BLOCK, NatsFunction, nats_function
from speedrun.evaluation.round_trip import check_documents
from speedrun.evaluation.windows import Window, rolling_windows
from speedrun.identity import texts_digest
from speedrun.records.documents import Documents

NARROWEST = 32
"""Tokens; no window is padded to fewer."""


class Tokenizer(Protocol):
    """What the ledger needs of a tokenizer (Levanter's ``MarinTokenizer`` has it)."""

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def eos_token_id(self) -> int | None: ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, ids: list[int]) -> str: ...


@dataclass(frozen=True)
class Ledger:
    """What a model did on a set of documents; arrays have one entry a document, in order."""

    nats: np.ndarray
    """Sum of negative log-likelihoods, float64."""
    tokens: np.ndarray
    """Scored tokens."""
    bytes: np.ndarray
    """UTF-8 bytes."""
    end_nats: np.ndarray | None
    """Nats of the end-of-text token behind each document, which the score leaves out; 0 for an empty one. None for
    a tokenizer without such a token."""
    texts_sha256: str

    @property
    def bits_per_byte(self) -> float:
        """Sum of nats / ln 2 / sum of bytes."""
        return bits_per_byte(math.fsum(self.nats), int(self.bytes.sum()))

    @property
    def end_of_text_bits_per_byte(self) -> float | None:
        """As ``bits_per_byte``, with each document's end-of-text token scored too, over the same bytes."""
        if self.end_nats is None:
            return None
        return bits_per_byte(math.fsum([*self.nats, *self.end_nats]), int(self.bytes.sum()))

    @property
    def documents(self) -> int:
        """Documents with at least one scored token."""
        return int((self.tokens > 0).sum())

    def by_document(self) -> Documents:
        """As records keep it."""
        return Documents(self.nats.tolist(), self.tokens.tolist(), self.bytes.tolist())


def bits_per_byte(nats: float, utf8_bytes: int) -> float:
    """Bits per byte of text that took ``nats`` to code.

    Raises:
        ValueError: without any bytes.
    """
    if utf8_bytes <= 0:
        raise ValueError("no text was scored: the documents are empty")
    return nats / math.log(2) / utf8_bytes


def score_documents(
    model: LmHeadModel,
    texts: Sequence[str],
    tokenizer: Tokenizer,
    *,
    length: int,
    batch_size: int,
    mapping: ResourceMapping | None = None,
    block: int = VOCABULARY_BLOCK,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Ledger:
    """Score ``texts`` under ``model`` by protocol 1.

    Args:
        model: any Levanter language model, in the precision in which it is to be scored.
        length: tokens per window; the run's training length.
        batch_size: windows of full length at a time; shorter ones go more at a time. Neither it nor ``mapping`` and
            ``block`` (see ``nats_function``) changes the result beyond rounding (1e-6 relative).
        on_progress: called with (windows done, windows in all).

    Raises:
        SpeedrunError: when a text does not come back from the tokenizer as it was.
        ValueError: when the model gives a value that is not finite.
    """
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    check_documents(texts, encoded, tokenizer)
    windows = cut(encoded, tokenizer, length)
    nats, ends = np.zeros(len(texts)), np.zeros(len(texts))
    done = 0
    for window, values in score_windows(
        windows, nats_function(model, mapping=mapping, block=block), length=length, batch_size=batch_size
    ):
        nats[window.document] += math.fsum(values[window.scored])
        if window.ends:
            ends[window.document] = values[-1]
        done += 1
        if done % batch_size == 0 or done == len(windows):
            on_progress(done, len(windows))
    for values in (nats, ends):
        if not np.isfinite(values).all():
            at = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"the model gave a value that is not finite on document {at}")
    return Ledger(
        nats=nats,
        tokens=np.array([len(tokens) for tokens in encoded]),
        bytes=np.array([len(text.encode()) for text in texts]),
        end_nats=None if tokenizer.eos_token_id is None else ends,
        texts_sha256=texts_digest(texts),
    )


def cut(encoded: Sequence[Sequence[int]], tokenizer: Tokenizer, length: int) -> list[Window]:
    """The windows of all documents, in order."""
    bos, end = first_token(tokenizer), tokenizer.eos_token_id
    return [w for at, tokens in enumerate(encoded) for w in rolling_windows(at, tokens, bos, length, end=end)]


def first_token(tokenizer: Tokenizer) -> int:
    """What the model sees before a document: BOS, or end-of-text where a tokenizer has no BOS.

    Raises:
        SpeedrunError: when it has neither.
    """
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return token
    raise SpeedrunError("the tokenizer has neither a BOS nor an end-of-text token to start a document with")


def padded_widths(length: int) -> list[int]:
    """Widths that windows are padded to, narrowest first: each step down from ``length`` is by the square root of 2.

    Documents are mostly much shorter than a long context, so that widths are spaced evenly in proportion: less than 0.3
    of a row is padding behind the longest document that asks for its width.
    """
    steps = 0 if length <= NARROWEST else math.ceil(2 * math.log2(length / NARROWEST))
    return sorted({max(min(length, NARROWEST), math.ceil(length / 2 ** (step / 2))) for step in range(steps + 1)})


def score_windows(
    windows: Sequence[Window], nats: NatsFunction, *, length: int, batch_size: int
) -> Iterator[tuple[Window, np.ndarray]]:
    """Each window with the nats of its targets, in no promised order.

    Windows of about the same length share a batch, so that little is computed on padding, which stands behind the
    text, where no causal model can see it.
    """
    widths = padded_widths(length)
    waiting = sorted(windows, key=lambda window: len(window.inputs), reverse=True)
    while waiting:
        width = next(width for width in widths if width >= len(waiting[0].inputs))
        rows = batch_size * length // width
        # Longest first, and each batch filled up with shorter ones: only the very last can have empty rows.
        group, waiting = waiting[:rows], waiting[rows:]
        inputs, targets = np.zeros((rows, width), dtype=np.int32), np.zeros((rows, width), dtype=np.int32)
        for row, window in enumerate(group):
            inputs[row, : len(window.inputs)] = window.inputs
            targets[row, : len(window.inputs)] = window.targets
        values = nats(inputs, targets)
        for row, window in enumerate(group):
            yield window, values[row, : len(window.inputs)]
