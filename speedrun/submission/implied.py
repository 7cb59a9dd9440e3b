"""What a record's own settings imply, worked out from the record alone: steps, tokens, FLOPs, parameters.

The settings are whatever a stranger wrote under ``model_config`` and ``train_config``; what does not follow from
them is None, never an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from speedrun.cost.conventions import llama_forward_flops_per_token
from speedrun.ladder import LADDER
from speedrun.records.schema import RunInfo
from speedrun.submission.expected import TOKENIZER_OF_DATA, TOKENIZERS, TokenizerFacts
from speedrun.submission.rule import whole

CONVENTION_TYPES = frozenset(
    f"levanter.models.{name}"
    for name in (
        "llama.LlamaConfig",
        "mistral.MistralConfig",
        "qwen.QwenConfig",
        "qwen.Qwen3Config",
        "gemma.GemmaConfig",
        "olmo.Olmo2Config",
    )
)
"""Model configurations whose FLOPs are Marin's convention for a Llama (a test holds them against Levanter)."""

LLAMA = "levanter.models.llama.LlamaConfig"
_EXTRAS = ("tie_word_embeddings", "use_bias", "use_qk_norm", "input_embedding_norm", "hybrid_norm", "head_dim")
"""Settings that give a Llama other parameters than a plain one has."""


def model_type(info: RunInfo) -> str:
    """Qualified name of the model's configuration; empty where none is on record."""
    name = info.model_configuration.get("type")
    return name if isinstance(name, str) else ""


def steps(info: RunInfo) -> int | None:
    """Training steps of the recipe."""
    count = whole(info.train_config.get("steps"))
    return count if count is not None and count > 0 else None


def sequence_length(info: RunInfo) -> int | None:
    """Tokens per sequence."""
    length = whole(info.train_config.get("sequence_length"))
    return length if length is not None and length > 0 else None


def batch_schedule(info: RunInfo) -> list[tuple[int, int]] | None:
    """(first step, sequences per step) of each stage of the batch, in order."""
    batch = info.train_config.get("batch_size")
    if (size := whole(batch)) is not None:
        return [(0, size)] if size > 0 else None
    if not isinstance(batch, list) or not all(isinstance(stage, dict) for stage in batch):
        return None
    stages = [(whole(stage.get("start")), whole(stage.get("value"))) for stage in batch]
    known = [(start, size) for start, size in stages if start is not None and size is not None and size > 0]
    in_order = all(one[0] < two[0] for one, two in pairwise(known))
    return known if known and len(known) == len(stages) and known[0][0] == 0 and in_order else None


def tokens_after(info: RunInfo, count: int) -> int | None:
    """Tokens trained on in the first ``count`` steps: the batch schedule's sum of sequences, times the length."""
    schedule, length = batch_schedule(info), sequence_length(info)
    if schedule is None or length is None:
        return None
    ends = [*(start for start, _ in schedule[1:]), count]
    stages = zip(schedule, ends, strict=True)
    return length * sum(size * max(0, min(end, count) - start) for (start, size), end in stages)


def training_data(info: RunInfo) -> str:
    """Name of the training data that the recipe names or filters, or its rung's (which a mixture goes by too)."""
    named = info.train_config.get("training_data")
    if isinstance(named, dict):
        named = named.get("of")
    if isinstance(named, str) and named:
        return named
    return LADDER[info.rung].training_data if info.rung in LADDER else ""


def tokenizer(info: RunInfo) -> tuple[str, TokenizerFacts | None]:
    """(name of the recipe's tokenizer, or of its data's; what is known of it)."""
    named = info.train_config.get("tokenizer")
    if isinstance(named, dict):
        ids = whole(named.get("vocab_size"))
        return "a tokenizer of its own", None if ids is None or ids <= 0 else TokenizerFacts(vocab_size=ids)
    name = named if isinstance(named, str) and named else TOKENIZER_OF_DATA.get(training_data(info), "")
    return name, TOKENIZERS.get(name)


@dataclass(frozen=True)
class _Shape:
    """The sizes of a Llama."""

    hidden_dim: int
    intermediate_dim: int
    num_layers: int
    num_heads: int
    num_kv_heads: int


def _shape(settings: Mapping[str, Any]) -> _Shape | None:
    sizes = {name: whole(settings.get(name)) for name in _Shape.__dataclass_fields__}
    known = {name: size for name, size in sizes.items() if size is not None and 0 < size < 10**9}
    return _Shape(**known) if len(known) == len(sizes) else None


def forward_flops_per_token(info: RunInfo) -> float | None:
    """By Marin's convention, where the convention covers the recorded model; else None."""
    settings = info.model_configuration
    shape, length, (_, facts) = _shape(settings), sequence_length(info), tokenizer(info)
    if model_type(info) not in CONVENTION_TYPES or shape is None or length is None or facts is None:
        return None
    head_dim = settings.get("head_dim")
    if head_dim is not None and whole(head_dim) != shape.hidden_dim / shape.num_heads:
        # The convention does not see it, so the run was charged by what was traced.
        return None
    return llama_forward_flops_per_token(
        **{name: getattr(shape, name) for name in _Shape.__dataclass_fields__},
        sequence_length=length,
        vocab_size=facts.vocab_size,
    )


def parameters(info: RunInfo) -> int | None:
    """Parameters of a plain Llama: two embeddings, and per layer four projections, three matrices of the MLP and two
    norms. None for any other model, or a Llama with extras."""
    settings = info.model_configuration
    shape, (_, facts) = _shape(settings), tokenizer(info)
    plain = not any(settings.get(extra) for extra in _EXTRAS)
    if model_type(info) != LLAMA or shape is None or facts is None or not plain or shape.num_heads < 1:
        return None
    if settings.get("use_layer_norm_weight") is not True or shape.hidden_dim % shape.num_heads:
        return None
    d, kv_width = shape.hidden_dim, shape.hidden_dim // shape.num_heads * shape.num_kv_heads
    layer = 2 * d * d + 2 * d * kv_width + 3 * d * shape.intermediate_dim + 2 * d
    return 2 * facts.vocab_size * d + shape.num_layers * layer + d
