"""What scoring by our protocol costs, against Levanter's own evaluation of the same model on the same documents.

    python scripts/bench_eval.py [--rung micro_4] [--length 1024] [--repeats 3]

Both go over the rung's held-out documents with the rung's reference model (untrained: what is timed does not
depend on its weights), in one process and in float32, in windows of the rung's
length or of the one that is given. "first" is a call that compiles, "again" the fastest of
the later ones, which find what was compiled in a cache, as the next seed of a run does. Printed are seconds and
their ratio to Levanter's. Data and tokenizer are made before the clock starts.
"""

import argparse
import dataclasses
import logging
import os
import tempfile
import time
from collections.abc import Callable

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rung", default="micro_4")
parser.add_argument("--length", type=int, help="Tokens in a window and in a packed sequence. [the rung's]")
parser.add_argument("--repeats", type=int, default=3)
options = parser.parse_args()

from speedrun.cli.run import prepare_environment  # noqa: E402
from speedrun.project import find_project  # noqa: E402

project = find_project()
prepare_environment(project)
os.environ["TQDM_DISABLE"] = "1"
logging.disable(logging.WARNING)

import haliax as hax  # noqa: E402
import jax  # noqa: E402
import jmp  # noqa: E402
from fray.current_client import set_current_client  # noqa: E402
from fray.local_backend import LocalClient  # noqa: E402
from levanter.eval import TaggedEvaluator, _default_lm_eval_loss_fn  # noqa: E402
from levanter.tokenizers import load_tokenizer  # noqa: E402
from levanter.trainer import TrainerConfig  # noqa: E402
from marin.execution.lazy import materialized_config, run  # noqa: E402

from speedrun.catalog import load_candidate, load_rung  # noqa: E402
from speedrun.cost.abstract import training_mesh  # noqa: E402
from speedrun.evaluation.ledger import score_documents  # noqa: E402
from speedrun.evaluation.levanter_bpb import levanter_figures  # noqa: E402
from speedrun.evaluation.nats import nats_function  # noqa: E402
from speedrun.evaluation.probes import probe_model  # noqa: E402
from speedrun.hardware import parse_hardware  # noqa: E402
from speedrun.steps.corpus import read_documents  # noqa: E402
from speedrun.steps.dag import build_dag  # noqa: E402
from speedrun.steps.evaluate import TOKENS_AT_A_TIME  # noqa: E402
from speedrun.steps.train import LEVANTER_EVALUATION_BATCH  # noqa: E402

dag = build_dag(project, load_candidate(project, "adamw"), load_rung(options.rung), 42, parse_hardware("cpu")[0])
with set_current_client(LocalClient()):
    run(*dag.data.deps)
job = materialized_config(dag.evaluate, project.store)
length = options.length or job.length
shape = dataclasses.replace(job.model, max_seq_len=length)
texts = [document["text"] for document in read_documents(job.texts)]
tokenizer = load_tokenizer(job.tokenizer)
trainer = TrainerConfig(mesh=training_mesh(), require_accelerator=False)
policy = jmp.get_policy("f32")
cache = tempfile.TemporaryDirectory()
jax.config.update("jax_compilation_cache_dir", cache.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def timed(what: Callable[[], object]) -> tuple[float, float]:
    """(seconds of the first call, the fewest of the later ones)."""
    seconds = []
    for _ in range(1 + options.repeats):
        begun = time.perf_counter()
        what()
        seconds.append(time.perf_counter() - begun)
    return seconds[0], min(seconds[1:])


with trainer.use_device_mesh(), hax.axis_mapping(trainer.parameter_axis_mapping):
    mapping = trainer.compute_axis_mapping
    model = shape.build(hax.Axis("vocab", len(tokenizer)), key=jax.random.PRNGKey(0))
    ((dataset, tags),) = job.packed.tagged_eval_sets(shape.max_Pos)
    axis = hax.Axis("batch", LEVANTER_EVALUATION_BATCH)
    evaluator = TaggedEvaluator(
        axis,
        [(dataset, tags)],
        lambda model, batch: _default_lm_eval_loss_fn(model, batch, EvalBatch=axis, mp=policy),
        tokenizer,
        trainer.device_mesh,
        mapping,
    )
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in sorted(texts, key=len)[-8:]]

    def score() -> None:
        batch_size = TOKENS_AT_A_TIME // length
        score_documents(model, texts, tokenizer, length=length, batch_size=batch_size, mapping=mapping)

    def figures() -> None:
        levanter_figures(
            model, dataset, tokenizer, batch_size=axis.size, policy=policy, mesh=trainer.device_mesh, mapping=mapping
        )

    def probes() -> None:
        probe_model(
            nats_function(model, mapping=mapping),
            encoded,
            bos=tokenizer.bos_token_id,
            end=tokenizer.eos_token_id,
            vocab_size=len(tokenizer),
            length=length,
        )

    theirs = timed(lambda: evaluator.evaluate(model))
    print(f"{options.rung}, {length} tokens: {len(texts)} documents, {os.cpu_count()} cores")
    print("seconds (ratio to Levanter's evaluation)")
    print(f"{'':34}{'first':>16}{'again':>16}")
    parts = {"score, with end-of-text": score, "Levanter's figure, taken apart": figures, "probes": probes}
    for name, what in parts.items():
        ours = timed(what)
        cells = "".join(f"{f'{mine:.2f} ({mine / other:.2f}x)':>16}" for mine, other in zip(ours, theirs, strict=True))
        print(f"{name:34}{cells}")
    print(f"{'Levanter':34}" + "".join(f"{value:>16.2f}" for value in theirs))
