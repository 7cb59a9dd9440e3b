"""Two runs compared document by document, with an interval over documents.

Bits per byte is a ratio of sums, so its error over documents is that of a ratio estimator (Cochran, Sampling
Techniques, 1977, section 6.4): with D the ratio of the sums, document i's residual is r_i = bits_i - D bytes_i,
and the standard error is sqrt(N / (N - 1) sum r_i^2) / sum bytes_i. It answers "would other documents of the same
kind say so too?" and knows nothing of seeds: the seeds' noise is the other interval (scoring/comparison.py). Paired,
most of the documents' own difficulty cancels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from speedrun.errors import SpeedrunError
from speedrun.records.documents import Documents


@dataclass(frozen=True)
class OverDocuments:
    """A figure in bits per byte with its interval over documents."""

    bits_per_byte: float
    standard_error: float
    low: float
    high: float
    documents: int
    """That have any bytes."""


def score_over_documents(runs: Sequence[Documents], *, confidence: float = 0.9) -> OverDocuments:
    """Bits per byte of one arm, the mean of its seeds' nats on each document.

    Raises:
        SpeedrunError: when the runs are not of the same documents, or of fewer than two.
    """
    return _ratio(_mean_nats(runs, runs[0]), runs[0], confidence)


def paired_difference(a: Sequence[Documents], b: Sequence[Documents], *, confidence: float = 0.9) -> OverDocuments:
    """How many bits per byte arm ``a`` takes beyond arm ``b``, document by document; negative where ``a`` is better.

    Args:
        a: the runs (seeds) of one arm, on the same texts as ``b``'s. Their tokenizers may differ.

    Raises:
        SpeedrunError: when the documents' bytes differ, or there are fewer than two documents.
    """
    return _ratio(_mean_nats(a, b[0]) - _mean_nats(b, b[0]), b[0], confidence)


def _mean_nats(runs: Sequence[Documents], like: Documents) -> np.ndarray:
    for run in runs:
        if run.bytes != like.bytes:
            raise SpeedrunError("the runs are not of the same documents: their bytes differ")
    return np.mean([run.nats for run in runs], axis=0)


def _ratio(nats: np.ndarray, like: Documents, confidence: float) -> OverDocuments:
    size = np.asarray(like.bytes, dtype=np.float64)
    bits, size = (nats / math.log(2))[size > 0], size[size > 0]
    count = len(size)
    if count < 2:
        raise SpeedrunError("an interval over documents needs two documents at least")
    value = bits.sum() / size.sum()
    residuals = bits - value * size
    error = math.sqrt(count / (count - 1) * float((residuals**2).sum())) / float(size.sum())
    half = float(stats.t.ppf(0.5 + confidence / 2, count - 1)) * error
    return OverDocuments(float(value), error, float(value) - half, float(value) + half, count)
