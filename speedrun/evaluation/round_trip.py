"""A tokenizer that loses text could be paid for bytes that it never codes: it is refused. No jax here."""

from collections.abc import Sequence
from typing import Protocol

from speedrun.errors import SpeedrunError

PROBE_TEXT = (
    "Plain words, é è ñ ß ǆ, e\u0301 (combining), ﬁ (ligature), 世界 こんにちは 한국어 Здравствуйте שלום \u200f,\n"
    "🙂👩‍👩‍👧 🇺🇳, runs  of   spaces\t\ttabs\n\n\nnewlines\r\n, \u00a0 \u2003 \ufeff \x07 \x7f, "
    "<s> </s> <unk> <|endoftext|> <|begin_of_text|> <|end_of_text|> ▁ Ġ <0x41>, 1234567 x=1; ends in a space "
)
"""Text of the kinds that tokenizers are known to change."""


class Codec(Protocol):
    """What is asked of a tokenizer here."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, ids: list[int]) -> str: ...


def check_tokenizer(tokenizer: Codec, name: str) -> None:
    """Refuse a tokenizer that does not give ``PROBE_TEXT`` back exactly: before anything is trained with it.

    Raises:
        SpeedrunError: naming what was changed.
    """
    back = tokenizer.decode(tokenizer.encode(PROBE_TEXT, add_special_tokens=False))
    if back != PROBE_TEXT:
        raise SpeedrunError(
            f"the tokenizer {name} does not give text back as it was: {_difference(PROBE_TEXT, back)}. Bits per "
            "byte would count bytes that it does not code. Take a byte-level one, or one with byte fallback and no "
            "normalizer."
        )


def check_documents(texts: Sequence[str], encoded: Sequence[list[int]], tokenizer: Codec) -> None:
    """The same for each document that is scored.

    Raises:
        SpeedrunError: naming the document and what was changed.
    """
    for at, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
        back = tokenizer.decode(ids)
        if back != text:
            raise SpeedrunError(
                f"the tokenizer does not give document {at} of the evaluation set back as it was: "
                f"{_difference(text, back)}. Its bytes cannot be scored."
            )


def _difference(text: str, back: str) -> str:
    at = next((at for at, (a, b) in enumerate(zip(text, back, strict=False)) if a != b), min(len(text), len(back)))
    return f"{text[at : at + 12]!r} comes back as {back[at : at + 12]!r} (character {at})"
