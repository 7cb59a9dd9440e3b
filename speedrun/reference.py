"""The reference recipe of each rung: a Llama trained with AdamW. Candidates start from it.

Published settings of Marin's AdamW runs stand for the standard rungs; the micro rungs' learning rates
come from ``speedrun sweep`` (docs/micro-ladder.md). Every shape has untied embeddings, RMSNorm and
rotary positions with base 10,000.
"""

import functools

from levanter.models.llama import LlamaConfig
from levanter.optim.config import AdamConfig

from speedrun.candidate import Recipe
from speedrun.errors import SpeedrunError
from speedrun.ladder import Rung

ADAMW_LEARNING_RATE = {
    "micro_1": 0.016,
    "micro_2": 0.008,
    "micro_3": 0.008,
    "micro_4": 0.006,
    "30m": 3e-3,
    "75m": 3e-3,
    "300m": 3e-3,
    "1_4b": 3e-3,
}


def _llama(d: int, ffn: int, layers: int, heads: int, kv_heads: int, length: int) -> LlamaConfig:
    return LlamaConfig(
        max_seq_len=length,
        hidden_dim=d,
        intermediate_dim=ffn,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        # Recomputing activations saves memory that a micro model does not need and costs a third of its time.
        gradient_checkpointing=length > 256,
    )


@functools.cache
def model(rung_name: str) -> LlamaConfig:
    """The reference architecture of a rung.

    Raises:
        SpeedrunError: for a rung that has none.
    """
    shapes = {
        "micro_1": _llama(48, 128, 2, 2, 2, 256),
        "micro_2": _llama(64, 176, 3, 2, 2, 256),
        "micro_3": _llama(80, 224, 4, 2, 2, 256),
        "micro_4": _llama(96, 256, 5, 3, 3, 256),
        "30m": _llama(128, 448, 4, 2, 2, 1024),
        "75m": _llama(256, 896, 8, 4, 4, 1024),
        "300m": _llama(768, 2688, 12, 12, 12, 1024),
        "1_4b": _llama(2048, 7168, 16, 16, 8, 4096),
    }
    if rung_name not in shapes:
        raise SpeedrunError(f"speedrun/reference.py has no shape, batch size and learning rate for {rung_name}")
    return shapes[rung_name]


BATCH_SIZE = {"micro_1": 8, "micro_2": 8, "micro_3": 8, "micro_4": 8, "30m": 512, "75m": 512, "300m": 1024, "1_4b": 256}


def recipe(rung: Rung) -> Recipe:
    """The reference recipe of ``rung``: its shape, AdamW, and as many steps as the budget buys."""
    shape = model(rung.name)
    large = rung.name == "1_4b"
    return Recipe(
        model=shape,
        optimizer=AdamConfig(
            learning_rate=ADAMW_LEARNING_RATE[rung.name],
            weight_decay=0.033 if large else 0.1,
            beta1=0.9,
            beta2=0.95,
            min_lr_ratio=0.1,
            warmup=5000 if large else 0.01,
        ),
        batch_size=BATCH_SIZE[rung.name],
        sequence_length=shape.max_seq_len,
        z_loss_weight=1e-4 if large else 0.0,
        # A CPU has no bfloat16 units: float32 is the faster of the two there.
        precision="f32" if rung.is_micro else "p=f32,c=bfloat16",
    )
