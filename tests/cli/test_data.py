"""`speedrun data`, and the early refusal of `speedrun run`: against a local hub, as a user has them."""

import json
import os
from collections.abc import Iterator

import pytest

from tests.conftest import Cli
from tests.hub import OTHER_TOKEN, TOKEN, LocalHub, jsonl_gz, serve

TRAINING, TOKENIZER = "marin-community/fineweb-edu-pretokenized-10B", "marin-community/marin-tokenizer"
TOKENIZER_COMMIT = "a5ca45f2feb6c959bd87b81689aa7279b5bdcaa2"


@pytest.fixture(scope="module")
def server() -> Iterator[LocalHub]:
    """Everything that 30m needs, Paloma behind its licence."""
    with serve() as hub:
        hub.dataset(TRAINING).commit({"train/shard_ledger.json": b"{}", "train/input_ids": b"x" * 998})
        hub.dataset("allenai/paloma", gated=True).commit({"c4_en/val/val.jsonl.gz": jsonl_gz(["x"])}, "65cd6fc")
        hub.model(TOKENIZER).commit({"tokenizer.json": b"{}"}, TOKENIZER_COMMIT)
        yield hub


def env_of(server: LocalHub, token: str = "") -> dict[str, str]:
    """The local hub, and no token of whoever runs the tests."""
    return {"HF_ENDPOINT": server.url, "HF_TOKEN": token, "HF_TOKEN_PATH": os.devnull}


def states(cli: Cli, server: LocalHub, token: str = "") -> dict[str, tuple[str, str]]:
    done = cli("data", "--rung", "30m", "--json", ok=False, env=env_of(server, token))
    needs = json.loads(done.stdout)["30m"]
    assert done.returncode == (1 if any(need["state"] == "closed" for need in needs) else 0)
    return {need["role"]: (need["state"], need["advice"]) for need in needs}


def test_each_rung_says_what_is_open_and_what_opens_the_rest(project: Cli, server: LocalHub) -> None:
    said = states(project, server)
    assert (said["training"], said["tokenizer"]) == (("open", ""), ("open", ""))
    state, advice = said["evaluation"]
    assert state == "closed"
    for step in ("https://huggingface.co/datasets/allenai/paloma", "HF_TOKEN", "hf auth login"):
        assert step in advice
    assert "has not accepted the licence" in states(project, server, OTHER_TOKEN)["evaluation"][1]
    assert "refuses the token" in states(project, server, "hf_mistyped")["evaluation"][1]
    assert states(project, server, TOKEN)["evaluation"] == ("open", "")


def test_sizes_and_commits_are_what_the_hub_says(project: Cli, server: LocalHub) -> None:
    done = project("data", "--rung", "30m", "--rung", "micro_1", "--json", env=env_of(server, TOKEN))
    needs = json.loads(done.stdout)
    training = next(need for need in needs["30m"] if need["role"] == "training")
    (commit,) = server.dataset(TRAINING).commits
    assert (training["bytes"], training["commit"], training["tokens"]) == (1000, commit, 10e9)
    assert needs["30m"][2]["commit"] == TOKENIZER_COMMIT
    assert [need["state"] for need in needs["micro_1"]] == ["fetched at the first run"]
    said = project("data", "--rung", "30m", env=env_of(server, TOKEN)).stdout
    assert f"{TRAINING} @ {commit[:7]}" in said and "1 kB" in said


def test_a_run_that_cannot_work_is_refused_before_anything_starts(project: Cli, server: LocalHub) -> None:
    done = project("run", "adamw", "--rung", "30m", ok=False, env=env_of(server))
    assert done.returncode == 2
    assert "nothing was started" in done.stderr
    assert "paloma_c4_en (allenai/paloma) is gated. To open it: (1) accept the licence at" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project.root / ".speedrun").exists()
    assert not (project.root / "results").exists()


@pytest.mark.slow
def test_a_run_without_its_training_set_is_refused_too(project: Cli, server: LocalHub) -> None:
    """Which set a recipe trains on is known only once its code has run; still nothing is started."""
    words = ("run", "adamw", "--rung", "30m", "--training_data", "fineweb_edu_10m", "--hardware", "cpu")
    done = project(*words, ok=False, env=env_of(server, TOKEN))
    assert done.returncode == 2, done.stderr
    assert "fineweb_edu_10m (marin-community/fineweb-edu-pretokenized-10M)" in done.stderr
    assert "paloma" not in done.stderr
    assert not (project.root / ".speedrun" / "store").exists()
    assert not (project.root / ".speedrun" / "runs").exists()


def test_a_hub_out_of_reach_still_names_the_licence(project: Cli) -> None:
    done = project("data", "--rung", "75m", ok=False, env={"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert done.returncode == 1
    assert "http://127.0.0.1:9 cannot be reached" in done.stdout
    assert "It is gated besides. To open it: (1) accept the licence at" in done.stdout
