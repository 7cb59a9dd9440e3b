"""The whole path of the 30m rung, dry: a local hub in place of the real one, two steps of its true shape on the CPU."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Cli
from tests.hub import TOKEN, LocalHub, jsonl_gz, serve

pytestmark = pytest.mark.slow

SENTENCES = [f"Sentence {n} of a text about é, 漢字 and {n * n} other things. " for n in range(400)]
SCORED = ["A first document.", "", "Ein zweites Dokument mit Äpfeln. " * 150]
OTHERS = ["Another document, of the stand-in. " * 200]


def tokenizer_json() -> str:
    from speedrun.steps.tokenizer import train_bpe

    return train_bpe(SENTENCES, 400).to_str()


def levanter_cache(folder: Path, tokenizer: str) -> dict[str, bytes]:
    """A cache as the pretokenized ones are: its files, by their paths in the repository."""
    from levanter.store.cache import SerialCacheWriter
    from tokenizers import Tokenizer

    ids = [encoding.ids for encoding in Tokenizer.from_str(tokenizer).encode_batch(SENTENCES * 8)]
    with SerialCacheWriter(str(folder / "train"), {"input_ids": np.zeros((0,), np.int32)}) as writer:
        writer.write_batch([{"input_ids": np.array(document, np.int32)} for document in ids])
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    tokenizer = tokenizer_json()
    with serve() as hub:
        cache = levanter_cache(tmp_path_factory.mktemp("cache"), tokenizer)
        hub.dataset("marin-community/fineweb-edu-pretokenized-10B").commit(cache)
        paloma = {"c4_en/val/val.jsonl.gz": jsonl_gz(SCORED), "ptb/val/val.jsonl.gz": jsonl_gz(SCORED[2:])}
        hub.dataset("allenai/paloma", gated=True).commit(paloma, "65cd6fc")
        commit = "1588ec454efa1a09f29cd18ddd04fe05fc8653a2"
        hub.dataset("allenai/c4").commit({"en/c4-validation.00000-of-00008.json.gz": jsonl_gz(OTHERS)}, commit)
        files = {"tokenizer.json": tokenizer.encode(), "tokenizer_config.json": b'{"eos_token": "<|end_of_text|>"}'}
        commit = "a5ca45f2feb6c959bd87b81689aa7279b5bdcaa2"
        hub.model("marin-community/marin-tokenizer").commit(files, commit)
        yield hub


def run(cli: Cli, server: LocalHub, *words: str, token: str) -> dict[str, Any]:
    """The record of a run of two steps, which is scratch."""
    environment = {"HF_ENDPOINT": server.url, "HF_TOKEN": token, "HF_TOKEN_PATH": os.devnull}
    short = ("--rung", "30m", "--steps", "2", "--batch_size", "2", "--hardware", "cpu", "--json")
    (record,) = json.loads(cli("run", "adamw", *short, *words, env=environment).stdout)
    assert not list((cli.root / "results").rglob("speedrun_results.json"))
    return record


def test_the_30m_rung_from_the_hub_to_the_record(project: Cli, server: LocalHub) -> None:
    record = run(project, server, token=TOKEN)
    assert (record["rung"], record["total_tokens"], record["evaluation_data"]) == ("30m", 2 * 2 * 1024, "")
    # 4 layers of width 128, two embeddings of the served tokenizer's size, no more.
    vocabulary = len(json.loads(tokenizer_json())["model"]["vocab"])
    assert record["model_size"] == 2 * vocabulary * 128 + 4 * (4 * 128**2 + 3 * 128 * 448 + 2 * 128) + 128
    evaluation = record["evaluation"]
    assert evaluation["documents"] == 2
    assert evaluation["bytes"] == sum(len(text.encode()) for text in SCORED)
    assert evaluation["tokenizer_sha256"] == hashlib.sha256(tokenizer_json().encode()).hexdigest()
    # An untrained model spreads its probability evenly over the vocabulary.
    assert evaluation["nats"] / evaluation["tokens"] == pytest.approx(np.log(vocabulary), rel=0.1)
    # Levanter counts each token of half a character as three bytes, and these texts have many.
    assert record["eval/paloma/c4_en/bpb"] == pytest.approx(record["bits_per_byte"], rel=0.2)
    assert record["eval/c4_en_proxy/bpb"] is None
    sources = record["training_data"]["sources"]
    assert {name: source["commit"][:7] for name, source in sources.items() if name != "fineweb_edu_10b"} == {
        "paloma_c4_en": "65cd6fc",
        "marin_tokenizer": "a5ca45f",
    }
    (commit,) = server.dataset("marin-community/fineweb-edu-pretokenized-10B").commits
    assert sources["fineweb_edu_10b"]["commit"] == commit
    assert TOKEN not in json.dumps(record)

    # The stand-in needs no token; what is here already is not fetched again, and its figure has a key of its own.
    fetched = len(server.downloads("shard_ledger.json")), len(server.downloads("tokenizer.json"))
    trial = run(project, server, "--evaluation", "c4_en_proxy", token="")
    assert (len(server.downloads("shard_ledger.json")), len(server.downloads("tokenizer.json"))) == fetched
    assert trial["evaluation_data"] == "c4_en_proxy"
    assert trial["evaluation"]["bytes"] == len(OTHERS[0].encode())
    assert trial["eval/c4_en_proxy/bpb"] is not None
    assert trial["eval/paloma/c4_en/bpb"] is None
    assert trial["recipe_fingerprint"] != record["recipe_fingerprint"]
    assert "paloma_c4_en" not in trial["training_data"]["sources"]

    # The checkpoint that was trained for the board is scored on another part of Paloma, without training.
    environment = {"HF_ENDPOINT": server.url, "HF_TOKEN": TOKEN, "HF_TOKEN_PATH": os.devnull}
    short = ("--rung", "30m", "--steps", "2", "--batch_size", "2", "--hardware", "cpu", "--json")
    done = project("evaluate", "adamw", *short, "--evaluation", "paloma_ptb", env=environment)
    (elsewhere,) = json.loads(done.stdout)
    assert (elsewhere["evaluation_data"], elsewhere["evaluation"]["bytes"]) == ("paloma_ptb", len(SCORED[2].encode()))
    assert elsewhere["training_time"] == record["training_time"]
    # An untrained model: about the same nats for each token, wherever it stands.
    ours, theirs = (each["evaluation"]["nats"] / each["evaluation"]["tokens"] for each in (record, elsewhere))
    assert theirs == pytest.approx(ours, rel=0.05)
