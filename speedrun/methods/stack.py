"""What Open Athena's recipe of May 2026 puts on top of its experts: MuonH on all matrices, and partial key offset."""

from dataclasses import dataclass

from levanter.models.lm_model import LmConfig
from levanter.optim.muonh import MuonHConfig

from speedrun.ladder import Rung
from speedrun.methods.moe import RoutedLlamaConfig
from speedrun.methods.offset import OffsetLlamaConfig
from speedrun.methods.rates import carried


@LmConfig.register_subclass("llama_routed_offset")
@dataclass(frozen=True)
class RoutedOffsetLlamaConfig(RoutedLlamaConfig, OffsetLlamaConfig):
    """A mixture of experts with partial key offset."""


def muonh(rung: Rung) -> MuonHConfig:
    """MuonH at the rates of the dense model's: swept at micro_1, Kaiyue Wen's at 130M, carried to the other rungs.

    Each expert's matrix is orthogonalised by itself. Levanter holds the norm of what it updates as one array: that of a
    layer's experts together where layers are stacked.
    """
    matrices = carried(rung, micro_1=0.08, at_130m=0.02)
    return MuonHConfig(learning_rate=matrices, adam_lr=carried(rung, micro_1=0.016, at_130m=0.0046), warmup=0.01)
