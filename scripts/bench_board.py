"""How long the board takes with many records: `python scripts/bench_board.py [RUNS...]` [100 1000 10000].

Makes projects of made-up records (three seeds at each of micro_1 to micro_3, so nine runs a candidate), and times,
each in a process of its own: the leaderboard worked out anew, the leaderboard from its cache, and the site; and weighs
what a reader's first view of the page loads beside the plotting library. Bytecode is kept, as in any installation.
"""

import importlib.util
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
RUNGS = ("micro_1", "micro_2", "micro_3")
SEEDS = (42, 43, 44)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def load_factory():
    """tests/submission/factory.py, which makes records that agree with themselves."""
    spec = importlib.util.spec_from_file_location("factory", REPOSITORY / "tests" / "submission" / "factory.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["factory"] = module
    spec.loader.exec_module(module)
    return module


def make_project(root: Path, runs: int) -> None:
    """A project with about so many runs; every candidate's gain is its own and holds over the ladder."""
    factory, rng = load_factory(), random.Random(0)
    (root / "executor_steps").mkdir(parents=True)
    for number in range(math.ceil(runs / (len(RUNGS) * len(SEEDS)))):
        name = "adamw" if number == 0 else f"candidate_{number:04d}"
        gain = 1.0 if number == 0 else rng.uniform(0.7, 1.6)
        for rung in RUNGS:
            folder = root / "results" / name / rung
            folder.mkdir(parents=True)
            entries = []
            for seed in SEEDS:
                budget = factory.SHAPES[rung][-1]
                score = 1.5 + (gain * budget / 3.2e11) ** -0.2 + rng.gauss(0, 0.001)
                info, log = factory.make_run(name, rung, seed, source=factory.digest(name), score=score, rng=rng)
                entries.append({"run_info": info})
                (folder / f"steps-{seed}.jsonl.gz").write_bytes(factory.gzip.compress(log, mtime=0))
            (folder / "speedrun_results.json").write_text(json.dumps({"schema_version": 1, "runs": entries}))


def timed(root: Path, *words: str) -> tuple[float, float, float]:
    """(seconds, CPU seconds, megabytes at most) of a command."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "speedrun", *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT | {"SPEEDRUN_PROJECT": str(root)},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime - before.ru_utime, after.ru_maxrss / 1024


def first_view(site: Path) -> float:
    """Megabytes of what the front page loads at first, without the plotting library."""
    files = [*(site / name for name in ("index.html", "site.css", "site.js")), site / "data" / "micro.js"]
    return sum(path.stat().st_size for path in [*files, site / "data" / "micro" / f"{RUNGS[-1]}.js"]) / 1e6


def main() -> None:
    """Print a line a size."""
    bytecode = tempfile.TemporaryDirectory()
    ENVIRONMENT["PYTHONPYCACHEPREFIX"] = bytecode.name
    with tempfile.TemporaryDirectory() as folder:
        make_project(Path(folder), 9)
        timed(Path(folder), "leaderboard")
        timed(Path(folder), "site", "--out", f"{folder}/site")
    print("runs | leaderboard anew | from its cache | site | first view (seconds, CPU seconds in brackets)")
    for runs in [int(word) for word in sys.argv[1:]] or [100, 1_000, 10_000]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            make_project(root, runs)
            columns = []
            for words in (("leaderboard",), ("leaderboard",), ("site", "--out", str(root / "site"))):
                seconds, cpu, memory = timed(root, *words)
                columns.append(f"{seconds:.1f} ({cpu:.1f})")
            print(
                f"{runs:,} | {' | '.join(columns)} | {first_view(root / 'site'):.2f} MB; {memory:.0f} MB memory",
                flush=True,
            )


if __name__ == "__main__":
    main()
