"""Copies of the evaluation set in the training data, counted."""

import pytest

from speedrun.evaluation.contamination import count_contamination

LONG = " ".join(f"word{number}" for number in range(30))


def test_counts_worked_out_by_hand():
    evaluation = [LONG, "A short one.", "nothing in common", ""]
    training = [
        LONG.upper() + "!",  # whole, and so every run of it
        "before " + " ".join(f"word{number}" for number in range(5, 18)) + " after",  # thirteen words
        " ".join(f"word{number}" for number in range(12)),  # twelve are no copy
        "a  SHORT one",  # whole, too short for a run
        "",
    ]
    found = count_contamination(training, evaluation)
    assert (found.training_documents, found.training_exact, found.training_ngram) == (5, 2, 2)
    assert (found.evaluation_documents, found.evaluation_exact) == (4, 2)
    assert (found.evaluation_ngram, found.evaluation_copied) == (1, 2)
    assert found.contaminated


@pytest.mark.parametrize(("first_words", "copied"), [(24, 0), (25, 1)])
def test_a_document_is_copied_from_seventy_percent_of_its_runs(first_words, copied):
    # 30 words have 18 runs of 13; the first 24 hold 12 of them (67 %), the first 25 hold 13 (72 %).
    found = count_contamination([" ".join(LONG.split()[:first_words])], [LONG])
    assert (found.evaluation_ngram, found.evaluation_exact, found.evaluation_copied) == (1, 0, copied)


def test_one_document_in_a_hundred_is_not_yet_contaminated():
    evaluation = [LONG, *(f"document {number}" for number in range(99))]
    assert not count_contamination([LONG], evaluation).contaminated
    assert count_contamination([LONG, "document 7"], evaluation).contaminated
    assert not count_contamination([], evaluation).contaminated
