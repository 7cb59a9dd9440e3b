"""How long `speedrun validate` takes on 100, 1,000 and 10,000 records: the whole command, start-up included.

The records are made up (tests/submission/factory.py): whole ones, each with its step log and attempts, four to a
candidate. Nothing about them is wrong, so that every rule runs to its end.

    python scripts/bench_validate.py [COUNT ...]
"""

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RUNGS = ("micro_1", "micro_2", "micro_3", "micro_4")


def factory() -> Any:
    """The module that makes records up."""
    spec = importlib.util.spec_from_file_location("factory", ROOT / "tests" / "submission" / "factory.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["factory"] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Make a project for each count, validate it, print a row."""
    counts = [int(word) for word in sys.argv[1:]] or [100, 1_000, 10_000]
    maker = factory()
    print(f"{'records':>8} {'files':>8} {'MB':>7} {'wall s':>8} {'CPU s':>7} {'ms/record':>10} {'findings':>9}")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            tree = maker.make_tree(Path(folder) / "project")
            for at in range(count):
                tree.add(f"method-{at // len(RUNGS)}", RUNGS[at % len(RUNGS)], seeds=(42,), score=2.6)
            report(tree.root, count)


def report(root: Path, count: int) -> None:
    """Time one validation in a process of its own."""
    files = [path for path in root.rglob("*") if path.is_file()]
    environment = os.environ | {"SPEEDRUN_PROJECT": str(root)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "speedrun", "validate", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(done.stdout)
    assert result["ok"] and result["records"] == count, done.stdout[:2000]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = sum(path.stat().st_size for path in files) / 1e6
    findings = len(result["findings"])
    per_record = 1000 * wall / count
    print(f"{count:8,} {len(files):8,} {size:7.1f} {wall:8.2f} {cpu:7.2f} {per_record:10.2f} {findings:9,}")


if __name__ == "__main__":
    main()
