"""How much of the evaluation set stands in the training data: whole documents, and runs of 13 words."""

import re
from collections.abc import Iterable, Iterator

from speedrun.records.schema import Contamination

NGRAM = 13
"""Words in a run that counts as a copy."""
COVERED = 0.7
"""Share of a document's runs from which it counts as copied, as in PaLM's count (arXiv 2204.02311, section 8)."""
THRESHOLD = 0.01
"""Share of the evaluation's documents, copied, above which a run is marked."""

_WORD = re.compile(r"\w+")


def count_contamination(training: Iterable[str], evaluation: Iterable[str]) -> Contamination:
    """Count what ``training`` and ``evaluation`` have in common.

    Words are runs of letters, digits and underscores, in lower case: neither punctuation nor spacing hides a copy.
    A document of fewer than 13 words can only be copied whole. One shared run is reported and marks nothing:
    stock phrases ("is a species of flowering plant in the family ...") are no copies.
    """
    evaluated = [_words(text) for text in evaluation]
    wholes = {words for words in evaluated if words}
    runs = {run for words in evaluated for run in _runs(words)}
    trained = exact = overlapping = 0
    seen_wholes: set[tuple[str, ...]] = set()
    seen_runs: set[int] = set()
    for text in training:
        trained += 1
        words = _words(text)
        shared = runs.intersection(_runs(words))
        exact += words in wholes
        overlapping += bool(shared)
        seen_runs |= shared
        if words in wholes:
            seen_wholes.add(words)
    covered = [_share_of(words, seen_runs) for words in evaluated]
    copied = [words in seen_wholes or share >= COVERED for words, share in zip(evaluated, covered, strict=True)]
    return Contamination(
        training_documents=trained,
        training_exact=exact,
        training_ngram=overlapping,
        evaluation_documents=len(evaluated),
        evaluation_exact=sum(words in seen_wholes for words in evaluated),
        evaluation_ngram=sum(share > 0 for share in covered),
        evaluation_copied=sum(copied),
        contaminated=sum(copied) > THRESHOLD * len(evaluated),
    )


def _share_of(words: tuple[str, ...], seen: set[int]) -> float:
    """Share of a document's runs that were seen; 0 for one too short to have any."""
    runs = list(_runs(words))
    return sum(run in seen for run in runs) / len(runs) if runs else 0.0


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower()))


def _runs(words: tuple[str, ...]) -> Iterator[int]:
    """A 64-bit hash of each run of 13 words: a chance collision among millions of them is below one in a million."""
    return (hash(words[at : at + NGRAM]) for at in range(len(words) - NGRAM + 1))
