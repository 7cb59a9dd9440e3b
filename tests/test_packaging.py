"""What makes the project installable anywhere: files that name no machine, a lock that fits, a script that answers."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
BOOTSTRAP = ("scripts/bootstrap.sh", "pyproject.toml", "requirements.lock")


def project_files() -> list[Path]:
    """Files that are committed or would be."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_package_registry_or_a_folder_of_one_machine() -> None:
    # Written so that this file doesn't match itself.
    registry = r"(pypi|pythonhosted|npmjs|crates)[.](org|com|io)"
    folder = r"(?<![\w.~}-])/(" + "root|work|home/[a-z]|Users/[A-Za-z]" + r")[\w-]*/"
    forbidden = re.compile(f"{registry}|{folder}")
    found = []
    for path in project_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}:{n}: {line}" for n, line in enumerate(lines, 1) if forbidden.search(line)]
    assert found == []


def test_the_lock_pins_every_dependency_to_a_version_that_pyproject_allows() -> None:
    lines = [line.split("#")[0].strip() for line in (ROOT / "requirements.lock").read_text().splitlines()]
    locked = [Requirement(line) for line in lines if line]
    pins = {canonicalize_name(each.name): str(each.specifier) for each in locked}
    assert {pin for pin in pins.values() if not re.fullmatch(r"==[\w.!+]+", pin)} == set()

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["dev"], *extras["site"]]:
        wanted = Requirement(text)
        if wanted.name == project["name"]:
            continue
        pin = pins[canonicalize_name(wanted.name)].removeprefix("==")
        assert wanted.specifier.contains(pin, prereleases=True), f"{text} is locked at {pin}: run `make lock`"


def test_the_console_script_answers() -> None:
    script = Path(sys.executable).with_name("speedrun")
    answer = subprocess.run([script, "--help"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert "Usage: speedrun" in answer.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what bootstrap.sh reads, and a PATH without any Python."""
    for name in BOOTSTRAP:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "cat", "cksum", "dirname", "env", "grep", "head", "rm", "sort"):
        if found := shutil.which(tool):
            (tools / tool).symlink_to(found)
    return tmp_path


def bootstrap(checkout: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(checkout / "bin"), "HOME": str(checkout)}
    command = [checkout / "scripts/bootstrap.sh"]
    return subprocess.run(command, cwd=checkout.parent, env=environment, capture_output=True, text=True)


def test_bootstrap_without_a_python_says_what_to_do(checkout: Path) -> None:
    # A pyenv shim: on PATH, and yet no Python.
    shim = checkout / "bin" / "python3.12"
    shim.write_text("#!/usr/bin/env bash\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    answer = bootstrap(checkout)
    assert answer.returncode == 2
    assert "No Python 3.12 or newer" in answer.stderr
    assert "pyenv: python3.12" not in answer.stderr
    assert not (checkout / ".venv").exists()


def test_bootstrap_refuses_a_python_that_is_too_old(checkout: Path) -> None:
    old = checkout / "bin" / "python3"
    old.write_text("#!/usr/bin/env bash\n# Answers as 3.11 does when asked whether it is older than 3.12.\nexit 1\n")
    old.chmod(0o755)
    assert bootstrap(checkout).returncode == 2


def test_ci_script_is_executable() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert os.access(ROOT / "scripts" / "bootstrap.sh", os.X_OK)
