"""Marin's convention against its published figures and against sums done by hand."""

import dataclasses

import pytest

from speedrun.cost import conventions
from speedrun.errors import SpeedrunError

VOCAB = 128_256
SHAPES = {
    "30m": (128, 448, 4, 2, 2),
    "75m": (256, 896, 8, 4, 4),
    "300m": (768, 2688, 12, 12, 12),
    "1_4b": (2048, 7168, 16, 16, 8),
}


def forward(name: str, sequence_length: int) -> float:
    d, ffn, layers, heads, kv_heads = SHAPES[name]
    return conventions.llama_forward_flops_per_token(
        hidden_dim=d,
        intermediate_dim=ffn,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        sequence_length=sequence_length,
        vocab_size=VOCAB,
    )


@pytest.mark.parametrize(
    ("name", "tokens", "published"),
    [
        ("30m", 1_500 * 512 * 1024, 8.6953760391168e16),
        ("75m", 6_000 * 512 * 1024, 8.43291058765824e17),
        ("300m", 6_000 * 1024 * 1024, 8.313235618922496e18),
    ],
)
def test_the_published_runs_are_reproduced_to_the_digit(name: str, tokens: int, published: float) -> None:
    assert conventions.training_flops(forward(name, 1024), tokens) == published


@pytest.mark.parametrize(
    ("name", "sequence_length", "million"),
    [
        ("30m", 1024, 110.57),
        ("75m", 1024, 268.08),
        ("300m", 1024, 1321.35),
        ("300m", 2048, 1435.9),
        ("1_4b", 4096, 8631.88),
    ],
)
def test_training_flops_per_token_of_the_reference_shapes(name: str, sequence_length: int, million: float) -> None:
    assert 3 * forward(name, sequence_length) / 1e6 == pytest.approx(million, abs=0.05 if million == 1435.9 else 0.005)


def test_causal_attention_is_half_and_a_window_bounds_it() -> None:
    assert conventions.causal_span(1024) == 512
    assert conventions.causal_span(1024, 1024) == 512
    assert conventions.causal_span(1024, 4096) == 512
    # 1,024 queries, window 256: the first 256 see half of it on average, the other 768 all of it.
    assert conventions.causal_span(1024, 256) == (256 * 128 + 768 * 256) / 1024


def test_causal_count_takes_half_the_attention_away() -> None:
    model = Llama()
    whole = conventions.convention_forward_flops_per_token(model, vocab_size=100, sequence_length=64)
    causal = conventions.causal_forward_flops_per_token(model, vocab_size=100, sequence_length=64)
    # 3 layers of 4 S d + 3 S H with S = 64, d = 8, H = 2.
    assert whole - causal == 3 * (4 * 64 * 8 + 3 * 64 * 2) / 2


@dataclasses.dataclass
class Llama:
    """Has Levanter's fields but a formula of its own."""

    hidden_dim: int = 8
    num_heads: int = 2
    num_layers: int = 3
    answer: object = 1e6

    def flops_per_token(self, vocab_size: int, context_length: int) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_config_that_overrides_the_formula_is_asked() -> None:
    assert conventions.convention_forward_flops_per_token(Llama(), vocab_size=10, sequence_length=4) == 1e6
    assert conventions.convention_forward_flops_per_token(Llama(answer=None), vocab_size=10, sequence_length=4) is None
    assert conventions.causal_forward_flops_per_token(Llama(answer=None), vocab_size=10, sequence_length=4) is None


@pytest.mark.parametrize("answer", [0, -1.0, "6.41e+17", float("nan"), RuntimeError("no")])
def test_a_formula_that_gives_no_number_is_an_error(answer: object) -> None:
    with pytest.raises(SpeedrunError, match="Llama.flops_per_token"):
        conventions.convention_forward_flops_per_token(Llama(answer=answer), vocab_size=10, sequence_length=4)


@pytest.mark.parametrize(
    ("fields", "windows"),
    [
        ({}, [None, None, None]),
        ({"sliding_window": 16}, [16, 16, 16]),
        ({"sliding_window": 16, "use_sliding_window": False}, [None, None, None]),
        (
            {
                "sliding_window": 16,
                "get_layer_types": lambda: ["sliding_attention", "full_attention", "sliding_attention"],
            },
            [16, None, 16],
        ),
    ],
)
def test_declared_windows(fields: dict[str, object], windows: list[int | None]) -> None:
    model = Llama()
    for name, value in fields.items():
        setattr(model, name, value)
    assert conventions.declared_windows(model) == windows
