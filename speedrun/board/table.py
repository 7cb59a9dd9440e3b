"""Records as the table that is scored (`speedrun.scoring.table.Run`), one ladder or one protocol at a time."""

from collections.abc import Iterable

import pandas as pd

from speedrun.board.records import PROTOCOL, Record
from speedrun.cost.conventions import TRAINING_PER_FORWARD, attention_flops_per_token, causal_span
from speedrun.records.legacy_rows import PROTOCOL as LEVANTER
from speedrun.records.schema import RunInfo

COLUMNS = (
    "candidate",
    "rung",
    "seed",
    "bits_per_byte",
    "model_flops",
    "protocol",
    "tokens_per_second",
    "throughput_problem",
    "flops_per_token",
    "hardware",
    "hardware_flops",
    "training_time_seconds",
)


def scored_table(records: Iterable[Record]) -> pd.DataFrame:
    """The rankable runs of one ladder by our own score.

    Args:
        records: of one ladder; flagged ones are left out.
    """
    rows = [_row(each, each.info.bits_per_byte, str(PROTOCOL)) for each in records if not each.flags]
    return pd.DataFrame(rows, columns=COLUMNS)


def levanter_table(records: Iterable[Record]) -> pd.DataFrame:
    """The same by the figure that Levanter logs on Paloma C4-EN, which alone compares with public rows."""
    rows = [
        _row(each, each.info.paloma_c4_en_bpb, LEVANTER)
        for each in records
        if not each.flags and each.info.paloma_c4_en_bpb is not None
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(record: Record, bits_per_byte: float, protocol: str) -> tuple[object, ...]:
    info = record.info
    return (
        record.candidate,
        record.rung,
        info.seed,
        bits_per_byte,
        info.model_flops,
        protocol,
        info.tokens_per_second,
        throughput_problem(info),
        TRAINING_PER_FORWARD * info.model_flops_per_token,
        hardware_of(info),
        info.training_hardware_flops,
        info.training_time,
    )


OTHERS_SHARE = 0.10
"""Of a machine's processor time: a run on the CPU beside which others used more is not timed."""


def throughput_problem(info: RunInfo) -> str:
    """Why the run's times tell nothing of its method: it ran on a CPU that others used too. Empty where they do.

    An accelerator is its run's own, and its step times hardly depend on what the host does beside them.
    """
    if info.device_flops is not None:
        return ""
    shares = [attempt.others_cpu_share for attempt in info.attempts]
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares):
        return "how much of its CPU other programs used is not on record"
    worst = max(known)
    return f"other programs used {worst:.0%} of its CPU meanwhile" if worst > OTHERS_SHARE else ""


def hardware_of(info: RunInfo) -> str:
    """What the run was trained on: empty where that is not on record, or changed from attempt to attempt."""
    named = {attempt.hardware for attempt in info.attempts}
    return named.pop() if len(named) == 1 else ""


def causal_flops(info: RunInfo) -> float | None:
    """Model FLOPs with attention counted over the half that a causal mask leaves.

    None where the record does not tell the size of the attention, or has windows.
    """
    model = info.model_configuration
    sizes = [model.get(name) for name in ("hidden_dim", "num_heads", "num_layers")]
    length = info.train_config.get("sequence_length")
    if model.get("sliding_window") is not None or not all(type(n) is int and 0 < n < 10**7 for n in (*sizes, length)):
        return None
    hidden, heads, layers = sizes
    unseen = attention_flops_per_token(hidden, heads, [length - causal_span(length)]) * layers
    causal = info.model_flops - TRAINING_PER_FORWARD * unseen * info.total_tokens
    return causal if causal > 0 else None
