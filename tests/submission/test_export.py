"""Exporting to Marin's layout: what its own readers make of it is what our record says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.records.legacy import read_results_tree
from speedrun.submission.export import export_marin


def test_marins_shape_is_read_back_with_the_same_figures_and_no_flag(tree: Any, tmp_path: Path) -> None:
    written = export_marin(Project(tree.root), "muonh", tmp_path, summary=False)
    assert written == [tmp_path / "experiments" / "speedrun" / "muonh" / "30m" / "speedrun_results.json"]
    (row,) = read_results_tree(tmp_path / "experiments" / "speedrun").to_dict("records")
    info = tree.info("muonh", "30m")
    assert (row["run_name"], row["age"], row["flags"]) == ("muonh/30m", "5: resources.device", ())
    assert row["hardware"] == "v5p-8" and row["ranked"]
    for ours, theirs in (
        ("eval/paloma/c4_en/bpb", "bits_per_byte"),
        ("model_flops", "model_flops"),
        ("training_hardware_flops", "hardware_flops"),
        ("training_time", "training_time_seconds"),
        ("total_tokens", "total_tokens"),
        ("model_size", "model_parameters"),
    ):
        assert row[theirs] == info[ours], theirs


def test_a_gpu_is_named_as_upstream_names_it(tree: Any, tmp_path: Path) -> None:
    export_marin(Project(tree.root), "adamw", tmp_path, summary=False)
    (row,) = read_results_tree(tmp_path / "experiments" / "speedrun").to_dict("records")
    assert row["hardware"] == "h100x8" and row["flags"] == ()


def test_the_shape_has_the_keys_of_upstreams_latest(tree: Any, tmp_path: Path) -> None:
    shared = Path(__file__).parents[2] / ".." / "shared" / "data" / "speedrun_results"
    latest = shared / "adamc_qwen3_scaling__130m__speedrun_results@8be6ad63.json"
    if not latest.exists():
        pytest.skip("upstream's result files are not here")
    (path,) = export_marin(Project(tree.root), "muonh", tmp_path, summary=False)
    ours = json.loads(path.read_text())["runs"][0]["run_info"]
    theirs = json.loads(latest.read_text())["runs"][0]["run_info"]
    assert set(ours) == set(theirs)
    assert {"num_train_steps", "train_batch_size", "train_seq_len", "optimizer_config"} <= set(ours["train_config"])
    assert "type" not in ours["model_config"] and "type" not in ours["train_config"]["optimizer_config"]


def test_the_summary_has_every_rung_with_its_sweep_and_says_when_the_best_is_its_edge(
    tree: Any, tmp_path: Path
) -> None:
    fingerprint = tree.info("muonh", "30m")["recipe_fingerprint"]
    points = [
        {
            "overrides": {"optimizer.learning_rate": rate},
            "seed": 42,
            "recipe_fingerprint": fingerprint if rate == 0.04 else "0" * 64,
            "bits_per_byte": 1.5 - rate,
            "model_flops": 1e17,
            "training_time": 10.0,
        }
        for rate in (0.01, 0.02, 0.04)
    ]
    tree.put("results/muonh/30m/sweep.json", json.dumps({"schema_version": 1, "points": points}))
    *_, path = export_marin(Project(tree.root), "muonh", tmp_path, summary=True)
    (rung,) = json.loads(path.read_text())["rungs"]
    assert (rung["rung"], len(rung["sweep"]), rung["sweep_model_flops"]) == ("30m", 3, 3e17)
    assert rung["at_edge_of_sweep"] == ["optimizer.learning_rate"]


def test_micro_rungs_alone_are_nothing_to_export(tree: Any, tmp_path: Path) -> None:
    shutil.rmtree(tree.folder("muonh", "30m"))
    with pytest.raises(SpeedrunError, match="the micro rungs have none"):
        export_marin(Project(tree.root), "muonh", tmp_path, summary=False)
    assert list(tmp_path.glob("experiments")) == []
