"""Corpora: the split, and a user's own files with their faults named."""

import gzip
import io
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from fsspec.core import url_to_fs
from hypothesis import given, settings
from hypothesis import strategies as st

from speedrun.errors import SpeedrunError
from speedrun.steps import corpus
from speedrun.steps.corpus import corpus_digest, read_user_documents, split_held_out


def texts(pattern: Path | str) -> list[str]:
    return [document["text"] for document in read_user_documents(str(pattern))]


def test_every_tenth_document_is_held_out() -> None:
    documents = [{"text": str(n)} for n in range(25)]
    train, held_out = split_held_out(documents)
    assert [d["text"] for d in held_out] == ["0", "10", "20"]
    assert len(train) == 22


def test_each_kind_of_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("plain é")
    (tmp_path / "b.md").write_text("# md")
    (tmp_path / "c.jsonl").write_text('{"text": "one"}\n\n{"text": "two", "x": 1}\n')
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b'{"text": "three"}\n'))
    pyarrow.parquet.write_table(pyarrow.table({"text": ["four", None]}), tmp_path / "e.parquet")
    (tmp_path / "ignored.bin").write_bytes(b"\xff")
    assert texts(tmp_path) == ["plain é", "# md", "one", "two", "three", "four"]
    assert texts(f"{tmp_path}/*.txt") == ["plain é"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"caf\xe9", r"a\.txt is not UTF-8 text \(byte 3 is 0xe9\)"),
        ("a.jsonl", b'{"text": "ok"}\nnope\n', r"a\.jsonl:2 is not JSON"),
        ("a.jsonl", b'{"txt": "x"}\n', r'a\.jsonl:1 has no "text" field'),
        ("a.jsonl", b'{"text": "\\ud800"}\n', r"a\.jsonl:1 has half a character"),
        ("a.jsonl", b"[" * 100_000, r"a\.jsonl:1 is not JSON"),
        ("a.jsonl.gz", b"not gzip", r"a\.jsonl\.gz cannot be read"),
        ("a.parquet", b"not parquet", r"a\.parquet cannot be read"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SpeedrunError, match=message):
        list(read_user_documents(str(tmp_path)))


def test_missing_and_empty_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpeedrunError, match="matches no file"):
        texts(tmp_path / "nowhere")
    with pytest.raises(SpeedrunError, match="holds no file"):
        texts(tmp_path)


def test_too_few_documents_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one document")
    with pytest.raises(SpeedrunError, match="1 documents are too few"):
        corpus_digest(str(tmp_path))


def test_a_corpus_is_known_by_its_documents_not_by_its_place(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": f"document {n}"}) + "\n" for n in range(30))
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_text(lines)
    assert corpus_digest(str(tmp_path / "one")) == corpus_digest(str(tmp_path / "two"))
    (tmp_path / "two" / "a.jsonl").write_text(lines.replace("document 7", "document seven"))
    assert corpus_digest(str(tmp_path / "one")) != corpus_digest(str(tmp_path / "two"))


@pytest.mark.parametrize("kind", ["memory", "file", "s3"])
def test_files_are_read_from_any_storage(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = {"memory": "memory://texts", "file": f"file://{tmp_path}", "s3": "s3://texts"}[kind]
    if kind == "s3":
        for name, value in request.getfixturevalue("s3").items():
            monkeypatch.setenv(name, value)
    fs, path = url_to_fs(root, use_listings_cache=False)
    for folder in ("a", "b"):
        fs.makedirs(f"{path}/{folder}", exist_ok=True)
    table = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": ["two", "three"]}), table)
    fs.pipe_file(f"{path}/a/one.jsonl.gz", gzip.compress(b'{"text": "one"}\n'))
    fs.pipe_file(f"{path}/b/two.parquet", table.getvalue())
    fs.pipe_file(f"{path}/c.md", b"four")
    assert texts(root) == ["one", "two", "three", "four"]
    assert texts(f"{root}/*/*.parquet") == ["two", "three"]
    assert texts(f"{root}/c.md") == ["four"]
    with pytest.raises(SpeedrunError, match="matches no file"):
        texts(f"{root}/*.txt")


def test_storage_that_is_not_known_is_an_error_of_one_line() -> None:
    with pytest.raises(SpeedrunError, match="nothing://x cannot be read: Protocol not known"):
        texts("nothing://x")


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_every_text_comes_back_as_it_was(written: list[str]) -> None:
    """Through a user's file, and through what the corpus step makes of it: U+2028 ends no document."""
    fs = url_to_fs("memory://round")[0]
    lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in written)
    fs.pipe_file("/round/mine.jsonl", lines.encode())
    kept = [text for text in written if text.strip()]
    assert texts("memory://round") == kept
    corpus._write_corpus("memory://round/out", [{"text": text} for text in kept], "")
    both = [corpus.read_documents(f"memory://round/out/{part}.jsonl.gz") for part in ("train", "heldout")]
    assert sorted(document["text"] for part in both for document in part) == sorted(kept)
    fs.rm("/round", recursive=True)


def test_a_corpus_that_cannot_be_fetched_says_what_to_place_where(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty-cache"))
    with pytest.raises(SpeedrunError, match="could not be fetched") as raised:
        corpus._find_wiki_file(tmp_path / "downloads")
    assert str(tmp_path / "downloads" / "summaries_en-us.json") in str(raised.value)
    assert list((tmp_path / "downloads").iterdir()) == []


def test_a_wrong_corpus_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "summaries_en-us.json").write_text("{}")
    job = corpus.CorpusConfig(corpus.WIKI_SHA256, str(tmp_path / "out"), str(tmp_path))
    with pytest.raises(SpeedrunError, match="has SHA-256"):
        corpus._write_wiki_summaries(job)
    assert not (tmp_path / "out").exists()
