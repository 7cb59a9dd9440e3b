"""Several documents in one sequence: where each of them starts."""

import haliax as hax
from haliax import Axis, NamedArray
from levanter.layers.attention import AttentionMask


def document_starts(mask: AttentionMask | NamedArray | None, Pos: Axis) -> NamedArray:
    """Whether a document starts at each position: at the first one, and where the mask's document number changes.

    A mask without document numbers, as in the evaluation, is of sequences with one document each.
    """
    first = hax.arange(Pos) == 0
    if not isinstance(mask, AttentionMask) or mask.segment_ids is None:
        return first
    numbers, _ = mask.segment_ids
    return first | (numbers != hax.roll(numbers, 1, Pos))
