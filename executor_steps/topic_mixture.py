"""Topic mixture: topics weighed by the square root of their share, so that rare ones come more often.

Temperature sampling, as multilingual models weigh languages (arXiv 1911.02116), with the topic labels of the micro
corpus; documents are repeated or left out, tokenizer and evaluation stay. The held-out documents have the topics in
their old shares, so that the mixture must pay for what it takes from the common ones. Micro rungs only, where documents
have labels. Definition: speedrun/methods/documents.py.
"""

from speedrun import LADDER, Author, Candidate, Recipe, Rung, reference
from speedrun.methods import documents


def recipe(rung: Rung) -> Recipe:
    return reference.recipe(rung).replace(training_data=documents.TOPICS)


CANDIDATE = Candidate(
    name="topic_mixture",
    authors=[Author("Marin Speedrun", "Marin community", "https://marin.community")],
    hypothesis="Evening out the topics lets a model learn the rare ones, at little cost to the common.",
    recipe=recipe,
    rungs=[name for name, rung in LADDER.items() if rung.is_micro],
)

if __name__ == "__main__":
    CANDIDATE.main()
