"""Overridden runs are scratch, sweeps keep their cost, a user's corpus stays out of results/. Real, short runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli

pytestmark = pytest.mark.slow

SHORT = ("--rung", "micro_1", "--steps", "12")


def records_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("speedrun_results.json"))
    return [run["run_info"] for file in files for run in json.loads(file.read_text())["runs"]]


def test_an_overridden_run_is_scratch_until_it_is_given_a_name(new_project) -> None:
    cli: Cli = new_project("scratch")
    cli("run", "adamw", *SHORT)
    assert records_in(cli.root / "results") == []
    (info,) = records_in(cli.root / ".speedrun" / "scratch")
    assert info["overrides"] == {"steps": 12}
    assert info["candidate"] == "adamw"
    cli("run", "adamw", *SHORT, "--record-as", "adamw-short")
    (named,) = records_in(cli.root / "results")
    assert (named["candidate"], named["overrides"]) == ("adamw-short", {"steps": 12})
    # The name changes what the record says, not what was computed: nothing was trained again.
    assert named["run_key"] == info["run_key"]
    assert named["attempts"] == info["attempts"]


def test_a_sweep_keeps_every_point_flags_the_edge_and_does_nothing_twice(new_project) -> None:
    cli: Cli = new_project("sweep")
    words = ("sweep", "adamw", "--rung", "micro_1", "--set", "steps=8", "--set", "optimizer.learning_rate=1e-4,1e-2")
    said = cli(*words).stdout
    assert "the best optimizer.learning_rate is the edge" in said
    assert "search so far: 2 runs" in said
    sweep = json.loads((cli.root / "results" / "adamw" / "micro_1" / "sweep.json").read_text())
    scores = {point["overrides"]["optimizer.learning_rate"]: point["bits_per_byte"] for point in sweep["points"]}
    assert scores[1e-2] < scores[1e-4]
    before = [point["training_time"] for point in sweep["points"]]
    again = cli.json(*words)["micro_1"]
    assert [point["training_time"] for point in again["points"]] == before
    assert not list((cli.root / "results").rglob("speedrun_results.json"))


def test_a_sweep_goes_on_past_a_point_that_breaks_down(new_project) -> None:
    cli: Cli = new_project("diverges")
    words = ("sweep", "adamw", "--rung", "micro_1", "--set", "steps=8", "--set", "optimizer.learning_rate=1e9,1e-2")
    done = cli(*words)
    assert "Loss is" in done.stderr
    sweep = json.loads((cli.root / "results" / "adamw" / "micro_1" / "sweep.json").read_text())
    scores = {point["overrides"]["optimizer.learning_rate"]: point["bits_per_byte"] for point in sweep["points"]}
    assert scores[1e9] is None
    assert scores[1e-2] is not None
    failed = [run for run in cli.json("status") if run["state"] == "failed"]
    assert [run["why"].startswith("RuntimeError: Loss is") for run in failed] == [True]


def test_a_users_corpus_trains_with_a_tokenizer_of_its_own(new_project, tmp_path: Path) -> None:
    cli: Cli = new_project("corpus")
    texts = tmp_path / "texts"
    texts.mkdir()
    lines = [json.dumps({"text": f"Das ist Satz Nummer {n}, und er handelt von Äpfeln. " * 12}) for n in range(60)]
    (texts / "mine.jsonl").write_text("\n".join(lines))
    cli("run", "adamw", *SHORT, "--corpus", str(texts))
    assert not (cli.root / "results").exists()
    (info,) = records_in(cli.root / ".speedrun" / "scratch")
    assert info["corpus"] == "user"
    assert info["evaluation"]["documents"] == 6
    assert info["evaluation"]["bytes"] == sum(len(json.loads(lines[n])["text"].encode()) for n in range(0, 60, 10))
    assert str(texts) not in json.dumps(info)


def test_wandb_offline_leaves_no_secret_and_changes_no_result(new_project) -> None:
    cli: Cli = new_project("wandb")
    secret = "0123456789abcdef0123456789abcdef01234567"
    cli("run", "adamw", *SHORT, env={"WANDB_MODE": "offline", "WANDB_API_KEY": secret, "HF_TOKEN": f"hf_{secret}"})
    assert list((cli.root / ".speedrun").rglob("*.wandb")), "W&B kept no offline run"
    (info,) = records_in(cli.root / ".speedrun" / "scratch")
    assert info["wandb_run_link"] is None
    leaks = [
        file
        for file in cli.root.rglob("*")
        if file.is_file() and file.suffix != ".wandb" and secret.encode() in file.read_bytes()
    ]
    assert leaks == []


def test_records_can_be_kept_out_of_results(new_project, tmp_path: Path) -> None:
    cli: Cli = new_project("elsewhere")
    cli("run", "adamw", *SHORT, "--record-as", "brief", "--results", str(tmp_path / "mine"))
    (info,) = records_in(tmp_path / "mine")
    assert info["candidate"] == "brief"
    assert not (cli.root / "results").exists()
