"""Rules about hardware: which chips, how many, their peak, and what holding them counts."""

from collections.abc import Iterator
from functools import partial

from speedrun.hardware import MOST_MFU
from speedrun.submission.rule import CLOSE, Fault, Rule, Severity, close, show
from speedrun.submission.subjects import RunCase

ROUNDING_SECONDS = 5e-5
"""A step log's durations are rounded to 0.1 ms."""


def hardware_known(run: RunCase) -> Iterator[Fault]:
    """The hardware is one whose peak this project knows; otherwise the peak on record is its author's word."""
    name = run.info.resources.get("hardware")
    if run.world.hardware(name) is None:
        yield Fault("resources.hardware", f"hardware FLOPs unverified: the peak of {show(name)} is not known here")


def chips(run: RunCase) -> Iterator[Fault]:
    """Chips, devices, hosts and accelerator are those of the hardware named, in every attempt. A TPU's cores are not
    its chips."""
    info = run.info
    spec = run.world.hardware(info.resources.get("hardware"))
    if spec is not None:
        for name, said, right in (
            ("num_chips", info.num_chips, spec.chips),
            ("num_devices", info.num_devices, spec.chips),
            ("resources.hosts", info.resources.get("hosts"), spec.hosts),
            ("resources.accelerator", info.resources.get("accelerator"), spec.accelerator.name),
        ):
            if said != right:
                cores = " (cores are not chips)" if said == 2 * spec.chips and "num" in name else ""
                yield Fault(name, f"{show(said)}; {spec} has {show(right)}{cores}")
    for at, attempt in enumerate(info.attempts):
        own = run.world.hardware(attempt.hardware)
        if own is not None and attempt.num_chips != own.chips:
            yield Fault(f"attempts[{at}].num_chips", f"{attempt.num_chips}; {own} has {own.chips}")
    if info.attempts and info.attempts[-1].hardware != info.resources.get("hardware"):
        yield Fault("resources.hardware", f"the last attempt ran on {show(info.attempts[-1].hardware)}")


def peak(run: RunCase) -> Iterator[Fault]:
    """The peak is that of the accelerator named, and there is none on a CPU."""
    spec, said = run.world.hardware(run.info.resources.get("hardware")), run.info.device_flops
    if spec is None:
        if said is None or said <= 0:
            yield Fault("device_flops", f"{show(said)}: hardware that this project does not know needs its peak")
        return
    right = spec.accelerator.peak_flops_per_second
    if said == right:
        return
    of = [each.name for each in run.world.accelerators.values() if said and each.peak_flops_per_second == said]
    whose = f", which is {' and '.join(of)}'s peak," if of else ""
    should = "has none" if right is None else f"has {right:.4g}"
    yield Fault("device_flops", f"{show(said)}{whose} and {spec.accelerator.name} {should}")


def _rates(run: RunCase) -> dict[int, float | None]:
    """Peak FLOP/s of all chips of each attempt, by number; None where there is no peak."""
    rates: dict[int, float | None] = {}
    for attempt in run.info.attempts:
        spec = run.world.hardware(attempt.hardware)
        of_chip = run.info.device_flops if spec is None else spec.accelerator.peak_flops_per_second
        rates[attempt.number] = None if of_chip is None else attempt.num_chips * of_chip
    return rates


def hardware_flops(run: RunCase) -> Iterator[Fault]:
    """Hardware FLOPs are step seconds, times chips, times peak, each step with the hardware of its attempt; there are
    none on a CPU."""
    said, rates, name = run.info.training_hardware_flops, _rates(run), "training_hardware_flops"
    known = [rate for rate in rates.values() if rate is not None]
    if not rates:
        return
    if len(known) < len(rates):
        if said is not None:
            yield Fault(name, f"{said:.6g}, where a CPU has no peak to count with")
        return
    fault = partial("{}; {} seconds x chips x peak make it {}".format, f"{said:.6g}" if said is not None else "null")
    seconds = run.info.training_time
    if said is None:
        yield Fault(name, fault(f"{seconds:.6g}", f"{seconds * max(known):.6g}"))
    elif min(known) == max(known):
        if not close(said, seconds * known[0]):
            yield Fault(name, fault(f"{seconds:.6g}", f"{seconds * known[0]:.6g}"))
    elif len(run.log.step) == run.info.step_log.steps and set(run.log.attempt) <= set(rates):
        per_step = zip(run.log.seconds, run.log.attempt, strict=True)
        expected = sum(took * (rates[attempt] or 0.0) for took, attempt in per_step)
        if abs(said - expected) > ROUNDING_SECONDS * len(run.log.step) * max(known) + CLOSE * expected:
            yield Fault(name, fault(f"{seconds:.6g}", f"{expected:.6g}"))
    elif not min(known) * seconds * (1 - CLOSE) <= said <= max(known) * seconds * (1 + CLOSE):
        low, high = min(known) * seconds, max(known) * seconds
        yield Fault(name, fault(f"{seconds:.6g}", f"{low:.6g} to {high:.6g}"))


def utilisation(run: RunCase) -> Iterator[Fault]:
    """MFU is model FLOPs over peak FLOPs of the steady time, and no more than a run has ever held."""
    info = run.info
    if info.device_flops is None or info.steady_time <= 0 or info.num_chips <= 0 or info.device_flops <= 0:
        if info.mfu is not None:
            yield Fault("mfu", f"{info.mfu:.4g}, where there is no peak to count with")
        return
    expected = info.model_flops / (info.steady_time * info.num_chips * info.device_flops)
    if info.mfu is None or not close(info.mfu, expected):
        yield Fault("mfu", f"{show(info.mfu)}; model FLOPs, steady time and peak make it {expected:.6g}")
    elif expected > MOST_MFU:
        yield Fault("mfu", f"{expected:.1%} of the peak; no training run holds more than {MOST_MFU:.0%}")


HARDWARE_RULES: tuple[Rule[RunCase], ...] = (
    Rule("hardware-known", Severity.NOTE, hardware_known),
    Rule("chips", Severity.ERROR, chips),
    Rule("peak", Severity.ERROR, peak),
    Rule("hardware-flops", Severity.ERROR, hardware_flops),
    Rule("utilisation", Severity.ERROR, utilisation),
)
