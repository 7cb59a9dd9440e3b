"""What Ray costs over the local engine: the same run by both, in turns, on a Ray that was started before.

    python scripts/bench_ray.py [--rung micro_4] [--pairs 2]

What is compared is the wall time of the whole command. The cluster's start is left out, and so are the workers'
imports: training and evaluation are a process of their own each, and a fresh process that imports what they import is
timed in the same turn. Both engines begin with an empty compilation cache; data and tokenizer are made before.
Also: how long an infeasible request takes to be refused, once the cluster has been joined.
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
IMPORTS = "import levanter.main.train_lm, marin.training.training, speedrun.steps.evaluate"
REFUSE = """
import sys, time
from speedrun.engines.engine import open_engine
from speedrun.errors import SpeedrunError
from speedrun.hardware import parse_hardware
from speedrun.steps.dag import resources_of
engine = open_engine("ray", sys.argv[1], ray_address=sys.argv[2])
started = time.perf_counter()
try:
    engine.check([resources_of(parse_hardware("h100x64")[0])])
except SpeedrunError:
    print(time.perf_counter() - started)
engine.close()
"""


def run(command: list[str], environment: dict[str, str], folder: Path) -> tuple[float, str]:
    """(seconds, what it printed)."""
    started = time.monotonic()
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    return time.monotonic() - started, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rung", default="micro_4")
    parser.add_argument("--pairs", type=int, default=2)
    options = parser.parse_args()
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(REPOSITORY / "executor_steps", folder / "executor_steps")
        store = folder / ".speedrun" / "store"
        environment = os.environ | {"SPEEDRUN_PROJECT": str(folder), "MARIN_PREFIX": str(store), "JAX_PLATFORMS": "cpu"}
        python = sys.executable
        speedrun = [python, "-m", "speedrun", "run", "adamw", "--rung", options.rung]
        print("making the data ...", flush=True)
        run([*speedrun, "--steps", "2"], environment, folder)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": os.cpu_count(), "include_dashboard": False})
        try:
            refused, said = run([python, "-c", REFUSE, str(store), cluster.address], environment, folder)
            print(f"an infeasible request is refused in {float(said.split()[-1]):.3f} s (wanted < 1)", flush=True)
            on_ray = ["--engine", "ray", "--ray-address", cluster.address]
            ratios = []
            for pair in range(options.pairs):
                walls, scores = {}, {}
                for each in ("local", "ray") if pair % 2 == 0 else ("ray", "local"):
                    shutil.rmtree(folder / "results", ignore_errors=True)
                    for made in ("compilation_cache", "train", "evaluate", "record"):
                        shutil.rmtree(store / made, ignore_errors=True)
                    seed = ["--seed", str(100 + pair)]
                    walls[each], _ = run([*speedrun, *seed, *(on_ray if each == "ray" else [])], environment, folder)
                    (file,) = (folder / "results").rglob("speedrun_results.json")
                    scores[each] = json.loads(file.read_text())["runs"][0]["run_info"]["bits_per_byte"]
                imports, _ = run([python, "-c", IMPORTS], environment, folder)
                ratios.append((walls["ray"] - 2 * imports) / walls["local"])
                same = "the same bits" if scores["ray"] == scores["local"] else f"OTHER BITS: {scores}"
                print(f"local {walls['local']:.1f} s; ray {walls['ray']:.1f} s, of which 2 x {imports:.1f} s imports")
                print(f"  {same}", flush=True)
            print(f"wall without imports, ray over local: {statistics.median(ratios):.3f} (wanted <= 1.10)")
        finally:
            cluster.shutdown()


if __name__ == "__main__":
    main()
