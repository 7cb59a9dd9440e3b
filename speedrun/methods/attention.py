"""Llamas with another attention: configurations that change `attention_config`; the model stays Levanter's."""

import dataclasses
from dataclasses import dataclass

from levanter.layers.attention import AttentionConfig
from levanter.models.llama import LlamaConfig
from levanter.models.lm_model import LmConfig


def like[T: LlamaConfig](shape: LlamaConfig, kind: type[T]) -> T:
    """``shape`` as a configuration of ``kind``: every field that both have keeps its value."""
    return kind(**{field.name: getattr(shape, field.name) for field in dataclasses.fields(shape) if field.init})


@LmConfig.register_subclass("llama_output_gate")
@dataclass(frozen=True)
class OutputGateLlamaConfig(LlamaConfig):
    """A Llama whose attention output is multiplied by sigmoid(W x) before the output projection, element by element."""

    def attention_config(self) -> AttentionConfig:
        return dataclasses.replace(super().attention_config(), gated="elementwise")

    def _gate_weights(self) -> int:
        """Weights of the gates of all layers: one row of the width for each element of each head."""
        return self.num_layers * self.hidden_dim * self.num_heads * self.actual_head_size

    def flops_per_token(self, vocab_size: int, context_length: int) -> float:
        """Forward FLOPs a token: Llama's, and a multiplication and an addition for each weight of the gates."""
        return super().flops_per_token(vocab_size, context_length) + 2 * self._gate_weights()

    def total_trainable_params(self, vocab_size: int) -> int:
        return super().total_trainable_params(vocab_size) + self._gate_weights()
