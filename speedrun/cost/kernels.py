"""Which kernels a trace goes through: the ones a run would use here, or the plain ones.

A kernel is a way of computing, not a part of the model: a flash attention that skips masked blocks, or a
fused loss that pads the vocabulary to its block size, must not change a model's FLOPs.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any
from unittest import mock

from levanter.kernels.pallas.fused_cross_entropy_loss import api as fused_loss
from levanter.layers import attention
from levanter.layers.attention import AttentionBackend


@contextlib.contextmanager
def plain_loss() -> Iterator[None]:
    """Within, Levanter's fused cross entropy is the reference: all logits at once, nothing padded, nothing
    computed twice. A model that names an implementation itself, or has a loss of its own, keeps it.
    """
    with mock.patch.object(fused_loss, "_default_implementations", lambda: ("reference",)):
        yield


@contextlib.contextmanager
def plain_attention_by_default() -> Iterator[None]:
    """Within, attention whose backend is left open computes every score and masks afterwards."""
    with mock.patch.object(attention, "default_attention_type", lambda: AttentionBackend.VANILLA):
        yield


def with_open_attention(model: Any) -> Any:
    """``model`` (a config) with its attention backend left open, in nested configs too.

    Only a field called ``attn_backend`` is known as one.
    """
    changes = {}
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if field.name == "attn_backend" and value is not None:
            changes[field.name] = None
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            opened = with_open_attention(value)
            if opened is not value:
                changes[field.name] = opened
    return dataclasses.replace(model, **changes) if changes else model
