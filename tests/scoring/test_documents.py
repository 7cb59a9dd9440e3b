"""The interval over documents: worked out by hand, and against the bootstrap over documents."""

import math

import numpy as np
import pytest

from speedrun.errors import SpeedrunError
from speedrun.records.documents import Documents
from speedrun.scoring.documents import paired_difference, score_over_documents


def documents(bits: list[float], sizes: list[int]) -> Documents:
    return Documents([value * math.log(2) for value in bits], [1] * len(sizes), sizes)


def test_a_difference_worked_out_by_hand() -> None:
    # Document by document 1, 0 and 2 bits less, over 4, 4 and 8 bytes: D = -3/16.
    a = documents([7, 9, 14], [4, 4, 8])
    b = documents([8, 9, 16], [4, 4, 8])
    # Residuals -1 + 3/4, 0 + 3/4, -2 + 6/4; their squares sum to 1/16 + 9/16 + 4/16.
    error = math.sqrt(3 / 2 * 14 / 16) / 16
    found = paired_difference([a], [b])
    assert (found.bits_per_byte, found.documents) == (pytest.approx(-3 / 16), 3)
    assert found.standard_error == pytest.approx(error)
    # Student's t for two degrees of freedom: 2.9200 at 95 %.
    assert found.high - found.bits_per_byte == pytest.approx(2.91999 * error, rel=1e-5)
    assert found.bits_per_byte - found.low == pytest.approx(2.91999 * error, rel=1e-5)


def test_seeds_are_averaged_on_each_document() -> None:
    b = documents([8, 9, 16], [4, 4, 8])
    seeds = [documents([6, 9, 14], [4, 4, 8]), documents([8, 9, 14], [4, 4, 8])]
    assert paired_difference(seeds, [b]) == paired_difference([documents([7, 9, 14], [4, 4, 8])], [b])


def test_an_empty_document_says_nothing() -> None:
    with_empty = [documents([7, 0, 9], [4, 0, 4]), documents([8, 0, 9], [4, 0, 4])]
    without = [documents([7, 9], [4, 4]), documents([8, 9], [4, 4])]
    assert paired_difference(with_empty[:1], with_empty[1:]) == paired_difference(without[:1], without[1:])


def test_the_standard_error_is_the_bootstrap_s() -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(50, 900, 800)
    bits = sizes * (2 + random.normal(0, 0.3, 800)) + random.normal(0, 20, 800)
    found = score_over_documents([documents(bits.tolist(), sizes.tolist())])
    drawn = random.integers(0, 800, (4000, 800))
    scores = bits[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    assert found.standard_error == pytest.approx(scores.std(), rel=0.05)
    assert [found.low, found.high] == pytest.approx(np.quantile(scores, [0.05, 0.95]), abs=0.15 * scores.std())


def test_other_documents_are_refused() -> None:
    a, b = documents([7, 9], [4, 4]), documents([7, 9], [4, 5])
    with pytest.raises(SpeedrunError, match="not of the same documents"):
        paired_difference([a], [b])
    with pytest.raises(SpeedrunError, match="two documents at least"):
        score_over_documents([documents([7], [4])])
