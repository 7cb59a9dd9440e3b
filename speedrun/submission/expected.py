"""What a record must say because its rung, its evaluation and its tokenizer leave no choice.

The micro rungs' corpus and tokenizer are made by deterministic steps from a file whose hash is pinned, so
their digests are constants. Paloma is behind a licence click, and its digest has not been taken yet: of what is not
in these tables, validation says "unverified" rather than guess.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EvaluationSet:
    """The documents that a rung is scored on."""

    texts_sha256: str
    """Over the texts in order, as ``evaluation.texts_sha256`` has it."""
    documents: int
    bytes: int
    """UTF-8 bytes of all documents."""


@dataclass(frozen=True)
class TokenizerFacts:
    """A tokenizer that recipes can name."""

    vocab_size: int
    sha256: str | None = None
    """Of its ``tokenizer.json``."""
    evaluation_tokens: dict[str, int] = field(default_factory=dict)
    """Tokens of an evaluation set, by its name: nothing but texts and tokenizer decides them."""


EVALUATION_SETS = {
    "wiki_summaries_heldout": EvaluationSet(
        texts_sha256="dedc3bad3172f6a6c70a6d71df7680a6bf4335626a6d24d8d5e6874940d906f6",
        documents=1004,
        bytes=493_271,
    ),
}

MICRO_BPE = "wiki_summaries-bpe2048"
MARIN_TOKENIZER = "marin-community/marin-tokenizer"
TOKENIZERS = {
    MICRO_BPE: TokenizerFacts(
        vocab_size=2048,
        sha256="989a7da372e3f24d13cf7357b067f9d099e078bf752b7e243aee1b8f5bd452c3",
        evaluation_tokens={"wiki_summaries_heldout": 158_307},
    ),
    MARIN_TOKENIZER: TokenizerFacts(vocab_size=128_256),
}

TOKENIZER_OF_DATA = {
    "wiki_summaries": MICRO_BPE,
    "wiki_summaries_quality": MICRO_BPE,
    "wiki_summaries_topics": MICRO_BPE,
    "fineweb_edu_10b": MARIN_TOKENIZER,
    "fineweb_edu_10m": MARIN_TOKENIZER,
    "fineweb_edu_100b": MARIN_TOKENIZER,
}
"""The tokenizer of a recipe that names none, by training data."""

_WIKI_SUMMARIES_SHA256 = "875e7c7e3255d1bfd173c2df1f4f13a202eb286bb14168a326ad34599f96a488"
TRAINING_DOCUMENTS_SHA256 = {
    "wiki_summaries": _WIKI_SUMMARIES_SHA256,
    "wiki_summaries_quality": _WIKI_SUMMARIES_SHA256,
    "wiki_summaries_topics": _WIKI_SUMMARIES_SHA256,
}
"""Digest of a corpus' documents, as ``training_data.documents_sha256`` has it; of those from which were chosen."""

MOST_BITS_PER_BYTE = 8.0
"""Guessing every byte at random."""
