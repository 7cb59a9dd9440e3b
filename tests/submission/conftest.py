"""Projects with made-up records that agree with themselves; see factory.py."""

import importlib.util
import random
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"submission_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a way of being wrong (cases_*.py)."""
    if "case" in metafunc.fixturenames:
        cases = _cases()
        metafunc.parametrize("case", cases, ids=[f"{rule}: {what}" for rule, what, _ in cases])


@pytest.fixture(scope="session")
def cases() -> list:
    """All of them."""
    return _cases()


def _cases() -> list:
    return [*_load("cases_files").CASES, *_load("cases_figures").CASES]


@pytest.fixture(scope="session")
def factory() -> ModuleType:
    """tests/submission/factory.py, whose projects can be tampered with."""
    module = _load("factory")
    module.Tree = type("Tree", (_load("tampering").Tampering, module.Tree), {})
    return module


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory, factory: ModuleType) -> Path:
    root = tmp_path_factory.mktemp("clean") / "project"
    factory.two_candidates(root)
    return root


@pytest.fixture
def tree(tmp_path: Path, clean: Path, factory: ModuleType):
    """A project of its own with two candidates' records, all as they should be."""
    shutil.copytree(clean, tmp_path / "project")
    return factory.Tree(tmp_path / "project", random.Random(1))
