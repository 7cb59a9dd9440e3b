"""Locks say who holds them, and a dead holder's is taken away at once."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from speedrun.engines.locks import holder_of, lock_path, parse_holder, process_name, release_dead


def write_lock(step: Path, worker: str, age: float = 0.0) -> None:
    step.mkdir(parents=True, exist_ok=True)
    Path(lock_path(str(step))).write_text(json.dumps({"worker_id": worker, "timestamp": time.time() - age}))


def name_of_another_process() -> tuple[str, "subprocess.Popen[str]"]:
    code = "from speedrun.engines.locks import process_name; print(process_name(), flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    return other.stdout.readline().strip(), other


def test_the_lock_of_a_living_process_stays_and_names_it(tmp_path: Path) -> None:
    name, other = name_of_another_process()
    try:
        write_lock(tmp_path, name)
        assert release_dead([str(tmp_path)]) == []
        holder = holder_of(str(tmp_path))
        assert holder is not None
        assert (holder.pid, holder.is_this_process) == (other.pid, False)
        assert f"process {other.pid} on " in str(holder)
    finally:
        other.kill()
        other.wait()


def test_the_lock_of_a_killed_process_is_taken_away_at_once(tmp_path: Path) -> None:
    name, other = name_of_another_process()
    write_lock(tmp_path, name)
    other.kill()
    # Not waited for yet: a zombie is as dead as can be.
    deadline = time.monotonic() + 10
    while not release_dead([str(tmp_path)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    other.wait()
    assert holder_of(str(tmp_path)) is None
    assert not Path(lock_path(str(tmp_path))).exists()


def test_a_number_that_was_given_anew_does_not_count_as_the_old_process(tmp_path: Path) -> None:
    host, space, pid, _, thread = process_name().split("|")
    write_lock(tmp_path, "|".join((host, space, pid, "1", thread)))
    assert release_dead([str(tmp_path)]) == [str(tmp_path)]


def test_another_machines_lock_is_left_alone(tmp_path: Path) -> None:
    write_lock(tmp_path, "|".join(("elsewhere", "x", "1", "1", "1")))
    assert release_dead([str(tmp_path)]) == []
    assert str(holder_of(str(tmp_path))) == "process 1 on elsewhere"


def test_a_lock_that_another_program_wrote_is_left_alone(tmp_path: Path) -> None:
    write_lock(tmp_path, "some-host-140455564015296")
    assert release_dead([str(tmp_path)]) == []


def test_an_expired_lease_has_no_holder(tmp_path: Path) -> None:
    write_lock(tmp_path, process_name(), age=91)
    assert holder_of(str(tmp_path)) is None


def test_this_process_is_alive_to_itself() -> None:
    me = parse_holder(process_name())
    assert me.pid == os.getpid()
    assert me.is_this_process
    assert not me.is_known_dead()
