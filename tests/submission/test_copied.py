"""A record that is another's under a new name is refused, and the message says whose it is."""

import json
import shutil
from typing import Any

from speedrun.project import Project
from speedrun.submission.validate import validate


def take_over(tree: Any, name: str) -> None:
    """The baseline's micro_1 record and files under a new name and author, with a candidate that says so."""
    shutil.copytree(tree.folder("adamw"), tree.folder(name))
    tree.put(
        f"executor_steps/{name}.py", (tree.root / "executor_steps" / "adamw.py").read_text().replace("adamw", name)
    )
    source = tree.candidate(name)
    author = {"name": "Mallory", "affiliation": "Elsewhere University", "url": ""}
    tree.edit(
        lambda info: info.update(candidate=name, author=author, authors=[author], source_digest=source),
        of=name,
        at=None,
    )


def test_a_whole_record_under_a_new_name_is_refused_as_a_copy_of_the_older(tree: Any) -> None:
    take_over(tree, "zeta")
    report = validate(Project(tree.root))
    by_rule = {finding.rule: finding for finding in report.errors}
    assert set(by_rule) == {"copied-link", "copied-score", "copied-times", "copied-step-log", "copied-moments"}
    for finding in by_rule.values():
        assert finding.path == "results/zeta/micro_1/speedrun_results.json"
        assert "adamw at micro_1, seed 4" in finding.message and 'by "Ada Adamw"' in finding.message


def test_with_link_moments_and_log_forged_the_score_still_tells(tree: Any) -> None:
    take_over(tree, "zeta")

    def forge(info: dict[str, Any]) -> None:
        info["wandb_run_link"] = None
        info["run_completion_timestamp"] = "2026-10-02 23:00:00 UTC"
        info["attempts"][0]["started"] = "2026-10-02 12:00:00 UTC"
        info["recipe_fingerprint"] = "1" * 64
        info["run_key"] = ""
        info["step_log"]["sha256"] = "2" * 64

    tree.edit(forge, of="zeta", at=None)
    messages = [f.message for f in validate(Project(tree.root)).errors if f.rule == "copied-score"]
    assert len(messages) == 2 and all("adamw at micro_1" in message for message in messages)


def test_an_rtx_3090_with_an_a100s_figures_is_refused_naming_the_a100(tree: Any) -> None:
    tree.on("rtx3090x8", "rtx3090", rung="30m")
    info = tree.info("muonh", "30m")
    figures = {"num_chips": 8, "num_devices": 8, "device_flops": 312e12}
    figures["training_hardware_flops"] = info["training_time"] * 8 * 312e12
    figures["mfu"] = info["model_flops"] / info["steady_time"] / 8 / 312e12
    tree.edit(lambda info: (info.update(figures), info["attempts"][0].update(num_chips=8)), rung="30m")
    messages = {f.rule: f.message for f in validate(Project(tree.root)).errors}
    assert set(messages) == {"peak", "hardware-flops"}
    assert messages["peak"] == ("312000000000000.0, which is a100-40g and a100-80g's peak, and rtx3090 has 7.1e+13")


def test_two_seeds_of_one_recipe_run_again_elsewhere_are_no_copy(tree: Any) -> None:
    """The same recipe and seed give the same score on a deterministic machine; the times tell that it was run."""
    take_over(tree, "zeta")
    content = tree.content("zeta")
    for run in content["runs"]:
        info = run["run_info"]
        info["wandb_run_link"] = None
        info["run_completion_timestamp"] = "2026-10-02 23:00:00 UTC"
        info["attempts"][0]["started"] = "2026-10-02 12:00:00 UTC"
        info["step_log"]["sha256"] = f"{info['seed']:064}"
        info["training_time"] *= 1.01
    tree.write("zeta", "micro_1", json.dumps(content))
    rules = {f.rule for f in validate(Project(tree.root)).findings if "zeta" in f.path}
    assert not {rule for rule in rules if rule.startswith("copied")}
    assert "same-recipe" in rules
