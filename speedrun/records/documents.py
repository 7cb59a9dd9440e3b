"""The documents file beside a record: what a run did on each document of the evaluation set.

``documents-<seed>.json.gz`` holds three lists of one length, in the evaluation set's order, empty documents
included. With it two runs can be compared document by document (speedrun/scoring/documents.py).
"""

import json
from typing import NamedTuple

from speedrun.identity import sha256_hex
from speedrun.records import strict_json
from speedrun.records.gzip_text import unpack
from speedrun.records.schema import DocumentsInfo

DECIMALS = 4
"""Of a document's nats on file, of which it has some hundred."""
_HUGE = 1e15


class Documents(NamedTuple):
    """One entry a document."""

    nats: list[float]
    """Sum of the negative log-likelihoods of its tokens."""
    tokens: list[int]
    bytes: list[int]
    """UTF-8."""


def documents_file(seed: int) -> str:
    """Name of the file for the run with ``seed``."""
    return f"documents-{seed}.json.gz"


def documents_text(documents: Documents) -> bytes:
    """The file's text, before compression."""
    rounded = documents._replace(nats=[round(nats, DECIMALS) for nats in documents.nats])
    return json.dumps(rounded._asdict(), separators=(",", ":")).encode()


def documents_info(seed: int, text: bytes) -> DocumentsInfo:
    """What the record says of the file with ``text``."""
    return DocumentsInfo(file=documents_file(seed), sha256=sha256_hex(text))


def parse_documents(content: bytes) -> tuple[Documents, str]:
    """(the documents, SHA-256 of the text) in a documents file. It is somebody's data: anything but what
    ``documents_text`` writes is refused.

    Args:
        content: the file, a gzip.

    Raises:
        ValueError: saying what is wrong.
    """
    text = unpack(content)
    found = strict_json.loads(text)
    if not isinstance(found, dict) or set(found) != set(Documents._fields):
        raise ValueError("it is no object of nats, tokens and bytes")
    for name, column in found.items():
        kinds = {int, float} if name == "nats" else {int}
        if not isinstance(column, list) or not set(map(type, column)) <= kinds:
            raise ValueError(f"{name} is no list of {'numbers' if name == 'nats' else 'whole numbers'}")
        if column and not 0 <= min(column) <= max(column) < _HUGE:
            raise ValueError(f"{name} holds a figure out of any range")
    documents = Documents(**found)
    if len({len(column) for column in documents}) != 1:
        raise ValueError("nats, tokens and bytes are not of one length")
    return documents, sha256_hex(text)
