"""``speedrun validate`` as people and CI call it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def validate(root: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "speedrun", "validate", *words],
        env=os.environ | {"SPEEDRUN_PROJECT": str(root)},
        cwd=cwd or root,
        capture_output=True,
        text=True,
    )


def test_a_clean_project_exits_with_0_and_says_what_was_looked_at(tree: Any) -> None:
    done = validate(tree.root)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "10 runs in 6 records: 7 notes"


def test_an_error_exits_with_1_and_names_file_field_and_rule(tree: Any) -> None:
    tree.set("git_commit", "HEAD")
    done = validate(tree.root)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "error: results/muonh/micro_1/speedrun_results.json, runs[0].run_info.git_commit\n"
        '    "HEAD" is no commit [digests]\n'
    )
    assert done.stdout.splitlines()[-1] == "10 runs in 6 records: 1 error, 7 notes"


def test_json_holds_every_finding(tree: Any) -> None:
    tree.set("git_commit", "HEAD")
    content = json.loads(validate(tree.root, "--json").stdout)
    assert (content["ok"], content["records"], content["runs"]) == (False, 6, 10)
    assert content["findings"][0] == {
        "rule": "digests",
        "severity": "error",
        "path": "results/muonh/micro_1/speedrun_results.json",
        "field": "runs[0].run_info.git_commit",
        "message": '"HEAD" is no commit',
    }


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("results/muonh", True),
        ("results/muonh/micro_1", True),
        ("results/muonh/micro_1/speedrun_results.json", True),
        (".", True),
        ("results/adamw", False),
        ("results/muonh/micro_2", False),
    ],
)
def test_paths_limit_what_is_reported(tree: Any, path: str, found: bool) -> None:
    tree.set("git_commit", "HEAD")
    assert validate(tree.root, path).returncode == int(found)
    assert validate(tree.root, str(tree.root / path)).returncode == int(found)


def test_paths_are_those_of_the_current_folder(tree: Any) -> None:
    tree.set("git_commit", "HEAD")
    assert validate(tree.root, "micro_1", cwd=tree.folder("muonh").parent).returncode == 1


def test_a_copy_is_found_even_where_only_the_copy_is_looked_at(tree: Any) -> None:
    tree.set("wandb_run_link", tree.info("adamw")["wandb_run_link"])
    paths = {
        f["path"] for f in json.loads(validate(tree.root, "--json").stdout)["findings"] if f["rule"] == "copied-link"
    }
    (copy,) = paths
    assert "copied-link" in validate(tree.root, copy).stdout


@pytest.mark.parametrize("words", [["nowhere"], ["../.."], ["--base", "main"]])
def test_called_wrongly_it_exits_with_2_and_one_message(tree: Any, words: list[str]) -> None:
    done = validate(tree.root, *words)
    assert done.returncode == 2 and done.stderr.startswith("speedrun: ") and done.stderr.count("\n") <= 2


def test_it_imports_neither_jax_nor_what_takes_long() -> None:
    heavy = {"jax", "levanter", "marin", "haliax", "pandas", "scipy", "numpy"}
    code = f"import sys, speedrun.submission.validate, speedrun.cli.validate; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
