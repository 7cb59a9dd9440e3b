"""Gzip files beside records: the same bytes for the same text, and unpacked as a stranger's data."""

import gzip
import zlib

MAX_TEXT_BYTES = 64_000_000
"""A file of 2 MB unpacks to about 20; one that goes on and on is an attack."""


def pack(text: bytes) -> bytes:
    """Gzip without a time stamp."""
    return gzip.compress(text, mtime=0)


def unpack(content: bytes) -> bytes:
    """The text in ``content``, a gzip file.

    Raises:
        ValueError: when it is none, is cut short, goes on behind its end, or unpacks to too much.
    """
    try:
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(content, MAX_TEXT_BYTES)
    except zlib.error as error:
        raise ValueError(f"it is no gzip file ({error})") from None
    if not unpacker.eof:
        too_long = len(text) >= MAX_TEXT_BYTES
        raise ValueError(f"it unpacks to more than {MAX_TEXT_BYTES:,} bytes" if too_long else "it is cut short")
    if unpacker.unused_data:
        raise ValueError("something stands behind its end")
    return text
