"""Which documents are chosen, on collections whose answer is plain."""

from collections import Counter

import pytest

from speedrun.methods.documents import best_by_quality, tempered_by_topic


def documents(**sizes: int) -> list[dict[str, str]]:
    return [{"text": f"{topic} {at}", "topic": topic} for topic, size in sizes.items() for at in range(size)]


def test_topics_weigh_by_the_square_root_of_their_share() -> None:
    # Shares 100 : 25 become 10 : 5 of 125 documents.
    chosen = tempered_by_topic(documents(common=100, rare=25))
    counts = Counter(document["topic"] for document in chosen)
    assert counts == {"common": 83, "rare": 42}
    assert set(Counter(d["text"] for d in chosen if d["topic"] == "rare").values()) == {1, 2}
    # Left out evenly: of any six common ones in a row, one or two.
    kept = [int(document["text"].split()[1]) for document in chosen if document["topic"] == "common"]
    assert kept == sorted(kept)
    assert max(b - a for a, b in zip(kept, kept[1:], strict=False)) == 2


def test_equal_topics_stay_as_they_are() -> None:
    same = documents(one=7, other=7)
    assert tempered_by_topic(same) == same


def test_the_filter_drops_what_reads_like_the_uncategorised() -> None:
    pytest.importorskip("sklearn", reason="a dependency that an older environment may lack")
    good = [{"text": f"the cell has energy and water {at}", "topic": "Biology"} for at in range(80)]
    bad = [{"text": f"buy this amazing offer now {at}", "topic": "Uncategorized"} for at in range(20)]
    mixed = [document for at in range(20) for document in (*good[4 * at : 4 * at + 4], bad[at])]
    chosen = best_by_quality(mixed)
    assert chosen == good
