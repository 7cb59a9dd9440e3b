"""The workflows: read-only, without secrets, and with no text of a pull request in a shell."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

GITHUB = Path(__file__).parents[2] / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def load(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text())
    content["on"] = content.pop(True)  # YAML 1.1 reads `on` as a truth value
    return content


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_expression_stands_in_a_shell_command(path: Path) -> None:
    for step in steps(load(path)):
        assert "${{" not in step.get("run", ""), step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_leave_no_credentials(path: Path) -> None:
    text = path.read_text()
    assert "secrets." not in text and "pull_request_target" not in load(path)["on"]
    for step in steps(load(path)):
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
            if step["uses"].startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False
    assert all("timeout-minutes" in job for job in load(path)["jobs"].values())


def test_pull_requests_run_read_only_with_main_as_the_judge() -> None:
    workflow = load(GITHUB / "workflows" / "pull-request.yml")
    assert set(workflow["on"]) == {"pull_request"}
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    runs = {name: " ".join(step.get("run", "") for step in job["steps"]) for name, job in workflow["jobs"].items()}
    assert "make lint" in runs["lint"] and "make test" in runs["test"]
    assert 'validate --base "$BASE"' in runs["validate"]
    validating = workflow["jobs"]["validate"]["steps"]
    assert validating[0]["with"]["ref"] == "${{ github.event.pull_request.base.sha }}"
    assert all(step.get("working-directory") == "main" for step in validating if "run" in step)


def test_only_the_job_that_posts_may_write_and_only_to_issues() -> None:
    workflow = load(GITHUB / "workflows" / "report.yml")
    assert set(workflow["on"]) == {"push"} and workflow["on"]["push"]["branches"] == ["main"]
    assert workflow["permissions"] == {}
    assert workflow["jobs"]["write"]["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["post"]["permissions"] == {"issues": "write"}
    assert not any("checkout" in step.get("uses", "") for step in workflow["jobs"]["post"]["steps"])


def test_the_posting_job_posts_to_issues_that_are_numbers_and_nothing_else(tmp_path: Path) -> None:
    posting = load(GITHUB / "workflows" / "report.yml")["jobs"]["post"]["steps"]
    (script,) = [step["run"] for step in posting if "run" in step]
    (tmp_path / "bin").mkdir()
    (tmp_path / "comments").mkdir()
    gh = tmp_path / "bin" / "gh"
    gh.write_text('#!/bin/sh\necho "$@" >> posted\n')
    gh.chmod(0o755)
    for name in ("12-muonh.md", "x-y.md", "$(touch hacked)-z.md", "-rf-a.md", "0-a.md", "7;reboot-a.md"):
        (tmp_path / "comments" / name).write_text("x")
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "posted").read_text() == "issue comment 12 --body-file comments/12-muonh.md\n"
    assert not (tmp_path / "hacked").exists()


def test_gate_one_is_run_for_changed_candidates_without_a_shell(tmp_path: Path, monkeypatch: Any) -> None:
    spec = importlib.util.spec_from_file_location("check_candidates", GITHUB / "check_candidates.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "executor_steps").mkdir()
    (tmp_path / "executor_steps" / "old.py").write_text("CANDIDATE = 1\n")
    who = ["-c", "user.name=T", "-c", "user.email=t@x.example"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    for name in ("fresh", "$(touch hacked)", "UPPER"):
        (tmp_path / "executor_steps" / f"{name}.py").write_text("CANDIDATE = 1\n")
    asked = []
    really_run = subprocess.run

    def run(command: list[str], **options: Any) -> Any:
        if command[0] != sys.executable:
            return really_run(command, **options)
        asked.append(command[1:])
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setenv("SPEEDRUN_PROJECT", str(tmp_path))
    monkeypatch.setenv("BASE", "main")
    monkeypatch.setattr(subprocess, "run", run)
    assert module.main() == 1
    assert asked == [["-m", "speedrun", "check", "fresh", "--json"]]
