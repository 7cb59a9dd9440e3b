"""attempts.jsonl: every start on record, with its end, whoever writes and whatever breaks off."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedrun.errors import SpeedrunError
from speedrun.records.attempts import ATTEMPTS_FILE, AttemptsLog, parse_attempts, read_attempts


def start(log: AttemptsLog, folder: Path, key: str = "k", **more: Any) -> None:
    given = {"rung": "micro_1", "seed": 42, "recipe_fingerprint": "f", "hardware": "cpu", "overrides": {}} | more
    log.start(folder, run_key=key, **given)


def ways(folder: Path) -> list[str]:
    return [attempt.how for attempt in read_attempts(folder / ATTEMPTS_FILE)]


def test_a_finished_run_leaves_its_start_its_end_and_its_score(tmp_path: Path) -> None:
    with AttemptsLog() as log:
        start(log, tmp_path, overrides={"optimizer.learning_rate": 0.1})
        start(log, tmp_path)  # noted already
        log.end("k", "finished", 2.5)
    (attempt,) = read_attempts(tmp_path / ATTEMPTS_FILE)
    assert attempt.start.overrides == {"optimizer.learning_rate": 0.1}
    assert attempt.end is not None and (attempt.how, attempt.end.bits_per_byte) == ("finished", 2.5)


@pytest.mark.parametrize(("error", "how"), [(ValueError, "failed"), (KeyboardInterrupt, "interrupted")])
def test_what_breaks_off_is_noted_as_such_and_what_had_ended_is_not(tmp_path: Path, error: type, how: str) -> None:
    with pytest.raises(error), AttemptsLog() as log:
        start(log, tmp_path, "a")
        start(log, tmp_path, "b", seed=43)
        log.end("a", "finished", 2.0)
        raise error
    assert ways(tmp_path) == ["finished", how]


def test_a_killed_process_leaves_a_start_without_an_end(tmp_path: Path) -> None:
    start(AttemptsLog(), tmp_path)
    assert ways(tmp_path) == ["no end on record"]


def test_the_same_run_started_again_is_another_attempt(tmp_path: Path) -> None:
    for how in ("interrupted", "finished"):
        with AttemptsLog() as log:
            start(log, tmp_path)
            log.end("k", how)
    assert ways(tmp_path) == ["interrupted", "finished"]


def test_many_writers_at_once_lose_no_line(tmp_path: Path) -> None:
    def write(seed: int) -> None:
        with AttemptsLog() as log:
            start(log, tmp_path, f"k{seed}", seed=seed, overrides={"x": "y" * 500})
            log.end(f"k{seed}", "finished", float(seed))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    attempts = read_attempts(tmp_path / ATTEMPTS_FILE)
    assert sorted(attempt.start.seed for attempt in attempts) == list(range(20))
    assert {attempt.how for attempt in attempts} == {"finished"}


def test_no_file_means_no_attempts(tmp_path: Path) -> None:
    assert read_attempts(tmp_path / ATTEMPTS_FILE) == []


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"event": "started"}', b'{"event": "ended", "attempt": 3}', b"\xff", b"NaN"]
)
def test_a_line_that_is_no_attempt_is_named(line: bytes) -> None:
    with pytest.raises(SpeedrunError, match=r"attempts\.jsonl, line 2: "):
        parse_attempts(b"\n" + line + b"\n", "attempts.jsonl")


@given(st.binary(max_size=200))
def test_any_bytes_give_attempts_or_a_clear_error(content: bytes) -> None:
    try:
        parse_attempts(content, "x")
    except SpeedrunError as error:
        assert str(error).startswith("x, line ")


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpeedrunError, match="cannot be written"):
        start(AttemptsLog(), tmp_path / "file" / "x")


def test_lines_are_json_that_others_can_read(tmp_path: Path) -> None:
    start(AttemptsLog(), tmp_path)
    line = json.loads((tmp_path / ATTEMPTS_FILE).read_text())
    assert line["event"] == "started" and line["seed"] == 42 and line["at"].endswith(" UTC")
