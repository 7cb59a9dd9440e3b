"""What tracing counts, against sums done by hand. Small vocabularies where the vocabulary is not the point."""

import dataclasses
import math
import re
from typing import Any

import pytest
from levanter.models.gemma import Gemma2Config, GemmaConfig
from levanter.models.gpt2 import Gpt2Config
from levanter.models.gpt2_hyena import Gpt2HyenaConfig
from levanter.models.hyena import HyenaConfig
from levanter.models.llama import LlamaConfig, LlamaLMHeadModel
from levanter.models.mixtral import MixtralConfig
from levanter.models.olmo import Olmo2Config
from levanter.models.olmo3 import Olmo3Config
from levanter.models.qwen import QwenConfig
from levanter.models.qwen3_moe import Qwen3MoeConfig
from levanter.optim.config import AdamConfig
from levanter.optim.muon import MuonConfig

from speedrun.cost.jaxpr import Count
from speedrun.cost.meters import measure
from speedrun.cost.trace import Traced, trace
from speedrun.cost.workload import Workload, largest_batch, workload_of
from speedrun.errors import SpeedrunError

VOCAB = 128_256
PADDED_VOCAB = 131_072
"""The fused loss fills the vocabulary up to whole blocks."""


def llama(d: int, ffn: int, layers: int, heads: int, kv_heads: int, length: int, **more: object) -> LlamaConfig:
    return LlamaConfig(
        max_seq_len=length,
        hidden_dim=d,
        intermediate_dim=ffn,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        **more,
    )


REFERENCE = {
    "30m": (llama(128, 448, 4, 2, 2, 1024), 512, 110.57, 33_784_960),
    "75m": (llama(256, 896, 8, 4, 4, 1024), 512, 268.08, 73_273_600),
    "300m": (llama(768, 2688, 12, 12, 12, 1024), 1024, 1321.35, 299_649_792),
    "1_4b": (llama(2048, 7168, 16, 16, 8, 4096), 256, 8631.88, 1_431_373_824),
}


def small(model: object, *, vocab: int = 512, batch: int = 2, optimizer: object = None) -> Traced:
    return trace(Workload(model, optimizer or AdamConfig(), vocab, model.max_seq_len, batch))


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_shapes_equal_the_convention(name: str) -> None:
    model, batch, million, parameters = REFERENCE[name]
    meters = measure(Workload(model, AdamConfig(), VOCAB, model.max_seq_len, batch))
    traced = meters.traced
    softmax = 3 * model.max_seq_len * model.num_heads * model.num_layers
    assert traced.forward_flops_per_token == meters.convention - softmax
    assert (meters.charged_by, meters.disagreement, traced.uncounted) == ("convention", "", [])
    assert 3 * meters.charged / 1e6 == pytest.approx(million, abs=0.005)
    assert traced.parameters.total == parameters
    assert traced.parameters.embedding == 2 * VOCAB * model.hidden_dim
    assert traced.parameters.lookup == VOCAB * model.hidden_dim
    assert traced.parameters.active == parameters
    # Forward, 2 d a token for each padded word; backward, twice that.
    padding = 3 * 2 * model.hidden_dim * (PADDED_VOCAB - VOCAB)
    assert traced.excess.loss_padding / traced.tokens_per_step == padding
    # Each block is computed again but for its last product, whose result nobody needs.
    block = (meters.convention - softmax - 2 * model.hidden_dim * VOCAB) / model.num_layers
    down = 2 * model.intermediate_dim * model.hidden_dim
    assert traced.excess.recomputation / traced.tokens_per_step == model.num_layers * (block - down)
    # The fused loss computes all logits again, the padded ones too.
    assert traced.excess.loss_recomputation / traced.tokens_per_step == 2 * model.hidden_dim * PADDED_VOCAB
    assert traced.excess.optimizer == 0
    assert traced.step.flops == 3 * traced.forward.flops + traced.excess.total


def test_without_checkpointing_nothing_is_computed_again() -> None:
    traced = small(llama(32, 64, 2, 2, 2, 64, gradient_checkpointing=False))
    assert traced.excess.recomputation == 0


def test_the_step_is_mostly_bfloat16_but_for_the_fused_loss() -> None:
    traced = small(llama(32, 64, 2, 2, 2, 64), vocab=VOCAB)
    # The fused loss's two backward products run on float32 logits.
    assert traced.step.by_dtype["float32"] == 2 * 2 * 32 * PADDED_VOCAB * traced.tokens_per_step
    assert set(traced.forward.by_dtype) == {"bfloat16"}


def test_a_head_dim_of_its_own_is_seen_by_the_trace_alone() -> None:
    narrow = llama(768, 2688, 12, 12, 12, 1024)
    model = dataclasses.replace(narrow, head_dim=128)
    meters = measure(Workload(model, AdamConfig(), VOCAB, 1024, 4))
    # Twice the head: four projections of 2 d x 768 more each, and twice the attention.
    more = 12 * (4 * 2 * 768 * 768 + 4 * 1024 * 768)
    matrices = meters.convention - 3 * 1024 * 12 * 12
    assert meters.traced.forward_flops_per_token == matrices + more
    assert meters.formula.over_trace == pytest.approx(-0.18, abs=0.005)
    assert meters.charged_by == "trace"
    assert "17.6% low" in meters.disagreement or "17.5% low" in meters.disagreement


WIDTHS = {
    "max_seq_len": 64,
    "hidden_dim": 64,
    "intermediate_dim": 96,
    "num_layers": 3,
    "num_heads": 4,
    "num_kv_heads": 2,
}


def dense_layer(
    *, d: int = 64, ffn: int = 96, kv_over_heads: float = 0.5, length: int = 64, matrices: int = 3
) -> float:
    """Forward FLOPs per token of one transformer layer: projections, scores and sums, gated MLP."""
    return 2 * d * d * (2 + 2 * kv_over_heads) + 4 * length * d + matrices * 2 * d * ffn


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        QwenConfig(**WIDTHS),
        Olmo2Config(**WIDTHS),
        Olmo3Config(**WIDTHS, sliding_window=16),
        GemmaConfig(**WIDTHS),
        Gemma2Config(**WIDTHS),
    ],
    ids=lambda model: type(model).__name__,
)
def test_dense_families(model: object) -> None:
    traced = small(model)
    assert traced.forward_flops_per_token == 3 * dense_layer() + 2 * 64 * 512
    assert traced.uncounted == []


def test_gpt2_has_two_mlp_matrices_and_tied_embeddings() -> None:
    traced = small(Gpt2Config(max_seq_len=64, hidden_dim=64, num_layers=3, num_heads=4))
    assert traced.forward_flops_per_token == 3 * dense_layer(ffn=256, kv_over_heads=1, matrices=2) + 2 * 64 * 512
    assert (traced.parameters.embedding, traced.parameters.lookup) == (64 * 512, 0)


@pytest.mark.parametrize(
    ("model", "expert_ffn"),
    [
        (MixtralConfig(**WIDTHS, n_routed_experts=8, num_experts_per_tok=2), 96),
        (Qwen3MoeConfig(**WIDTHS, head_dim=16, moe_intermediate_dim=48, num_experts=8, num_experts_per_tok=2), 48),
    ],
    ids=lambda value: type(value).__name__,
)
def test_mixtures_of_experts(model: object, expert_ffn: int) -> None:
    traced = small(model)
    # Two of eight experts, the router, and the weighted sum of two results.
    layer = dense_layer(ffn=0) + 2 * 3 * 2 * 64 * expert_ffn + 2 * 64 * 8 + 2 * 2 * 64
    assert traced.forward_flops_per_token == 3 * layer + 2 * 64 * 512
    assert traced.parameters.idle == 3 * (8 - 2) * 3 * 64 * expert_ffn
    assert traced.uncounted == []


def test_a_model_that_logs_from_its_loss_is_counted_and_called_untrainable() -> None:
    assert "IO callbacks do not support JVP" in small(MixtralConfig(**WIDTHS)).cannot_train
    assert small(llama(32, 64, 2, 2, 2, 64)).cannot_train == ""


def test_hyena_counts_its_convolutions_and_transforms() -> None:
    d, length, layers = 64, 32, 2
    hyena = HyenaConfig(hidden_dim=d, max_seq_len=length)
    model = Gpt2HyenaConfig(max_seq_len=length, num_layers=layers, hyena=hyena)
    traced = small(model, batch=3)
    rows = 3 * length
    mlp, projections = 2 * 2 * d * 4 * d, 2 * d * 3 * d + 2 * d * d
    # A depthwise filter over three taps and 3 d channels, on positions padded by two.
    short_filter = 2 * 3 * 3 * d * (length + 2) / length
    width, depth, emb = hyena.filter_order, hyena.num_hidden_layers_filter_mlp, hyena.filter_emb_dim
    filters = 2 * (emb * width + (depth - 1) * width * width + width * d) * length / rows
    # Levanter transforms along the channels, padded to twice as many: signal there and back for every row,
    # and the filter once for each of its positions.
    transform = 2.5 * 2 * d * math.log2(2 * d)
    fourier = transform * (2 * rows + length) / rows
    layer = mlp + projections + short_filter + filters + fourier
    assert traced.forward_flops_per_token == pytest.approx(layers * layer + 2 * d * 512, rel=1e-9)


def test_muon_costs_newton_schulz() -> None:
    traced = small(llama(32, 64, 2, 2, 2, 64), optimizer=MuonConfig())

    def newton_schulz(m: int, n: int) -> int:
        return 5 * (2 * m * m * n + 2 * m**3 + 2 * m * m * n)  # five steps of X X', its square, and B X

    assert traced.excess.optimizer == 2 * (4 * newton_schulz(32, 32) + 3 * newton_schulz(32, 64))


def test_a_model_that_cannot_be_traced_is_refused_with_its_own_error() -> None:
    with pytest.raises(SpeedrunError, match="the loss cannot be traced.*[Ss]liding window"):
        small(QwenConfig(**WIDTHS, use_sliding_window=True, sliding_window=16))


class Broken(LlamaLMHeadModel):
    """A candidate's own model, whose loss raises."""

    @classmethod
    def init(cls, Vocab: Any, config: Any, *, key: Any) -> LlamaLMHeadModel:
        made = LlamaLMHeadModel.init(Vocab, config, key=key)
        return cls(made.transformer, made.embeddings, made.lm_head)

    def activations(self, *words: Any, **more: Any) -> Any:
        raise ValueError("no such thing\nand 80 lines of jax")


def test_a_loss_that_raises_is_told_in_one_line_with_its_place() -> None:
    class Config(LlamaConfig):
        model_type = Broken  # type: ignore[assignment]

    fields = {field.name: getattr(llama(32, 64, 2, 2, 2, 64), field.name) for field in dataclasses.fields(LlamaConfig)}
    with pytest.raises(SpeedrunError) as refusal:
        small(Config(**fields))
    place = rf"\({re.escape(__file__)}:\d+, in activations\)"
    assert re.fullmatch(rf"the loss cannot be traced: ValueError: no such thing {place}", str(refusal.value))


def test_the_charge_follows_the_formula_only_where_the_trace_agrees() -> None:
    @dataclasses.dataclass(frozen=True)
    class Modest(LlamaConfig):
        def flops_per_token(self, vocab_size: int, context_length: int) -> float:
            return super().flops_per_token(vocab_size, context_length) * 0.9

    fields = {field.name: getattr(llama(32, 64, 2, 2, 2, 64), field.name) for field in dataclasses.fields(LlamaConfig)}
    meters = measure(Workload(Modest(**fields), AdamConfig(), 512, 64, 2))
    assert meters.charged == meters.traced.forward_flops_per_token
    assert "low" in meters.disagreement
    unseen = Count(opaque=frozenset({"ffi_call fast_attention"}))
    with pytest.raises(SpeedrunError, match="at least .* cannot be counted: opaque: ffi_call fast_attention"):
        _ = dataclasses.replace(meters, traced=dataclasses.replace(meters.traced, forward=unseen)).charged
    honest = measure(Workload(llama(32, 64, 2, 2, 2, 64), AdamConfig(), 512, 64, 2))
    assert honest.charged == honest.convention


@pytest.mark.parametrize("counting", ["windows", "causal"])
def test_a_formula_that_leaves_masked_positions_out_is_compared_as_such(counting: str) -> None:
    """Two of three layers see 16 of 64 positions. By hand: L (6 d i + 8 d^2) + 2 d V, and 4 d + 3 H a position."""
    spans = {"windows": [16, 16, 64], "causal": [16 - 16**2 / 128, 16 - 16**2 / 128, 32]}
    says = 3 * (6 * 64 * 96 + 8 * 64**2) + 2 * 64 * 512 + (4 * 64 + 3 * 4) * sum(spans[counting])

    @dataclasses.dataclass(frozen=True)
    class Windowed(Olmo3Config):
        def flops_per_token(self, vocab_size: int, context_length: int) -> float:
            return says

        def get_layer_types(self) -> list[str]:
            return ["sliding_attention", "sliding_attention", "full_attention"]

    model = Windowed(**{**WIDTHS, "num_kv_heads": 4}, sliding_window=16)
    meters = measure(Workload(model, AdamConfig(), 512, 64, 2))
    assert meters.formula is not None and meters.formula.counting == counting
    assert meters.formula.over_trace == 0
    # Everybody is charged for all positions, the trace's way.
    assert meters.charged == says + 4 * 64 * (3 * 64 - sum(spans[counting])) - 3 * 4 * sum(spans[counting])
    assert "low" not in meters.disagreement and counting.rstrip("s")[:6] in meters.disagreement
    # The causal meter starts from what the formula counts, and takes nothing away twice.
    hidden = sum(spans[counting]) - sum(spans["causal"])
    assert meters.causal == says - (4 * 64 + 3 * 4) * hidden


def test_batch_schedules_are_taken_at_their_largest() -> None:
    steps = [
        dataclasses.make_dataclass("Step", ["start", "value"])(start, value) for start, value in [(0, 8), (100, 32)]
    ]
    assert (largest_batch(steps), largest_batch(16)) == (32, 16)


def test_a_workload_is_made_of_a_recipe() -> None:
    model = llama(32, 64, 2, 2, 2, 64)
    recipe = dataclasses.make_dataclass(
        "Recipe", ["model", "optimizer", "batch_size", "sequence_length", "steps", "z_loss_weight", "precision"]
    )(model, AdamConfig(), 4, 32, None, 1e-4, "f32")
    workload = workload_of(recipe, 100)
    assert (workload.vocab_size, workload.tokens_per_step, workload.precision) == (100, 128, "f32")
    assert trace(workload).forward.by_dtype.keys() == {"float32"}


def test_a_wrong_precision_is_a_clear_error() -> None:
    with pytest.raises(SpeedrunError, match="p=f32,c=bfloat16"):
        trace(Workload(llama(32, 64, 2, 2, 2, 64), AdamConfig(), 512, 64, 2, precision="fast"))
