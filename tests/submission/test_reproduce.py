"""Running a record again: whose code, with what it may see, and what the comparison says. The run itself is tested in
test_round_trip.py."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.records.schema import RunInfo
from speedrun.submission.reproduce import (
    command_of,
    find_case,
    run_again,
    stripped_environment,
    tolerance_of,
    verification_of,
)


@pytest.fixture
def committed(tmp_path: Path, clean: Path, factory: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The project as a repository in which all is committed."""
    root = tmp_path / "project"
    shutil.copytree(clean, root)
    for key, value in {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "T",
        "GIT_AUTHOR_EMAIL": "t@x.example",
        "GIT_COMMITTER_NAME": "T",
        "GIT_COMMITTER_EMAIL": "t@x.example",
    }.items():
        monkeypatch.setenv(key, value)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    return factory.Tree(root, random.Random(1))


def test_credentials_do_not_reach_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ["HF_TOKEN", "WANDB_API_KEY", "GH_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"]
    secrets += ["GOOGLE_APPLICATION_CREDENTIALS", "UV_INDEX_URL", "MARIN_PREFIX", "PYTHONPATH"]
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    seen = stripped_environment(tmp_path / "home", tmp_path)
    assert "secret" not in seen.values()
    assert seen["HOME"] == str(tmp_path / "home") and "PATH" in seen
    assert stripped_environment(tmp_path, tmp_path, keep=["HF_TOKEN"])["HF_TOKEN"] == "secret"


def test_what_is_run_is_the_source_of_the_record_at_head(committed: Any) -> None:
    project = Project(committed.root)
    case = find_case(project, "muonh", "micro_1", None)
    assert (case.info.seed, case.candidate, case.files) == (42, "muonh", ("executor_steps/muonh.py",))
    assert command_of(case, "cpu")[3:] == ["run", "muonh", "--rung", "micro_1", "--seed", "42", "--hardware", "cpu"]
    # What lies in the reviewer's tree is not what runs.
    committed.put("executor_steps/muonh.py", "CANDIDATE = 'mine'\n")
    assert find_case(project, "muonh", "micro_1", 43).info.seed == 43
    subprocess.run(["git", "commit", "-qam", "changed"], cwd=committed.root, check=True)
    with pytest.raises(SpeedrunError, match="not what the record was made from"):
        find_case(project, "muonh", "micro_1", None)


def test_records_and_seeds_that_are_not_there(committed: Any) -> None:
    with pytest.raises(SpeedrunError, match="has no seed 7; it has 42, 43"):
        find_case(Project(committed.root), "muonh", "micro_1", 7)
    with pytest.raises(SpeedrunError, match="cannot be read"):
        find_case(Project(committed.root), "muonh", "75m", None)


def test_an_overridden_recipe_is_run_from_the_candidate_that_has_its_source(committed: Any) -> None:
    shutil.copytree(committed.folder("muonh"), committed.folder("muonh-hot"))
    overrides = {"optimizer.learning_rate": 0.5, "precision": "f32"}
    committed.edit(lambda info: info.update(candidate="muonh-hot", overrides=overrides), of="muonh-hot", at=None)
    case = find_case(Project(committed.root), "muonh-hot", "micro_1", None)
    assert case.candidate == "muonh"
    assert command_of(case, None)[4:] == [
        *["muonh", "--rung", "micro_1", "--seed", "42", "--record-as", "muonh-hot"],
        *["--optimizer.learning_rate=0.5", '--precision="f32"'],
    ]


def test_the_run_sees_a_clean_tree_without_the_record_and_leaves_nothing(committed: Any, monkeypatch: Any) -> None:
    """A stand-in for the run notes what it sees, and writes a record."""
    project = Project(committed.root)
    case = find_case(project, "muonh", "micro_1", None)
    committed.put("dirty.txt", "mine")
    seen: dict[str, Any] = {}
    code = [0]
    record = (committed.folder("muonh") / "speedrun_results.json").read_text()
    really_run = subprocess.run

    def run(command: list[str], **options: Any) -> Any:
        if command[0] != sys.executable:
            return really_run(command, **options)
        tree = Path(options["cwd"])
        seen.update(files=sorted(path.name for path in tree.iterdir()), env=options["env"], tree=tree)
        seen["had_record"] = (tree / "results" / "muonh").exists()
        folder = tree / "results" / "muonh" / "micro_1"
        folder.mkdir(parents=True)
        (folder / "speedrun_results.json").write_text(record)
        return subprocess.CompletedProcess(command, code[0])

    monkeypatch.setattr(subprocess, "run", run)
    again = run_again(project, case, hardware=None)
    assert again.seed == 42
    assert not seen["had_record"] and "dirty.txt" not in seen["files"]
    assert seen["env"]["SPEEDRUN_PROJECT"] == str(seen["tree"])
    assert not seen["tree"].exists()
    code[0] = 1
    with pytest.raises(SpeedrunError, match="ended with exit code 1"):
        run_again(project, case, hardware=None)


def rerun(tree: Any, **changes: Any) -> tuple[RunInfo, RunInfo]:
    info = RunInfo.model_validate(tree.info("muonh"))
    return info, info.model_copy(update=changes)


def test_within_the_noise_it_is_reproduced_and_beyond_it_differs(tree: Any) -> None:
    project = Project(tree.root)
    recorded, _ = rerun(tree)
    tolerance, noise = tolerance_of(project, recorded)
    assert 0 < tolerance < 1 and "seeds" in noise
    for by, verdict in (
        (0.0, "reproduced"),
        (0.99, "reproduced"),
        (-0.99, "reproduced"),
        (1.01, "differs"),
        (-1.01, "differs"),
    ):
        again = recorded.model_copy(update={"bits_per_byte": recorded.bits_per_byte + by * tolerance})
        assert verification_of(project, recorded, again, "R").verdict == verdict


def test_other_work_is_no_reproduction_however_near_the_score(tree: Any) -> None:
    recorded, again = rerun(tree, total_tokens=1)
    found = verification_of(Project(tree.root), recorded, again, "R")
    assert found.verdict == "differs" and found.differences == [f"tokens: {recorded.total_tokens} on record, 1 here"]


def test_other_versions_are_noted_and_do_not_decide(tree: Any) -> None:
    recorded, again = rerun(tree, versions={"jax": "9"}, recipe_fingerprint="0" * 64)
    found = verification_of(Project(tree.root), recorded, again, "R")
    assert found.verdict == "reproduced"
    assert "version of jax: 0.11.1 on record, 9 here" in found.differences
    assert found.stands_for(recorded) and not found.stands_for(again.model_copy(update={"run_key": "x"}))


def test_where_no_seeds_tell_the_noise_half_a_per_cent_is_allowed(factory: Any, tmp_path: Path) -> None:
    tree = factory.make_tree(tmp_path / "project")
    tree.add("muonh", "micro_1", seeds=(42,))
    info = RunInfo.model_validate(tree.info("muonh"))
    tolerance, noise = tolerance_of(Project(tree.root), info)
    assert tolerance == pytest.approx(0.005 * info.bits_per_byte) and noise.startswith("unknown")
