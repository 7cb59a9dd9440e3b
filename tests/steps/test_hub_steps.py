"""Download steps against a local hub: the commit stays, what is whole is kept, what is damaged is named."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from speedrun.errors import SpeedrunError
from speedrun.sources import HubSource
from speedrun.steps.hub import HubJob, downloaded, source_on_record
from speedrun.steps.tokenizer import train_bpe
from tests.hub import LARGE, LocalHub, jsonl_gz, serve

TEXTS = HubSource("texts", "raw/texts", "owner/texts", files=("val/*.jsonl.gz",))
WORDS = HubSource("words", "tokenizer/words", "owner/words", files=("tokenizer*", "config.json"), kind="model")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with serve() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def build(source: HubSource, folder: Path) -> None:
    downloaded(source).run(HubJob(source.repo_id, source.revision, source.files, str(folder)))


def test_the_commit_of_the_first_attempt_stays_when_the_repository_moves(server: LocalHub, tmp_path: Path) -> None:
    repository = server.dataset("owner/texts")
    first = repository.commit({"val/a.jsonl.gz": jsonl_gz(["one"]), "val/b.jsonl.gz": jsonl_gz(["two"])})
    server.instead["val/b.jsonl.gz"] = [b""] * 20
    with pytest.raises(SpeedrunError, match="b.jsonl.gz"):
        build(TEXTS, tmp_path)
    repository.commit({"val/a.jsonl.gz": jsonl_gz(["another"]), "val/c.jsonl.gz": jsonl_gz(["three"])})
    server.instead.clear()
    before = len(server.downloads("a.jsonl.gz"))
    build(TEXTS, tmp_path)
    assert gzip.decompress((tmp_path / "val" / "a.jsonl.gz").read_bytes()) == b'{"text": "one", "id": "0"}\n'
    assert sorted(path.name for path in (tmp_path / "val").iterdir()) == ["a.jsonl.gz", "b.jsonl.gz"]
    assert len(server.downloads("a.jsonl.gz")) == before, "what was whole was fetched again"
    record = source_on_record(str(tmp_path))
    size = sum(path.stat().st_size for path in (tmp_path / "val").iterdir())
    assert (record["repository"], record["commit"], record["files"]) == ("owner/texts", first, 2)
    assert record["bytes"] == size
    assert json.loads((tmp_path / "progress.json").read_text()) == {"done": size, "total": size}
    assert not (tmp_path / ".incomplete").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (jsonl_gz(["whole"])[:-6], "a.jsonl.gz of owner/texts is damaged on the hub"),
        (jsonl_gz(["x" * 99])[:20] + b"\xff" * 20, "a.jsonl.gz of owner/texts is damaged on the hub"),
        (b"no gzip at all", "a.jsonl.gz of owner/texts is damaged on the hub"),
        (gzip.compress(b'{"text": "fine"}\n{"txt": "wrong"}\n'), r"a.jsonl.gz of owner/texts: line 2 is no document"),
        (gzip.compress(b'{"text": "fine"}\n{"te'), r"a.jsonl.gz of owner/texts: line 2 is no document"),
        (gzip.compress(b'{"text": 7}\n'), r"a.jsonl.gz of owner/texts: line 1 is no document"),
    ],
    ids=["cut off", "garbled", "not gzip", "no text", "no JSON", "no string"],
)
def test_a_file_that_was_uploaded_broken_is_named(
    server: LocalHub, tmp_path: Path, content: bytes, message: str
) -> None:
    server.dataset("owner/texts").commit({"val/a.jsonl.gz": content, "val/b.jsonl.gz": jsonl_gz(["fine"])})
    with pytest.raises(SpeedrunError, match=message):
        build(TEXTS, tmp_path)


def test_a_tokenizer_is_read_with_no_hub_from_then_on(server: LocalHub, tmp_path: Path) -> None:
    tokenizer = train_bpe(["some words and more words"] * 5, 300).to_str()
    assert len(tokenizer) > LARGE
    server.model("owner/words").commit({"tokenizer.json": tokenizer.encode(), "README.md": b"not needed"})
    build(WORDS, tmp_path)
    assert (tmp_path / "tokenizer.json").read_text() == tokenizer
    size = len(json.loads(tokenizer)["model"]["vocab"])
    assert json.loads((tmp_path / "config.json").read_text()) == {"model_type": "llama", "vocab_size": size}
    assert not (tmp_path / "README.md").exists()


def test_a_repository_without_a_tokenizer_is_named(server: LocalHub, tmp_path: Path) -> None:
    server.model("owner/words").commit({"tokenizer_config.json": b"{}"})
    with pytest.raises(SpeedrunError, match="owner/words has no tokenizer.json"):
        build(WORDS, tmp_path)
