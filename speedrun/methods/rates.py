"""Learning rates carried along the ladders, for candidates that were tuned at one size of each."""

from speedrun.ladder import Rung

SHRINK = {
    "micro_1": 1.0,
    "micro_2": 0.5,
    "micro_3": 0.5,
    "micro_4": 0.375,
    "30m": 1.0,
    "75m": 1.0,
    "300m": 0.5,
    "1_4b": 0.25,
}
"""A rung's learning rate over that of its ladder's tuned size. Micro rungs: as AdamW's own sweeps went, at all four
(0.016, 0.008, 0.008, 0.006). The others: halved from 130M to 300M parameters and again to 1.2B, as the winners of
the public sweeps of Muon went (0.016, 0.008, 0.004)."""


def carried(rung: Rung, *, micro_1: float, at_130m: float) -> float:
    """The learning rate at ``rung`` of a method tuned at micro_1 and, publicly, at 130M parameters."""
    return (micro_1 if rung.is_micro else at_130m) * SHRINK[rung.name]
