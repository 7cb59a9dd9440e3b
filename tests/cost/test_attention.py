"""What layers attend, on models whose windows are known."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import pytest
from levanter.models.gpt2_hyena import Gpt2HyenaConfig
from levanter.models.hyena import HyenaConfig
from levanter.models.llama import LlamaConfig, LlamaLMHeadModel
from levanter.models.mistral import MistralConfig
from levanter.models.olmo3 import Olmo3Config
from levanter.models.qwen import QwenConfig
from levanter.optim.config import AdamConfig

from speedrun.cost import attention
from speedrun.cost.attention import AttentionSpans, probe_attention, window_disagreements
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError

LENGTH = 64
SHAPE = {
    "max_seq_len": LENGTH,
    "hidden_dim": 256,
    "intermediate_dim": 512,
    "num_layers": 4,
    "num_heads": 4,
    "num_kv_heads": 2,
}


def workload(model: object) -> Workload:
    return Workload(model, AdamConfig(), 128_256, model.max_seq_len, 8)


@pytest.mark.slow
def test_a_window_that_a_model_does_not_read_is_named() -> None:
    mistral = workload(MistralConfig(**SHAPE, sliding_window=16))
    spans = probe_attention(mistral)
    assert spans.windows == [None] * 4
    assert window_disagreements(mistral, spans) == [
        "layers 0, 1, 2, 3: the config declares a window of 16 and the model attends all earlier positions"
        " (backend vanilla)"
    ]
    assert (spans.model, spans.sees_the_future) == (LENGTH, False)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["vanilla", "jax_flash"])
def test_windows_are_found_layer_by_layer(backend: str) -> None:
    # Blocks of 16, so that flash attention really runs on so short a sequence.
    olmo = workload(Olmo3Config(**SHAPE, sliding_window=16, flash_attention_block_size=16))
    spans = probe_attention(olmo, backend)
    assert spans.layers == (16, 16, 16, LENGTH)
    assert window_disagreements(olmo, spans) == []


@pytest.mark.slow
def test_a_projection_that_starts_at_zero_hides_nothing() -> None:
    class Zero(LlamaLMHeadModel):
        @classmethod
        def init(cls, *args, **kwargs):  # noqa: ANN002, ANN003, ANN206
            model = super().init(*args, **kwargs)
            return eqx.tree_at(
                lambda m: m.transformer.layers.stacked.self_attn.o_proj.weight.array, model, replace_fn=jnp.zeros_like
            )

    class ZeroConfig(LlamaConfig):
        model_type = property(lambda self: Zero)

    assert probe_attention(workload(ZeroConfig(**SHAPE))).layers == (LENGTH,) * 4


class SeesAll(LlamaLMHeadModel):
    @classmethod
    def init(cls, *args, **kwargs):  # noqa: ANN002, ANN003, ANN206
        model = LlamaLMHeadModel.init(*args, **kwargs)
        return cls(model.transformer, model.embeddings, model.lm_head)

    def activations(self, input_ids, attn_mask=None, *, key=None, pos_ids=None):  # noqa: ANN001, ANN201
        return super().activations(input_ids, None, key=key, pos_ids=pos_ids)


class SeesAllConfig(LlamaConfig):
    model_type = property(lambda self: SeesAll)


@pytest.mark.slow
def test_a_model_that_sees_the_future_is_found_out() -> None:
    assert probe_attention(workload(SeesAllConfig(**SHAPE))).sees_the_future


@pytest.mark.slow
def test_hyena_as_levanter_has_it_sees_three_positions() -> None:
    # Its long convolution runs along the channels, so that only the short filter mixes positions.
    model = Gpt2HyenaConfig(max_seq_len=LENGTH, num_layers=2, hyena=HyenaConfig(hidden_dim=64))
    spans = probe_attention(workload(model))
    assert (spans.layers, spans.model) == ((3, 3), 5)


def test_a_model_that_cannot_run_is_a_clear_error() -> None:
    with pytest.raises(SpeedrunError, match="QwenConfig cannot be run.*[Ss]liding window"):
        probe_attention(workload(QwenConfig(**SHAPE, use_sliding_window=True, sliding_window=16)))


def test_the_probe_is_as_long_as_it_must_be() -> None:
    long = {**SHAPE, "max_seq_len": 4096}
    assert attention._probed_length(workload(LlamaConfig(**long))) == attention.SHORTEST_PROBE
    assert attention._probed_length(workload(MistralConfig(**long, sliding_window=1024))) == 2048
    assert attention._probed_length(workload(MistralConfig(**long, sliding_window=4096))) == 4096
    assert attention._probed_length(workload(LlamaConfig(**SHAPE))) == LENGTH


def test_a_declared_window_wider_than_the_sequence_is_full_attention() -> None:
    wide = workload(MistralConfig(**SHAPE, sliding_window=4096))
    spans = AttentionSpans(LENGTH, "vanilla", (LENGTH,) * 4, LENGTH, False)
    assert window_disagreements(wide, spans) == []
    narrower = dataclasses.replace(spans, layers=(LENGTH, 8, LENGTH, 8))
    assert window_disagreements(wide, narrower) == [
        "layers 1, 3: the config declares all earlier positions and the model attends a window of 8 (backend vanilla)"
    ]
