"""Hours, chip-hours and dollars of a run and of a ladder, from model FLOPs and a hardware specification.

    seconds = model FLOPs / (chips x peak FLOP/s of a chip x MFU)

MFU (model FLOPs utilisation) is what nobody knows before the run, so that everything here is a range
over it. This module imports no jax.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec, price_usd
from speedrun.ladder import compute_6nd

SECONDS_PER_HOUR = 3600.0

MFU_ASSUMED = 0.40
"""The utilisation that estimates for one well-fed accelerator commonly assume."""

MFU_SEEN = {"30m": 0.044, "75m": 0.104, "300m": 0.212, "1_4b": 0.309}
"""Lowest MFU of a plain Llama on Marin's public board, by rung: model FLOPs over hardware FLOPs of its rows
llama_30m, llama_75m, llama_300m and llama_1_4B_8xH200 (the board's figures of 2025-12-21). Small models
fall far short of 40 %: their matrices are narrow and most of their work is the vocabulary's."""


@dataclass(frozen=True)
class Range:
    """A figure over the MFU range: ``low`` at the highest MFU, ``high`` at the lowest."""

    low: float
    high: float

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> "Range":
        return Range(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class RunPlan:
    """What one run takes on one allocation."""

    rung: str
    hardware: HardwareSpec
    model_flops: float
    mfu: Range
    """The utilisation that the ranges span."""
    hours: Range
    chip_hours: Range
    hardware_flops: Range
    """Seconds x chips x peak, as records count it."""
    usd: Range | None
    """None where the hardware has no price."""


@dataclass(frozen=True)
class LadderPlan:
    """The runs of a ladder, one after the other on the same allocation, and their totals."""

    runs: tuple[RunPlan, ...]
    model_flops: float
    hours: Range
    chip_hours: Range
    usd: Range | None


def mfu_range(rung: str) -> Range:
    """From the lowest MFU seen at this rung to 40 %; 10 to 40 % where nothing has been seen."""
    return Range(MFU_SEEN.get(rung, 0.10), MFU_ASSUMED)


def training_seconds(model_flops: float, *, chips: int, peak_flops_per_second: float, mfu: float) -> float:
    """Seconds of steady training.

    Raises:
        ValueError: if a figure is not positive or the MFU is above 1.
    """
    if not (model_flops > 0 and chips > 0 and peak_flops_per_second > 0 and 0 < mfu <= 1):
        raise ValueError(
            f"model FLOPs, chips and peak must be positive and MFU in (0, 1], got {model_flops}, {chips}, "
            f"{peak_flops_per_second}, {mfu}"
        )
    return model_flops / (chips * peak_flops_per_second * mfu)


def plan_run(rung: str, model_flops: float, hardware: HardwareSpec, mfu: Range | None = None) -> RunPlan:
    """What a run of ``model_flops`` takes on ``hardware``, over ``mfu`` (``mfu_range(rung)`` by default).

    Raises:
        SpeedrunError: for a CPU, whose peak is not known: its time can only be measured.
    """
    peak = hardware.accelerator.peak_flops_per_second
    if peak is None:
        raise SpeedrunError(f"no hours can be planned on {hardware}: it has no known peak; measure a few steps instead")
    mfu = mfu or mfu_range(rung)
    fast, slow = (
        training_seconds(model_flops, chips=hardware.chips, peak_flops_per_second=peak, mfu=value)
        for value in (mfu.high, mfu.low)
    )
    hours = Range(fast / SECONDS_PER_HOUR, slow / SECONDS_PER_HOUR)
    cheap, dear = price_usd(fast, hardware), price_usd(slow, hardware)
    return RunPlan(
        rung=rung,
        hardware=hardware,
        model_flops=model_flops,
        mfu=mfu,
        hours=hours,
        chip_hours=hours * hardware.chips,
        hardware_flops=Range(fast * hardware.chips * peak, slow * hardware.chips * peak),
        usd=None if cheap is None or dear is None else Range(cheap, dear),
    )


def plan_ladder(runs: Sequence[RunPlan]) -> LadderPlan:
    """Totals over ``runs``; no price unless every run has one.

    Raises:
        ValueError: for no runs at all.
    """
    if not runs:
        raise ValueError("a ladder without runs has no totals")
    priced = [run.usd for run in runs if run.usd is not None]
    return LadderPlan(
        runs=tuple(runs),
        model_flops=math.fsum(run.model_flops for run in runs),
        hours=sum((run.hours for run in runs), Range(0.0, 0.0)),
        chip_hours=sum((run.chip_hours for run in runs), Range(0.0, 0.0)),
        usd=sum(priced, Range(0.0, 0.0)) if len(priced) == len(runs) else None,
    )


@dataclass(frozen=True)
class RuleOfThumb:
    """How far C = 6 N D is from the model FLOPs of a token, and why. All in training FLOPs per token."""

    six_n: float
    model_flops: float
    input_embedding: float
    """Counted by 6 N although a lookup multiplies nothing."""
    attention: float
    """Scores and weighted sums, which involve no parameter and so are left out by 6 N."""
    other: float
    """What remains: norms, biases and the convention's softmax term."""

    @property
    def six_n_over_model_flops(self) -> float:
        """Above 1 where the rule of thumb overstates."""
        return self.six_n / self.model_flops


def rule_of_thumb(
    *, parameters: int, lookup_parameters: int, attention_flops_per_token: float, model_flops_per_token: float
) -> RuleOfThumb:
    """Take the difference between 6 N and the model FLOPs per token apart.

    Args:
        parameters: all of them, N.
        lookup_parameters: those of the input embedding; 0 where it is tied to the output head, which
            multiplies by them.
        attention_flops_per_token: training FLOPs of scores and weighted sums.
        model_flops_per_token: training FLOPs of everything.
    """
    six_n = compute_6nd(parameters, 1)
    embedding = compute_6nd(lookup_parameters, 1)
    return RuleOfThumb(
        six_n=six_n,
        model_flops=model_flops_per_token,
        input_embedding=embedding,
        attention=attention_flops_per_token,
        other=six_n - embedding + attention_flops_per_token - model_flops_per_token,
    )
