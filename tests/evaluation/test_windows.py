"""Windows: every token scored once, in order, with what comes before it as context."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedrun.evaluation.windows import rolling_windows

BOS, END = -1, -2
documents = st.lists(st.integers(0, 50), max_size=60)


@given(documents, st.integers(1, 16))
def test_every_token_is_scored_exactly_once_in_order(tokens: list[int], length: int) -> None:
    scored = [token for w in rolling_windows(0, tokens, BOS, length) for token in w.targets[w.scored]]
    assert scored == tokens


@given(documents, st.integers(1, 16))
def test_end_of_text_comes_once_after_all_that_fits_before_it_and_moves_nothing(tokens: list[int], length: int) -> None:
    plain = list(rolling_windows(0, tokens, BOS, length))
    ended = list(rolling_windows(0, tokens, BOS, length, end=END))
    assert [(w.inputs[: len(p.inputs)], w.scored) for w, p in zip(ended, plain, strict=False)] == [
        (p.inputs, p.scored) for p in plain
    ]
    assert all(END not in w.targets[w.scored] and len(w.inputs) <= length for w in ended)
    ends = [w for w in ended if w.ends]
    assert len(ends) == (1 if tokens else 0)
    if tokens:
        # lm-eval's rule: as much of the text before it as the context holds.
        assert (ends[0].targets[-1], ends[0].inputs) == (END, [BOS, *tokens][-length:])


@given(documents, st.integers(1, 16))
def test_no_window_is_too_long_and_each_target_follows_its_input(tokens: list[int], length: int) -> None:
    stream = [BOS, *tokens]
    for window in rolling_windows(0, tokens, BOS, length):
        assert 1 <= window.scored.stop - window.scored.start <= len(window.inputs) == len(window.targets) <= length
        starts = [at for at in range(len(stream)) if stream[at : at + len(window.inputs)] == window.inputs]
        assert any(stream[at + 1 : at + 1 + len(window.targets)] == window.targets for at in starts)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, []),
        (1, [([BOS], [0], 1)]),
        (4, [([BOS, 0, 1, 2], [0, 1, 2, 3], 4)]),
        # The last window reaches back for context and scores only what is left.
        (5, [([BOS, 0, 1, 2], [0, 1, 2, 3], 4), ([0, 1, 2, 3], [1, 2, 3, 4], 1)]),
        (8, [([BOS, 0, 1, 2], [0, 1, 2, 3], 4), ([3, 4, 5, 6], [4, 5, 6, 7], 4)]),
    ],
)
def test_windows_by_hand(count: int, expected: list[tuple[list[int], list[int], int]]) -> None:
    windows = rolling_windows(0, list(range(count)), BOS, 4)
    assert [(w.inputs, w.targets, w.scored.stop - w.scored.start) for w in windows] == expected
