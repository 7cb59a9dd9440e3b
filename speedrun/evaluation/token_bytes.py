"""How many bytes of text each token stands for: exactly, where the kind of tokenizer lets it be known. No jax here.

A byte-level BPE writes each byte as one character of its alphabet, so a token's bytes are its characters, also
where they are no UTF-8 by themselves. SentencePiece writes a space as a low line and has a token for each byte.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from tokenizers import pre_tokenizers

_SPACE = "\u2581"
_ALPHABET = frozenset(pre_tokenizers.ByteLevel.alphabet())


class Vocabulary(Protocol):
    """What is asked of a tokenizer here."""

    def get_vocab(self) -> Mapping[str, int]: ...

    @property
    def all_special_ids(self) -> Sequence[int]: ...


def token_bytes(tokenizer: Vocabulary) -> np.ndarray | None:
    """Bytes of text of each token id, int32; special tokens stand for none.

    None when the tokenizer is neither a byte-level BPE nor a SentencePiece model with byte fallback: its tokens
    alone do not say what they stand for. SentencePiece puts a space before a text that is not in it, so that a
    document's first token counts one byte too many there.
    """
    vocabulary = tokenizer.get_vocab()
    if vocabulary.keys() >= _ALPHABET:
        count = _byte_level_bytes
    elif all(f"<0x{byte:02X}>" in vocabulary for byte in range(256)):
        count = _sentencepiece_bytes
    else:
        return None
    lengths = np.zeros(max(vocabulary.values()) + 1, dtype=np.int32)
    special = set(tokenizer.all_special_ids)
    for token, at in vocabulary.items():
        lengths[at] = 0 if at in special else count(token)
    return lengths


def _byte_level_bytes(token: str) -> int:
    """A token that was added as plain text is not written in the alphabet."""
    return len(token) if _ALPHABET.issuperset(token) else len(token.encode())


def _sentencepiece_bytes(piece: str) -> int:
    is_byte = len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
    return 1 if is_byte else len(piece.replace(_SPACE, " ").encode())
