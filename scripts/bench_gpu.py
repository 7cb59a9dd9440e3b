"""What the harness costs on a GPU over bare Levanter, and what share of the chip's peak the reference shapes use.

    python scripts/bench_gpu.py [--rung 30m --rung 75m] [--steps 200] [--batch 64]

The reference recipe on synthetic tokens, once as the train step runs it (step log, checkpoints every five minutes) and
once by ``levanter.main.train_lm`` with Levanter's own tracker and no checkpoints. Each is a process of its own with
an empty compilation cache; the first steps, which compile and warm up, are left out. The vocabulary is the rung's own.
"""

import argparse
import dataclasses
import json
import logging
import statistics
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

WARM_STEPS = 20


class Durations(logging.Handler):
    """Keeps the steps' durations that Levanter's JSON tracker logs."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        metrics = json.loads(record.getMessage()).get("metrics", {})
        if "throughput/duration" in metrics:
            self.seconds.append(metrics["throughput/duration"])


def recipe_of(rung_name: str, steps: int, batch: int) -> Any:
    """(rung, its reference recipe with so many steps of so many sequences)."""
    from speedrun import reference
    from speedrun.catalog import load_rung

    rung = load_rung(rung_name)
    return rung, reference.recipe(rung).replace(steps=steps, batch_size=batch)


def train(kind: str, rung_name: str, steps: int, batch: int, folder: Path) -> None:
    """Train in this process; every step's duration goes to ``durations.json`` in ``folder``."""
    import jax
    import numpy as np
    from fray.types import ResourceConfig
    from levanter.adaptor import NoAdaptorConfig
    from levanter.data.dataset import ListAsyncDataset
    from levanter.data.text.datasets import DirectDatasetComponent, LmDataConfig
    from levanter.data.text.examples import GrugLmExample
    from levanter.main import train_lm
    from levanter.tracker.json_logger import JsonLoggerConfig

    from speedrun.engines.local import detect_hardware
    from speedrun.records.steps import read_step_log
    from speedrun.steps.tokenizer import train_bpe, write_tokenizer
    from speedrun.steps.train import TrainPlace, trainer_config, with_local_tokenizer

    rung, recipe = recipe_of(rung_name, steps, batch)
    spec = detect_hardware()
    random = np.random.default_rng(0)
    # Few different sequences are enough: what is timed does not depend on what they say.
    tokens = random.integers(rung.vocab_size, size=(4 * batch, recipe.sequence_length), dtype=np.int32)
    examples = [GrugLmExample.causal(jax.numpy.asarray(row)) for row in tokens]
    data = LmDataConfig(
        tokenizer="passthrough",
        vocab_size=rung.vocab_size,
        components={"synthetic": DirectDatasetComponent(datasets={"train": ListAsyncDataset(examples)})},
        train_weights={"synthetic": 1.0},
        shuffle=False,
    )
    place = TrainPlace(
        resources=ResourceConfig.with_gpu(spec.accelerator.name.upper(), count=spec.chips),
        hardware=str(spec),
        chips=spec.chips,
        log_folder=folder / "logs",
        checkpoint_every=timedelta(minutes=5),
    )
    trainer = trainer_config(recipe, place, seed=0, run_id=f"bench-{kind}", output_path=str(folder))
    checkpointer = dataclasses.replace(trainer.checkpointer, base_path=str(folder / "checkpoints"))
    timer = Durations()
    if kind == "bare":
        # No step log, and no checkpoint while it is timed.
        logging.getLogger("levanter.json_logger").addHandler(timer)
        checkpointer = dataclasses.replace(checkpointer, save_interval=timedelta(days=1))
        trainer = dataclasses.replace(trainer, tracker=(JsonLoggerConfig(),))
    # Levanter's converter wants one at hand; the tokens are made without it.
    write_tokenizer(train_bpe(["synthetic"], 300), str(folder / "tokenizer"))
    config = train_lm.TrainLmConfig(
        data=data,
        trainer=dataclasses.replace(trainer, checkpointer=checkpointer, require_accelerator=False),
        model=with_local_tokenizer(recipe.model, str(folder / "tokenizer")),
        optimizer=recipe.optimizer,
        z_loss_weight=recipe.z_loss_weight,
        train_seq_len=recipe.sequence_length,
        hf_save_steps=None,
        adapter=NoAdaptorConfig(),
    )
    train_lm.main(config)
    durations = timer.seconds if kind == "bare" else [step.seconds for step in read_step_log(str(folder)).steps]
    (folder / "durations.json").write_text(json.dumps(durations))


def seconds_per_step(kind: str, rung: str, options: argparse.Namespace) -> float:
    """Median over the steps after the first few, in a process that has the GPU to itself."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = ["--steps", str(options.steps), "--batch", str(options.batch)]
        command = [sys.executable, __file__, "--train", kind, "--rung", rung, *numbers, "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
        return statistics.median(json.loads((Path(folder) / "durations.json").read_text())[WARM_STEPS:])


def describe(rung_name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the hardware is, and the model FLOPs of a step; asked of a process of its own, which lets the GPU go."""
    from speedrun.cost.budget import charged_flops_per_token
    from speedrun.engines.local import detect_hardware

    rung, recipe = recipe_of(rung_name, options.steps, options.batch)
    spec = detect_hardware()
    tokens = options.batch * recipe.sequence_length
    peak = spec.accelerator.peak_flops_per_second
    flops = 3 * charged_flops_per_token(recipe, rung.vocab_size) * tokens
    family = spec.accelerator.family
    return {"hardware": str(spec), "family": family, "tokens": tokens, "flops": flops, "peak": (peak or 0) * spec.chips}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rung", action="append")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="Sequences a step.")
    parser.add_argument("--pairs", type=int, default=2, help="How often each is run; the order alternates.")
    parser.add_argument("--train", choices=["ours", "bare"], help=argparse.SUPPRESS)
    parser.add_argument("--describe", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.steps <= WARM_STEPS:
        parser.error(f"--steps must be above {WARM_STEPS}, which are left out")
    rungs = options.rung or ["30m", "75m"]
    if options.describe:
        print(json.dumps(describe(rungs[0], options)))
        return
    if options.train:
        train(options.train, rungs[0], options.steps, options.batch, options.folder)
        return
    for rung in rungs:
        numbers = ["--steps", str(options.steps), "--batch", str(options.batch)]
        command = [sys.executable, __file__, "--describe", "--rung", rung, *numbers]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr[-2000:])
        about = json.loads(done.stdout.splitlines()[-1])
        if about["family"] != "gpu":
            sys.exit(f"this needs a GPU that jax sees (pip install -e '.[gpu]'); jax sees: {about['hardware']}")
        found: dict[str, list[float]] = {"ours": [], "bare": []}
        for pair in range(options.pairs):
            for kind in ("ours", "bare") if pair % 2 == 0 else ("bare", "ours"):
                found[kind].append(seconds_per_step(kind, rung, options))
        ours, bare = (statistics.median(found[kind]) for kind in ("ours", "bare"))
        ratio = statistics.median(a / b for a, b in zip(found["ours"], found["bare"], strict=True))
        print(f"{rung} on {about['hardware']}, {options.batch} sequences a step, {options.steps} steps:")
        print(f"  ms per step: ours {1000 * ours:.2f}, bare Levanter {1000 * bare:.2f}")
        print(f"  time per step, ours over bare: {ratio:.4f} (wanted <= 1.02)")
        print(f"  MFU of ours: {about['flops'] / ours / about['peak']:.1%}; {about['tokens'] / ours:,.0f} tokens/s")


if __name__ == "__main__":
    main()
