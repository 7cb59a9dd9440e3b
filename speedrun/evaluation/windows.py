"""How a document is cut into windows: each token scored once, by lm-eval's rolling rule.

The model sees BOS first. The first window scores the first L tokens. Each later window starts with the
last token of the one before and scores the next L. The last one reaches back, so that it too is L long
where the document is: its earlier tokens are context and are not scored a second time. This is what
lm-eval's ``get_rolling_token_windows`` followed by ``make_disjoint_window`` does with a context of one
(docs/scoring.md), so that an outsider can recompute a score with it. No jax here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """One row for the model: it reads ``inputs`` and is scored on part of ``targets``."""

    document: int
    """Position of the document in the evaluation set."""
    inputs: Sequence[int]
    targets: Sequence[int]
    """Same length as ``inputs``: the token that follows each of them."""
    scored: slice
    """Positions of the targets that count."""
    ends: bool = False
    """Whether the last target is the end-of-text token: known, and counted apart from the score."""


def rolling_windows(
    document: int, tokens: Sequence[int], bos: int, length: int, *, end: int | None = None
) -> Iterator[Window]:
    """The windows of one document, in order. A document without tokens has none.

    Args:
        document: position of the document.
        tokens: the document's own tokens, without BOS or end-of-text.
        bos: what the model sees before the first of them.
        length: the longest window, in tokens.
        end: the end-of-text token, if its nats are wanted too. It changes nothing that comes before it.
    """
    stream = [bos, *tokens]
    done = 0
    while done < len(tokens):
        stop = min(done + length, len(tokens))
        start = max(0, stop - length)
        inputs, targets = stream[start:stop], stream[start + 1 : stop + 1]
        scored = slice(len(inputs) - (stop - done), len(inputs))
        done = stop
        if done == len(tokens) and end is not None and len(inputs) < length:
            # There is room behind the last token.
            yield Window(document, [*inputs, stream[-1]], [*targets, end], scored, ends=True)
        else:
            yield Window(document, inputs, targets, scored)
    if end is not None and len(tokens) >= length:
        yield Window(document, stream[-length:], [*stream[1 - length or len(stream) :], end], slice(0, 0), ends=True)
