"""Quality filter: the best four fifths of the documents, by a small classifier's score.

A linear classifier of words, fitted by a step of the run on the training documents, tells articles with a topic of
Wikipedia's vital articles from those without; the lowest-scored fifth is left out. Source: the classifier filters of
FineWeb-Edu (arXiv 2406.17557) and DCLM (arXiv 2406.11794), whose gains come from crawled text of very mixed quality
and on tasks. Summaries of an encyclopedia leave little to filter, and the held-out documents are not filtered: no gain
is to be expected here. Micro rungs only, where documents have labels. Definition: speedrun/methods/documents.py.
"""

from speedrun import LADDER, Author, Candidate, Recipe, Rung, reference
from speedrun.methods import documents


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(training_data=documents.QUALITY)


CANDIDATE = Candidate(
    name="quality_filter",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Training on documents that a classifier takes for good ones lowers the loss at equal compute.",
    recipe=recipe,
    rungs=[name for name, rung in LADDER.items() if rung.is_micro],
)

if __name__ == "__main__":
    CANDIDATE.main()
