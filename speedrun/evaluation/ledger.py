"""Protocol 1: nats, tokens and bytes of a set of documents, under a model, from its logits.

The harness takes logits and does its own log-softmax in float32; the model's loss function, auxiliary
losses and training precision never enter. Documents are alone in their windows: nothing is packed, so
nothing can leak from one into the next. See docs/scoring.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Any, Protocol

import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from levanter.layers.attention import AttentionMask
from levanter.models.lm_model import LmHeadModel
from levanter.utils.tree_utils import inference_mode

from speedrun.evaluation.windows import Window, rolling_windows
from speedrun.identity import texts_digest


class Tokenizer(Protocol):
    """What the ledger needs of a tokenizer (Levanter's ``MarinTokenizer`` has it)."""

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def eos_token_id(self) -> int | None: ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...


@dataclass(frozen=True)
class Ledger:
    """What a model did on a set of documents; arrays have one entry a document, in order."""

    nats: np.ndarray
    """Sum of negative log-likelihoods, float64."""
    tokens: np.ndarray
    """Scored tokens."""
    bytes: np.ndarray
    """UTF-8 bytes."""
    texts_sha256: str

    @property
    def bits_per_byte(self) -> float:
        """Sum of nats / ln 2 / sum of bytes."""
        return bits_per_byte(math.fsum(self.nats), int(self.bytes.sum()))

    @property
    def documents(self) -> int:
        """Documents with at least one scored token."""
        return int((self.tokens > 0).sum())


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
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Ledger:
    """Score ``texts`` under ``model`` by protocol 1.

    Args:
        model: any Levanter language model, in the precision in which it is to be scored.
        length: tokens per window; the run's training length.
        batch_size: windows at a time. It does not change the result beyond rounding (1e-6 relative).
        on_progress: called with (windows done, windows in all).

    Raises:
        ValueError: when the model gives a value that is not finite.
    """
    bos = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    if bos is None:
        raise ValueError("the tokenizer has neither a BOS nor an end-of-text token to start a document with")
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    windows = [w for at, tokens in enumerate(encoded) for w in rolling_windows(at, tokens, bos, length)]
    nats = np.zeros(len(texts), dtype=np.float64)
    window_nats = _make_scorer(model, length)
    done = 0
    for group in batched(windows, batch_size):
        inputs, targets, scored = _as_arrays(group, batch_size, length)
        values = np.asarray(window_nats(inputs, targets), dtype=np.float64)
        for row, window in enumerate(group):
            nats[window.document] += math.fsum(values[row][scored[row]])
        done += len(group)
        on_progress(done, len(windows))
    if not np.isfinite(nats).all():
        raise ValueError(f"the model gave a value that is not finite on document {int(np.argmin(np.isfinite(nats)))}")
    return Ledger(
        nats=nats,
        tokens=np.array([len(tokens) for tokens in encoded]),
        bytes=np.array([len(text.encode()) for text in texts]),
        texts_sha256=texts_digest(texts),
    )


def _as_arrays(group: Sequence[Window], rows: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(inputs, targets, mask of scored positions), each rows x length; padding stands after the text."""
    inputs = np.zeros((rows, length), dtype=np.int32)
    targets = np.zeros((rows, length), dtype=np.int32)
    scored = np.zeros((rows, length), dtype=bool)
    for row, window in enumerate(group):
        size = len(window.inputs)
        inputs[row, :size] = window.inputs
        targets[row, :size] = window.targets
        scored[row, size - window.scored : size] = True
    return inputs, targets, scored


def _make_scorer(model: LmHeadModel, length: int) -> Callable[[np.ndarray, np.ndarray], jax.Array]:
    """A function of (inputs, targets), both rows x length, that gives the nats of each target."""
    model = inference_mode(model, True)
    position = model.Pos.resize(length)

    @hax.named_jit
    def nats(model: LmHeadModel, inputs: Any, targets: Any) -> jax.Array:
        batch = hax.Axis("batch", inputs.shape[0])
        with jax.default_matmul_precision("highest"):
            logits = model(hax.named(inputs, (batch, position)), AttentionMask.causal(), key=None)
        values = logits.rearrange((batch, position, model.Vocab)).array.astype(jnp.float32)
        chosen = jnp.take_along_axis(values, targets[..., None], axis=-1)[..., 0]
        return jax.nn.logsumexp(values, axis=-1) - chosen

    return lambda inputs, targets: nats(model, inputs, targets)
