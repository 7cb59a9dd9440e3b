"""What the harness costs over bare Levanter: the same recipe and data, trained by both in one run.

    python scripts/bench_overhead.py [--rung micro_4] [--pairs 1]

Bare Levanter is ``levanter.main.train_lm`` with the very configuration that our train step builds, but for
two things: Levanter's own tracker instead of our step log, and Levanter's defaults where we choose for speed
(it writes the jaxpr and the HLO of the step to disk). Both start with an empty compilation cache. What is
timed is the whole process, imports and Levanter's own evaluation included; ours evaluates once more by its
own protocol, and records. Data and tokenizer are made before the clock starts.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]

BARE = """
import dataclasses, json, sys
from pathlib import Path
from speedrun.catalog import load_candidate, load_rung
from speedrun.hardware import parse_hardware
from speedrun.project import find_project
from speedrun.steps.dag import build_dag
from marin.execution.lazy import materialized_config
from marin.training.training import apply_output_path
from levanter.main import train_lm
from levanter.tracker.json_logger import JsonLoggerConfig

project, (cpu,) = find_project(), parse_hardware("cpu")
dag = build_dag(project, load_candidate(project, "adamw"), load_rung(sys.argv[1]), 7, cpu)
job = materialized_config(dag.train, sys.argv[2])
config = apply_output_path(job.pod.train_config, sys.argv[3])
trainer = dataclasses.replace(
    config.trainer, tracker=(JsonLoggerConfig(),), log_jaxprs=True, log_xla_hlo=True, require_accelerator=False,
    jax_compilation_cache_dir=None, log_dir=Path(sys.argv[3]) / "logs",
)
data = dataclasses.replace(config.data, auto_build_caches=False)
train_lm.main(dataclasses.replace(config, trainer=trainer, data=data))
"""


def durations_of_bare(output: str) -> list[float]:
    """Step durations that Levanter's JSON logger printed."""
    found = []
    for line in output.splitlines():
        if '"throughput/duration"' not in line:
            continue
        row = json.loads(line[line.index("{") :])
        found.append(row.get("metrics", row).get("throughput/duration"))
    return [value for value in found if value is not None]


def run(command: list[str], environment: dict[str, str], folder: Path) -> tuple[float, str]:
    started = time.monotonic()
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    return time.monotonic() - started, done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rung", default="micro_4")
    parser.add_argument("--pairs", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(REPOSITORY / "executor_steps", folder / "executor_steps")
        store = folder / ".speedrun" / "store"
        environment = os.environ | {"SPEEDRUN_PROJECT": str(folder), "MARIN_PREFIX": str(store), "JAX_PLATFORMS": "cpu"}
        print("making the data ...", flush=True)
        speedrun = [sys.executable, "-m", "speedrun", "run", "adamw", "--rung", options.rung]
        run([*speedrun, "--steps", "2"], environment, folder)
        walls: dict[str, list[float]] = {"ours": [], "bare": []}
        rates: dict[str, list[float]] = {"ours": [], "bare": []}
        for pair in range(options.pairs):
            for each in ("ours", "bare") if pair % 2 == 0 else ("bare", "ours"):
                shutil.rmtree(store / "compilation_cache", ignore_errors=True)
                if each == "ours":
                    wall, _ = run([*speedrun, "--seed", str(100 + pair)], environment, folder)
                    file = folder / "results" / "adamw" / options.rung / "speedrun_results.json"
                    infos = [entry["run_info"] for entry in json.loads(file.read_text())["runs"]]
                    info = next(info for info in infos if info["seed"] == 100 + pair)
                    steady, steps = info["steady_time"], info["train_config"]["steps"]
                else:
                    output = folder / f"bare-{pair}"
                    command = [sys.executable, "-c", BARE, options.rung, str(store), str(output)]
                    wall, text = run(command, environment, folder)
                    durations = durations_of_bare(text)
                    steady, steps = sum(durations[1:]) + statistics.median(durations), len(durations)
                walls[each].append(wall)
                rates[each].append(steps / steady)
                print(f"{each}: {wall:.1f} s, {steps} steps, {steps / steady:.2f} steps/s", flush=True)
        wall = statistics.median(a / b for a, b in zip(walls["ours"], walls["bare"], strict=True))
        rate = statistics.median(a / b for a, b in zip(rates["ours"], rates["bare"], strict=True))
        print(f"wall, ours over bare: {wall:.3f} (wanted <= 1.10)")
        print(f"steps per second, ours over bare: {rate:.3f} (wanted >= 0.97)")


if __name__ == "__main__":
    main()
