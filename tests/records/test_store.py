"""Results files: merged by seed, written whole or not at all, and wrong ones refused with their fault."""

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from speedrun.errors import SpeedrunError
from speedrun.records import store
from speedrun.records.schema import RunInfo
from speedrun.records.store import RESULTS_FILE, publish_run, read_results, step_log_info, step_log_text

LINES = [{"step": step, "loss": 2.0, "seconds": 0.5, "tokens": step + 1, "attempt": 1} for step in range(3)]


def info(record: dict[str, Any], **changes: Any) -> RunInfo:
    return RunInfo.model_validate(record | changes)


@pytest.fixture
def publish(tmp_path: Path, example: dict[str, Any]):
    def put(seed: int, fingerprint: str = "f", **changes: Any) -> Path:
        text = step_log_text(LINES)
        log = step_log_info(seed, text, steps=3, complete=True).model_dump()
        changed = info(example, seed=seed, recipe_fingerprint=fingerprint, step_log=log, **changes)
        return publish_run(tmp_path / "r", changed, text)

    return put


def seeds(path: Path) -> list[int]:
    return [run["run_info"]["seed"] for run in json.loads(path.read_text())["runs"]]


def test_seeds_are_merged_and_a_seed_is_replaced(publish) -> None:
    publish(43)
    path = publish(42)
    assert seeds(path) == [42, 43]
    publish(42, bits_per_byte=1.25)
    assert seeds(path) == [42, 43]
    assert read_results(path).runs[0].run_info.bits_per_byte == 1.25
    assert (path.parent / "steps-42.jsonl.gz").exists()


def test_another_recipe_takes_the_place_of_the_earlier_ones_seeds(publish) -> None:
    publish(42)
    path = publish(43, fingerprint="g")
    assert seeds(path) == [43]
    assert sorted(file.name for file in path.parent.glob("steps-*")) == ["steps-43.jsonl.gz"]


def test_publishing_the_same_again_changes_no_byte(publish) -> None:
    path = publish(42)
    before = (path.read_bytes(), (path.parent / "steps-42.jsonl.gz").read_bytes(), path.stat().st_mtime_ns)
    publish(42)
    assert (path.read_bytes(), (path.parent / "steps-42.jsonl.gz").read_bytes(), path.stat().st_mtime_ns) == before


def test_many_writers_at_once_lose_nothing(publish) -> None:
    threads = [threading.Thread(target=publish, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seeds(publish(0)) == list(range(12))


def test_unknown_fields_are_kept(publish) -> None:
    path = publish(42)
    content = json.loads(path.read_text())
    content["runs"][0]["run_info"]["from_the_future"] = [1, 2]
    path.write_text(json.dumps(content))
    publish(43)
    assert json.loads(path.read_text())["runs"][0]["run_info"]["from_the_future"] == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"runs": [', "not valid JSON"),
        ("", "not valid JSON"),
        ('{"runs": [NaN]}', "NaN is not a JSON number"),
        ("[" * 100_000, "not valid JSON"),
        ('{"schema_version": 999, "runs": []}', "schema version 999"),
        ('{"schema_version": 1}', "runs: Field required"),
        ('{"schema_version": 1, "runs": [{"run_info": {}}]}', r"runs\.0\.run_info"),
        ("[]", "the top level"),
    ],
)
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, text: str, message: str, publish) -> None:
    path = tmp_path / "r" / RESULTS_FILE
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(SpeedrunError, match=message) as raised:
        publish(42)
    assert str(path) in str(raised.value)
    assert path.read_text() == text


def test_a_failed_write_leaves_the_old_file(publish, monkeypatch) -> None:
    path = publish(42)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(SpeedrunError, match="No space left on device"):
        publish(43)
    assert path.read_bytes() == before
    assert [file for file in path.parent.iterdir() if file.name.startswith(f".{RESULTS_FILE}")] == []


def test_a_long_step_log_is_thinned_to_fit_and_keeps_its_ends(monkeypatch) -> None:
    monkeypatch.setattr(store, "MAX_STEP_LOG_BYTES", 2_000)
    lines = [{"step": s, "loss": 1 / (s + 1), "seconds": 0.1 + s % 7, "tokens": s, "attempt": 1} for s in range(5_001)]
    text = step_log_text(lines)
    kept = [json.loads(row)["step"] for row in text.splitlines()]
    assert len(gzip.compress(text)) <= 2_000
    assert (kept[0], kept[-1]) == (0, 5_000)
    assert 10 < len(kept) < 500
