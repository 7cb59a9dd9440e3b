"""Makes projects whose records agree with themselves throughout, for tests and benchmarks to break.

The settings are those of a real micro_1 record; what follows from them (tokens, FLOPs, times) is worked out here,
so that every rung and every accelerator can be had without training.
"""

import gzip
import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CANDIDATE = '''"""{name}: made up."""

from speedrun import Author, Candidate, reference

CANDIDATE = Candidate(name="{name}", authors=[Author("A")], hypothesis="h", recipe=reference.recipe)
'''
SHAPES = {
    # d, ffn, layers, heads, kv heads, length, batch, vocabulary, steps, budget
    "micro_1": (48, 128, 2, 2, 2, 256, 8, 2048, 127, 3.2e11),
    "micro_2": (64, 176, 3, 2, 2, 256, 8, 2048, 170, 8.0e11),
    "micro_3": (80, 224, 4, 2, 2, 256, 8, 2048, 250, 2.0e12),
    "micro_4": (96, 256, 5, 3, 3, 256, 8, 2048, 400, 5.0e12),
    "30m": (128, 448, 4, 2, 2, 1024, 512, 128_256, 1863, 1.08e17),
    "75m": (256, 896, 8, 4, 4, 1024, 512, 128_256, 4802, 6.75e17),
}
PARAMETERS = {"micro_1": 252_144, "30m": 33_784_960, "75m": 73_273_600}
"""Known counts; the other rungs' follow from the shape."""
EVALUATIONS = {
    "micro": {
        "texts_sha256": "dedc3bad3172f6a6c70a6d71df7680a6bf4335626a6d24d8d5e6874940d906f6",
        "tokenizer_sha256": "989a7da372e3f24d13cf7357b067f9d099e078bf752b7e243aee1b8f5bd452c3",
        "documents": 1004,
        "bytes": 493_271,
        "tokens": 158_307,
    },
    "standard": {
        "texts_sha256": "a" * 64,
        "tokenizer_sha256": "b" * 64,
        "documents": 10_000,
        "bytes": 20_000_000,
        "tokens": 4_500_000,
    },
}
PROBES = {"finite": 0.0, "causality": 1e-3, "batch": 1e-3, "state": 1e-3, "isolation": 1e-3}
CORPUS_SHA256 = "875e7c7e3255d1bfd173c2df1f4f13a202eb286bb14168a326ad34599f96a488"
VERSIONS = {
    "jax": "0.11.1",
    "jaxlib": "0.11.1",
    "marin-core": "0.2.227.dev40316220070",
    "marin-haliax": "0.2.227.dev40316220070",
    "marin-levanter": "0.2.227.dev40316220070",
    "optax": "0.2.6",
}
PEAKS = {"cpu": None, "h100x8": 989.5e12, "a100-80gx8": 312e12, "v5p-8": 459e12}
CHIPS = {"cpu": 1, "h100x8": 8, "a100-80gx8": 8, "v5p-8": 4}


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def llama_parameters(rung: str) -> int:
    d, ffn, layers, heads, kv_heads, _, _, vocab, _, _ = SHAPES[rung]
    layer = 2 * d * d + 2 * d * (d // heads) * kv_heads + 3 * d * ffn + 2 * d
    return PARAMETERS.get(rung, 2 * vocab * d + layers * layer + d)


def forward_flops_per_token(rung: str) -> float:
    d, ffn, layers, heads, kv_heads, length, _, vocab, _, _ = SHAPES[rung]
    head = d / heads
    layer = 6 * d * ffn + 2 * d * (heads + 2 * kv_heads) * head + 2 * d * d + 4 * length * d + 3 * length * heads
    return layers * layer + 2 * d * vocab


def make_run(
    candidate: str,
    rung: str,
    seed: int,
    *,
    source: str,
    score: float,
    rng: random.Random,
    hardware: str = "cpu",
    author: dict[str, str] | None = None,
    fingerprint: str | None = None,
    settings: dict[str, Any] | None = None,
    started: datetime = datetime(2026, 3, 1, 8, 0, 0, tzinfo=UTC),
) -> tuple[dict[str, Any], bytes]:
    """(a run's ``run_info``, the text of its step log)."""
    d, ffn, layers, heads, kv_heads, length, batch, vocab, steps, budget = SHAPES[rung]
    micro = rung.startswith("micro")
    peak, chips = PEAKS[hardware], CHIPS[hardware]
    tokens, per_token = steps * batch * length, forward_flops_per_token(rung)
    flops = 3 * per_token * tokens
    evaluation: dict[str, Any] = {"protocol": 1, **EVALUATIONS["micro" if micro else "standard"]}
    evaluation["nats"] = score * math.log(2) * evaluation["bytes"]
    evaluation["bits_per_byte"] = evaluation["nats"] / math.log(2) / evaluation["bytes"]
    documents = documents_of(evaluation)
    evaluation["documents_file"] = {
        "file": f"documents-{seed}.json.gz",
        "sha256": hashlib.sha256(documents).hexdigest(),
    }
    evaluation["probes"] = [
        {"name": name, "passed": True, "value": 0.0, "limit": limit, "meaning": "m"} for name, limit in PROBES.items()
    ]
    final = evaluation["nats"] / evaluation["tokens"]
    steady_step = 0.12 if micro or peak is None else flops / steps / (0.3 * chips * peak)
    pace = steady_step * rng.uniform(0.8, 1.2)
    seconds = [pace * rng.uniform(0.97, 1.03) for _ in range(steps)]
    compile_seconds = rng.uniform(4, 7)
    steady = sum(seconds)
    seconds[0] += compile_seconds
    training = sum(seconds)
    rows = [
        {
            "step": step,
            "loss": round(final + (math.log(vocab) - final) * math.exp(-12 * step / steps) + rng.gauss(0, 0.01), 6),
            "seconds": round(took, 4),
            "tokens": (step + 1) * batch * length,
            "attempt": 1,
        }
        for step, took in enumerate(seconds)
    ]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()
    author = author or {
        "name": f"Ada {candidate.title()}",
        "affiliation": "Example University",
        "url": "https://a.example",
    }
    fingerprint = fingerprint or digest("recipe", candidate, rung)
    started = started + timedelta(seconds=rng.randrange(10**7))
    completed = started + timedelta(seconds=math.ceil(training) + 20 + rng.randrange(60))
    settings = {
        "type": "levanter.models.llama.LlamaConfig",
        "hidden_dim": d,
        "intermediate_dim": ffn,
        "num_layers": layers,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "max_seq_len": length,
        "head_dim": None,
        "tie_word_embeddings": False,
        "use_bias": False,
        "use_qk_norm": False,
        "input_embedding_norm": False,
        "hybrid_norm": False,
        "use_layer_norm_weight": True,
    } | (settings or {})
    data = "wiki_summaries" if micro else "fineweb_edu_10b"
    return {
        "author": author,
        "authors": [author],
        "description": f"{candidate} is better.",
        "model_size": llama_parameters(rung),
        "total_tokens": tokens,
        "model_flops": flops,
        "model_flops_per_token": per_token,
        "num_devices": chips,
        "num_chips": chips,
        "device_flops": peak,
        "training_time": training,
        "training_hardware_flops": None if peak is None else training * chips * peak,
        "eval/paloma/c4_en/bpb": None if micro else score * 0.999,
        "eval/micro/heldout/bpb": score * 0.999 if micro else None,
        "run_completion_timestamp": stamp(completed),
        "wandb_run_link": f"https://wandb.ai/{candidate}/runs/{rung}-{seed}",
        "model_config": settings,
        "train_config": {
            "type": "speedrun.candidate.Recipe",
            "batch_size": batch,
            "sequence_length": length,
            "steps": steps,
            "training_data": "",
            "tokenizer": "",
            "z_loss_weight": 0.0,
            "precision": "f32",
            "optimizer": {"type": "levanter.optim.config.AdamConfig", "learning_rate": 0.01},
        },
        "tokenized_dataset": f"tokenized/{data}/train",
        "resources": {
            "hardware": hardware,
            "accelerator": {"cpu": "cpu", "h100x8": "h100", "a100-80gx8": "a100-80g", "v5p-8": "v5p"}[hardware],
            "hosts": 1,
        },
        "candidate": candidate,
        "rung": rung,
        "seed": seed,
        "bits_per_byte": evaluation["bits_per_byte"],
        "evaluation": evaluation,
        "baseline": "adamw",
        "overrides": {},
        "budget_flops": budget,
        "tokens_per_second": tokens / steady,
        "mfu": None if peak is None else flops / (steady * chips * peak),
        "compile_time": training - steady,
        "steady_time": steady,
        "spent_time": training,
        "attempts": [
            {
                "number": 1,
                "started": stamp(started),
                "hardware": hardware,
                "num_chips": chips,
                "seconds": training,
                "first_step": 0,
                "last_step": steps - 1,
            }
        ],
        "step_log": {
            "file": f"steps-{seed}.jsonl.gz",
            "sha256": hashlib.sha256(text).hexdigest(),
            "steps": steps,
            "complete": True,
        },
        "source_digest": source,
        "recipe_fingerprint": fingerprint,
        "run_key": digest(fingerprint, rung, seed, hardware)[:16],
        "git_commit": "c" * 40,
        "git_dirty": False,
        "versions": VERSIONS,
        "training_data": {
            "name": data,
            **({"documents_sha256": CORPUS_SHA256} if micro else {}),
        },
        "corpus": "rung",
    }, text


def documents_of(evaluation: dict[str, Any]) -> bytes:
    """The text of a documents file that adds up to an evaluation: all documents alike, the first with the rest."""
    count = evaluation["documents"]
    columns: dict[str, list[Any]] = {}
    for name in ("bytes", "tokens"):
        each = evaluation[name] // count
        columns[name] = [evaluation[name] - each * (count - 1), *[each] * (count - 1)]
    each_nats = round(evaluation["nats"] / count, 4)
    columns["nats"] = [round(evaluation["nats"] - each_nats * (count - 1), 4), *[each_nats] * (count - 1)]
    return json.dumps(columns, separators=(",", ":")).encode()


@dataclass
class Tree:
    """A project's files."""

    root: Path
    rng: random.Random

    def candidate(self, name: str) -> str:
        """Write the candidate's file if there is none; its digest."""
        path = self.root / "executor_steps" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(CANDIDATE.format(name=name))
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def folder(self, candidate: str, rung: str = "micro_1") -> Path:
        return self.root / "results" / candidate / rung

    def add(self, candidate: str, rung: str = "micro_1", seeds: Sequence[int] = (42, 43), **more: Any) -> None:
        """Write a record with its step logs and attempts."""
        source = self.candidate(candidate)
        folder = self.folder(candidate, rung)
        folder.mkdir(parents=True)
        base = more.pop("score", 2.5 if rung.startswith("micro") else 1.4)
        runs, attempts = [], []
        for seed in seeds:
            score = base + self.rng.uniform(-0.05, 0.05)
            info, text = make_run(candidate, rung, seed, source=source, score=score, rng=self.rng, **more)
            runs.append({"run_info": info})
            self.write_log(candidate, rung, seed, text)
            self.write_documents(candidate, rung, seed, documents_of(info["evaluation"]))
            attempts += attempt_lines(info, f"{candidate}{rung}{seed}")
        self.write(candidate, rung, {"schema_version": 1, "runs": runs})
        (folder / "attempts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in attempts))

    def content(self, candidate: str, rung: str = "micro_1") -> dict[str, Any]:
        return json.loads((self.folder(candidate, rung) / "speedrun_results.json").read_text())

    def info(self, candidate: str, rung: str = "micro_1", at: int = 0) -> dict[str, Any]:
        return self.content(candidate, rung)["runs"][at]["run_info"]

    def write(self, candidate: str, rung: str, content: Any) -> None:
        path = self.folder(candidate, rung) / "speedrun_results.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2, sort_keys=True))

    def write_log(self, candidate: str, rung: str, seed: int, text: bytes) -> None:
        (self.folder(candidate, rung) / f"steps-{seed}.jsonl.gz").write_bytes(gzip.compress(text, mtime=0))

    def documents_text(self, info: dict[str, Any]) -> bytes:
        return documents_of(info["evaluation"])

    def write_documents(self, candidate: str, rung: str, seed: int, text: bytes) -> None:
        (self.folder(candidate, rung) / f"documents-{seed}.json.gz").write_bytes(gzip.compress(text, mtime=0))


def attempt_lines(info: dict[str, Any], name: str, **more: Any) -> list[dict[str, Any]]:
    """The two lines that a finished run leaves in attempts.jsonl."""
    attempt = digest(name)[:12]
    start = {
        "event": "started",
        "attempt": attempt,
        "at": info["attempts"][0]["started"],
        "rung": info["rung"],
        "seed": info["seed"],
        "recipe_fingerprint": info["recipe_fingerprint"],
        "run_key": info["run_key"],
        "hardware": info["resources"]["hardware"],
        "overrides": info["overrides"],
    } | more
    ended = {"event": "ended", "attempt": attempt, "at": info["run_completion_timestamp"], "how": "finished"}
    return [start, ended | {"bits_per_byte": info["bits_per_byte"]}]


def make_tree(root: Path, seed: int = 0) -> Tree:
    """An empty project."""
    (root / "executor_steps").mkdir(parents=True)
    return Tree(root, random.Random(seed))


def two_candidates(root: Path) -> Tree:
    """A baseline and a candidate at two micro rungs and one real one, all as they should be."""
    tree = make_tree(root)
    for name, score, hardware in (("adamw", 2.56, "h100x8"), ("muonh", 2.49, "v5p-8")):
        tree.add(name, "micro_1", score=score)
        tree.add(name, "micro_2", score=score - 0.1)
        tree.add(name, "30m", seeds=(42,), score=score - 1.1, hardware=hardware)
    return tree
