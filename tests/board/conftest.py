"""Projects whose records' scores are known, for the board to be tested on."""

import importlib.util
import json
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from speedrun.board.build import build_board
from speedrun.board.model import Board
from speedrun.board.records import read_records
from speedrun.project import Project

REPOSITORY = Path(__file__).parents[2]
SPREAD = (-0.001, 0.0, 0.001)
"""What three seeds add to an arm's score: a standard deviation of 0.001 bits per byte exactly."""
GAINS = {"adamw": 1.0, "faster": 1.3, "slower": 0.8}


def true_loss(model_flops: float) -> float:
    """Bits per byte of the baseline here: 1.5 + (C / 3.2e11)^-0.2."""
    return 1.5 + (model_flops / 3.2e11) ** -0.2


@pytest.fixture(scope="session")
def factory() -> ModuleType:
    """tests/submission/factory.py."""
    spec = importlib.util.spec_from_file_location("board_factory", REPOSITORY / "tests" / "submission" / "factory.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Writer:
    """Writes records with known scores into a project."""

    def __init__(self, root: Path, factory: ModuleType):
        self.project = Project(root)
        self.factory = factory
        self.project.candidates.mkdir(parents=True)

    def run(self, candidate: str, rung: str, seed: int, score: float, **more: Any) -> tuple[dict[str, Any], bytes]:
        rng = random.Random(f"{candidate} {rung} {seed}")
        source = self.factory.digest(candidate)
        return self.factory.make_run(candidate, rung, seed, source=source, score=score, rng=rng, **more)

    def arm(
        self,
        candidate: str,
        rung: str,
        gain: float = 1.0,
        seeds: int = 3,
        change: Callable[[dict[str, Any]], Any] = lambda info: None,
        **more: Any,
    ) -> None:
        """A candidate at a rung, ``gain`` times as efficient as the baseline."""
        folder = self.project.results / candidate / rung
        folder.mkdir(parents=True, exist_ok=True)
        budget = self.factory.SHAPES[rung][-1]
        runs = []
        for at in range(seeds):
            info, log = self.run(candidate, rung, 42 + at, true_loss(gain * budget) + SPREAD[at % 3], **more)
            info["model_flops"] = budget
            change(info)
            runs.append({"run_info": info})
            (folder / f"steps-{info['seed']}.jsonl.gz").write_bytes(self.factory.gzip.compress(log, mtime=0))
        content = json.dumps({"schema_version": 1, "runs": runs})
        (folder / "speedrun_results.json").write_text(content)

    def ladder(self, gains: Mapping[str, float], rungs: tuple[str, ...] = ("micro_1", "micro_2", "micro_3")) -> None:
        for candidate, gain in gains.items():
            for rung in rungs:
                self.arm(candidate, rung, gain)

    def board(self) -> Board:
        return build_board(self.project, read_records(self.project))


@pytest.fixture
def writer(tmp_path: Path, factory: ModuleType) -> Writer:
    """An empty project."""
    return Writer(tmp_path / "project", factory)


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory, factory: ModuleType) -> Writer:
    """A micro ladder with a faster and a slower candidate than adamw. Read it; do not change it."""
    made = Writer(tmp_path_factory.mktemp("known") / "project", factory)
    made.ladder(GAINS)
    return made


@pytest.fixture(scope="session")
def known_board(known: Writer) -> Board:
    """Its board."""
    return known.board()


@pytest.fixture
def speedrun(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line in a project, in this process."""
    from speedrun.cli import cli

    def call(writer: Writer, *words: str) -> Result:
        monkeypatch.setenv("SPEEDRUN_PROJECT", str(writer.project.root))
        monkeypatch.setenv("COLUMNS", "200")
        return CliRunner().invoke(cli, words)

    return call
