"""Choosing training documents: by a classifier's score of their quality, or by topic.

A choice is a function from the training documents (``text`` and ``topic`` each) to those that are trained on, in order.
It never sees a held-out document. ``CHOICES`` names them; a recipe trains on one by ``training_data=NAME``.
"""

from collections import Counter
from collections.abc import Callable, Sequence

Document = dict[str, str]
Choice = Callable[[Sequence[Document]], list[Document]]

UNCATEGORISED = "Uncategorized"
KEPT = 0.8
"""Share of the documents that the quality filter keeps."""
TEMPERATURE = 2.0
"""Topics weigh by their share to the power of one over this: 1 changes nothing, infinity evens all out."""


def best_by_quality(documents: Sequence[Document]) -> list[Document]:
    """The best documents, as a linear classifier of their words sees it.

    Labelled as good are articles with a topic of Wikipedia's vital articles, as others those without any. No
    document is judged by a classifier that saw its label: there are five, each fitted on four fifths.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    good = [document["topic"] != UNCATEGORISED for document in documents]
    classifier = make_pipeline(
        TfidfVectorizer(min_df=3, sublinear_tf=True), LogisticRegression(class_weight="balanced")
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    texts = [document["text"] for document in documents]
    scores = cross_val_predict(classifier, texts, good, cv=folds, method="predict_proba")[:, 1]
    best = sorted(range(len(documents)), key=lambda at: (-scores[at], at))[: round(KEPT * len(documents))]
    return [documents[at] for at in sorted(best)]


def tempered_by_topic(documents: Sequence[Document]) -> list[Document]:
    """As many documents as before, with rare topics more often and common ones less.

    A topic's documents are repeated or left out evenly over their order.
    """
    sizes = Counter(document["topic"] for document in documents)
    weights = {topic: size ** (1 / TEMPERATURE) for topic, size in sizes.items()}
    scale = len(documents) / sum(weights.values())
    copies = {topic: scale * weights[topic] / size for topic, size in sizes.items()}
    seen: Counter[str] = Counter()
    chosen = []
    for document in documents:
        topic = document["topic"]
        before, after = round(seen[topic] * copies[topic]), round((seen[topic] + 1) * copies[topic])
        seen[topic] += 1
        chosen += [document] * (after - before)
    return chosen


QUALITY, TOPICS = "wiki_summaries_quality", "wiki_summaries_topics"
CHOICES: dict[str, Choice] = {QUALITY: best_by_quality, TOPICS: tempered_by_topic}
"""By the name of the training data."""
