"""A record of a real run: upstream's keys, identities that add up, nothing of the machine it was made on."""

import gzip
import hashlib
import json
import math
import re
from typing import Any

import pytest

from speedrun.catalog import load_candidate
from speedrun.cost.conventions import recorded_optimizer_share
from speedrun.project import Project
from speedrun.records.schema import RunInfo
from tests.conftest import SHARED_DATA, Cli


def test_it_has_every_key_of_upstreams_latest_shape(record: dict[str, Any]) -> None:
    file = SHARED_DATA / "speedrun_results" / "adamc_qwen3_scaling__130m__speedrun_results@8be6ad63.json"
    if not file.exists():
        pytest.skip("upstream's result files are not beside this checkout (../shared/data)")
    theirs = json.loads(file.read_text())["runs"][0]["run_info"]
    assert set(theirs) <= set(record)
    for key, value in theirs.items():
        if record[key] is not None and key not in ("resources", "model_config", "train_config"):
            assert isinstance(record[key], int | float) == isinstance(value, int | float), key


def test_its_figures_add_up(record: dict[str, Any]) -> None:
    train, evaluation = record["train_config"], record["evaluation"]
    assert record["total_tokens"] == train["batch_size"] * train["sequence_length"] * train["steps"]
    assert record["model_flops"] == 3 * record["model_flops_per_token"] * record["total_tokens"]
    assert 0.98 < record["model_flops"] / record["budget_flops"] <= 1
    assert record["bits_per_byte"] == pytest.approx(evaluation["nats"] / math.log(2) / evaluation["bytes"], rel=1e-12)
    assert record["training_time"] == pytest.approx(record["compile_time"] + record["steady_time"])
    assert record["tokens_per_second"] == pytest.approx(record["total_tokens"] / record["steady_time"])
    # 2 x 48 x 2048 embeddings, and per layer 4 d^2 + 3 d i + 2 d, and the final norm.
    assert record["model_size"] == 2 * 48 * 2048 + 2 * (4 * 48**2 + 3 * 48 * 128 + 2 * 48) + 48


def test_it_tells_how_busy_others_kept_the_machine(record: dict[str, Any]) -> None:
    assert all(0 <= attempt["others_cpu_share"] <= 1 for attempt in record["attempts"])


def test_it_holds_all_three_flops_meters(record: dict[str, Any]) -> None:
    # Per layer 6 d i for the MLP, 8 d^2 for the projections, 4 S d for scores and sums, 3 S H for the softmax.
    scores, softmax = 2 * 4 * 256 * 48, 2 * 3 * 256 * 2
    matrices = 2 * (6 * 48 * 128 + 8 * 48**2) + scores + 2 * 48 * 2048
    assert record["flops"] == {
        "convention_forward_flops_per_token": matrices + softmax,
        "causal_forward_flops_per_token": matrices + softmax - (scores + softmax) / 2,
        "traced_forward_flops_per_token": matrices,
        "optimizer_flops_per_step": 0,
        "unknown": {},
    }
    assert record["model_flops_per_token"] == matrices + softmax
    assert record["non_embedding_parameters"] == record["model_size"] - 2 * 48 * 2048
    assert record["active_parameters"] == record["model_size"]


def test_the_optimizers_share_of_a_run_is_read_from_its_record(record: dict[str, Any]) -> None:
    info = RunInfo.model_validate(record)
    assert recorded_optimizer_share(info) == 0
    assert info.flops is not None
    steps = record["train_config"]["steps"]
    equal = info.flops.model_copy(update={"optimizer_flops_per_step": record["model_flops"] / steps})
    assert recorded_optimizer_share(info.model_copy(update={"flops": equal})) == pytest.approx(0.5)
    old = {key: value for key, value in record.items() if key != "flops"}
    assert recorded_optimizer_share(RunInfo.model_validate(old)) is None


def test_the_score_is_near_levanters_and_below_chance(record: dict[str, Any]) -> None:
    own = record["eval/micro/heldout/bpb"]
    assert own != record["bits_per_byte"]
    assert record["bits_per_byte"] == pytest.approx(own, rel=0.02)
    assert 1.5 < record["bits_per_byte"] < 3.5


def test_the_evaluation_is_every_tenth_summary(record: dict[str, Any]) -> None:
    assert record["evaluation"]["documents"] == 1004
    assert record["training_data"]["heldout_documents"] == 1004
    assert record["training_data"]["train_documents"] == 10033 - 1004
    assert record["evaluation"]["bytes"] == record["training_data"]["heldout_bytes"]
    assert "CC BY-SA" in record["training_data"]["attribution"]


def test_what_is_not_known_is_null(record: dict[str, Any]) -> None:
    for key in ("device_flops", "training_hardware_flops", "mfu", "eval/paloma/c4_en/bpb", "wandb_run_link"):
        assert record[key] is None, key


def test_nothing_of_the_machine_is_in_it(record: dict[str, Any], trained: Cli) -> None:
    text = json.dumps(record)
    assert str(trained.root) not in text
    assert not re.search(r"\b0x[0-9a-f]{6,}", text)
    assert not re.search(r'"/[A-Za-z]', text)


def test_its_step_log_is_whole_and_its_digest_right(record: dict[str, Any], trained: Cli) -> None:
    folder = trained.root / "results" / "adamw" / "micro_1"
    text = gzip.decompress((folder / record["step_log"]["file"]).read_bytes())
    assert hashlib.sha256(text).hexdigest() == record["step_log"]["sha256"]
    steps = [json.loads(line) for line in text.splitlines()]
    assert [step["step"] for step in steps] == list(range(record["train_config"]["steps"]))
    assert sum(step["seconds"] for step in steps) == pytest.approx(record["training_time"], abs=1e-4 * len(steps))
    assert steps[-1]["tokens"] == record["total_tokens"]
    assert steps[-1]["loss"] < steps[0]["loss"]


def test_seeds_differ_in_score_and_share_the_fingerprint(trained: Cli) -> None:
    file = trained.root / "results" / "adamw" / "micro_1" / "speedrun_results.json"
    first, second = (run["run_info"] for run in json.loads(file.read_text())["runs"])
    assert (first["seed"], second["seed"]) == (42, 43)
    assert first["recipe_fingerprint"] == second["recipe_fingerprint"]
    assert first["bits_per_byte"] != second["bits_per_byte"]
    assert first["run_key"] != second["run_key"]


def test_the_source_digest_can_be_checked_from_the_text(record: dict[str, Any], trained: Cli) -> None:
    text = (trained.root / "executor_steps" / "adamw.py").read_bytes()
    assert record["source_digest"] == hashlib.sha256(text).hexdigest()
    assert record["source_digest"] == load_candidate(Project(trained.root), "adamw").source_digest
