"""A small made-up record for tests of files; tests of real records use the ``record`` fixture."""

from typing import Any

import pytest


@pytest.fixture
def example() -> dict[str, Any]:
    """A run as the schema wants it, with made-up figures."""
    author = {"name": "A", "affiliation": "", "url": ""}
    evaluation = {
        "protocol": 1,
        "bits_per_byte": 2.0,
        "nats": 1386.0,
        "tokens": 500,
        "bytes": 1000,
        "documents": 3,
        "texts_sha256": "0" * 64,
        "tokenizer_sha256": "1" * 64,
    }
    return {
        "author": author,
        "authors": [author],
        "description": "",
        "model_size": 1,
        "total_tokens": 10,
        "model_flops": 30.0,
        "model_flops_per_token": 1.0,
        "num_devices": 1,
        "num_chips": 1,
        "device_flops": None,
        "training_time": 1.5,
        "training_hardware_flops": None,
        "run_completion_timestamp": "2026-01-01 00:00:00 UTC",
        "wandb_run_link": None,
        "model_config": {},
        "train_config": {},
        "tokenized_dataset": "t",
        "resources": {},
        "candidate": "c",
        "rung": "micro_1",
        "seed": 42,
        "bits_per_byte": 2.0,
        "evaluation": evaluation,
        "baseline": "adamw",
        "overrides": {},
        "budget_flops": 100.0,
        "tokens_per_second": 20.0,
        "mfu": None,
        "compile_time": 1.0,
        "steady_time": 0.5,
        "spent_time": 1.5,
        "attempts": [],
        "step_log": {"file": "steps-42.jsonl.gz", "sha256": "2" * 64, "steps": 3, "complete": True},
        "source_digest": "3" * 64,
        "recipe_fingerprint": "4" * 64,
        "run_key": "5" * 16,
        "git_commit": None,
        "git_dirty": None,
        "versions": {},
        "training_data": {},
    }
