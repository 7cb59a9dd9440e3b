"""How fast a candidate is priced, against what Marin's speedrun did: import the model, then `flops_per_token`.

    python scripts/bench_dryrun.py

Each line is a whole process. Wanted on an idle 2-core machine: under 15 s the first time for one rung, under 25 s for
the traced ladder, under 0.5 s for a candidate seen before.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FORMULA = (
    "from levanter.models.llama import LlamaConfig\n"
    "c = LlamaConfig(max_seq_len=1024, hidden_dim=128, intermediate_dim=448, num_layers=4, num_heads=2,"
    " num_kv_heads=2)\n"
    "print(3 * c.flops_per_token(128256, 1024))"
)


def timed(what: str, command: list[str], root: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"SPEEDRUN_PROJECT": str(root)})
    seconds = time.perf_counter() - started
    print(f"{what:60} {seconds:6.2f} s", flush=True)
    return seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shutil.copytree(REPOSITORY / "executor_steps", root / "executor_steps")
        speedrun = [sys.executable, "-m", "speedrun", "dry-run", "adamw"]
        hardware = ["--hardware", "h100x8,v5p-8,w7900"]
        formula = timed("import levanter's Llama, flops_per_token (no trace)", [sys.executable, "-c", FORMULA], root)
        one = timed("dry run, one rung, one kind of hardware, first time", [*speedrun, "--rung", "30m"], root)
        ladder = timed("dry run, whole ladder, three kinds, first time", [*speedrun, *hardware], root)
        again = timed("dry run, whole ladder, three kinds, seen before", [*speedrun, *hardware], root)
        ratios = [f"{seconds / formula:.2f}x" for seconds in (one, ladder, again)]
        print(f"over the formula: {ratios[0]} one rung, {ratios[1]} the ladder, {ratios[2]} seen before")


if __name__ == "__main__":
    main()
