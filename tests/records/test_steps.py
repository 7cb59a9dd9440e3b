"""Reading a step log: kills, resumes and replays, with times worked out by hand."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedrun.records.steps import (
    Step,
    StepLogReader,
    attempt_file,
    checkpoint_told,
    read_step_log,
    throughput_fall,
)

ABOUT = {"started": "2026-01-01 00:00:00 UTC", "hardware": "cpu", "chips": 1}


def line(step: int, seconds: float, loss: float = 1.0) -> str:
    return json.dumps({"step": step, "loss": loss, "seconds": seconds, "tokens": (step + 1) * 10}) + "\n"


def write(output: Path, *attempts: str) -> None:
    (output / "step_log").mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(attempts, start=1):
        about = json.dumps({"attempt": number, **ABOUT}) + "\n"
        (output / "step_log" / attempt_file(number)).write_text(about + text)


def test_a_resumed_run_counts_each_step_once_and_keeps_the_last(tmp_path: Path) -> None:
    # Killed after step 3, resumed from a checkpoint after step 1: steps 2 and 3 were trained twice.
    first = line(0, 20.0) + line(1, 1.0) + line(2, 1.0, loss=9.0) + line(3, 1.0)
    write(tmp_path, first, line(2, 21.0, loss=7.0) + line(3, 1.0) + line(4, 1.0))
    log = read_step_log(str(tmp_path))
    assert [step.step for step in log.steps] == [0, 1, 2, 3, 4]
    assert log.steps[2].loss == 7.0
    assert log.training_seconds == 20 + 1 + 21 + 1 + 1
    assert log.spent_seconds == 23 + 23
    assert log.rows == 7
    assert log.missing(5) == []
    assert log.missing(7) == [5, 6]
    # The median step takes a second; the two first steps took 19 and 20 more, which is compilation.
    assert log.steady_seconds == 5.0
    assert log.compile_seconds == 39.0
    assert [(a.number, a.first_step, a.last_step) for a in log.attempts] == [(1, 0, 3), (2, 2, 4)]


def write_told(output: Path, *attempts: tuple[dict[str, object], str]) -> None:
    """Attempts with what their engine and their configuration said of them."""
    (output / "step_log").mkdir(parents=True, exist_ok=True)
    for number, (told, text) in enumerate(attempts, start=1):
        about = json.dumps({"attempt": number, **ABOUT, **told}) + "\n"
        (output / "step_log" / attempt_file(number)).write_text(about + text)


def test_attempts_tell_what_was_lost_with_them_and_why(tmp_path: Path) -> None:
    ended = {"a": {"cause": "node n1 was lost", "wall_seconds": 50.0}}
    write_told(
        tmp_path,
        ({"id": "a"}, line(0, 1.0) + line(1, 1.0) + line(2, 1.0)),
        (
            {"id": "b", "ended": ended},
            line(1, 1.0) + line(2, 1.0) + '{"wall_seconds": 12.5, "others_cpu_share": 0.25}\n',
        ),
    )
    first, second = read_step_log(str(tmp_path)).attempts
    assert (first.cause, first.wall_seconds, first.lost_steps) == ("node n1 was lost", 50.0, 2)
    assert (second.cause, second.wall_seconds, second.lost_steps) == (None, 12.5, 0)
    assert (first.others_cpu_share, second.others_cpu_share) == (None, 0.25)


@pytest.mark.parametrize(
    ("seconds", "first", "is_told"),
    [
        # Checkpoints every 100 s: after 260 s there must be one, at 250 s it may still be being written.
        (261.0, 0, True),
        (250.0, 0, False),
        # Who went on from step 7 had one, however short.
        (1.0, 7, True),
    ],
)
def test_a_checkpoint_is_expected_once_there_must_have_been_one(
    tmp_path: Path, seconds: float, first: int, is_told: bool
) -> None:
    write_told(tmp_path, ({"checkpoint_every": 100.0}, line(first, seconds)))
    assert (checkpoint_told(read_step_log(str(tmp_path))) is not None) == is_told


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, line(0, 1.0) + line(1, 1.0)[:-9])
    assert [step.step for step in read_step_log(str(tmp_path)).steps] == [0]


@given(st.integers(0, 200))
def test_any_cut_gives_a_prefix(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    output = tmp_path_factory.mktemp("cut")
    text = "".join(line(step, 1.0) for step in range(3))
    write(output, text[: min(cut, len(text))])
    steps = [step.step for step in read_step_log(str(output)).steps]
    assert steps == list(range(len(steps)))


def test_a_run_that_has_not_begun_has_no_steps(tmp_path: Path) -> None:
    log = read_step_log(str(tmp_path / "nowhere"))
    assert (log.steps, log.attempts, log.steady_seconds) == ((), (), 0.0)


def test_levanters_own_figure_is_read_and_the_last_one_counts(tmp_path: Path) -> None:
    old, new = ({"evaluated_at": 1, "eval/micro/heldout/bpb": value} for value in (3.0, 2.5))
    write(tmp_path, json.dumps(old) + "\n", json.dumps(new) + "\n")
    assert read_step_log(str(tmp_path)).evaluated == {"eval/micro/heldout/bpb": 2.5}


def test_a_growing_log_is_read_on_and_a_line_in_the_making_waits(tmp_path: Path) -> None:
    write(tmp_path, "".join(line(step, 1.0) for step in range(100)) + line(100, 1.0)[:10])
    reader = StepLogReader(str(tmp_path))
    assert len(reader.read().steps) == 100
    part = tmp_path / "step_log" / attempt_file(1)
    part.write_text(part.read_text() + line(100, 1.0)[10:] + line(101, 1.0))
    assert [step.step for step in reader.read().steps] == [*range(102)]
    # Killed, and resumed from a checkpoint after step 49.
    about = json.dumps({"attempt": 2, **ABOUT}) + "\n"
    (tmp_path / "step_log" / attempt_file(2)).write_text(about + line(50, 3.0, loss=5.0))
    assert reader.read() == read_step_log(str(tmp_path))
    assert reader.read().steps[50].loss == 5.0
    assert (reader.read().rows, len(reader.read().attempts)) == (103, 2)


@pytest.mark.parametrize(("slower", "fall"), [(1.0, 0.0), (1.25, 0.2), (0.5, -1.0)])
def test_a_fall_of_throughput_is_its_share(slower: float, fall: float) -> None:
    # The first step compiles; 100 steps at one pace, then 50 that take so many times as long.
    seconds = [60.0, *[1.0] * 100, *[slower] * 50]
    steps = [Step(at, 1.0, took, (at + 1) * 10, 1) for at, took in enumerate(seconds)]
    assert throughput_fall(steps) == pytest.approx(fall)
    assert throughput_fall(steps[:100]) is None
    # Another attempt may run elsewhere: it starts anew.
    resumed = [Step(at + 151, 1.0, 9.0, (at + 152) * 10, 2) for at in range(60)]
    assert throughput_fall([*steps, *resumed]) is None
