"""Hardware: how many chips a name such as ``v5p-8`` or ``h100x8`` means, and what holding them counts and costs.

Hardware FLOPs are what the chips could have computed in the time that a run took them: seconds x chips x
peak. On a CPU there are none, and so no utilisation.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fray.types import TPU_TOPOLOGIES

from speedrun.accelerators import Accelerator, Price, accelerators, find_accelerator, unknown_accelerator
from speedrun.errors import SpeedrunError

MOST_CHIPS = 100_000
"""More than this is a slip of the finger."""
MOST_MFU = 0.9
"""More of the peak than any training run has held; above 1 it is impossible outright."""


@dataclass(frozen=True)
class HardwareSpec:
    """So many chips of one accelerator.

    ``str(spec)`` names it as `parse_hardware` reads it (``h100x8``, ``v5p-8``, ``cpu``), without the price.
    """

    accelerator: Accelerator
    chips: int
    hosts: int
    """Machines that each run one JAX process. For TPUs these are Cloud TPU VMs."""

    def __str__(self) -> str:
        if self.accelerator.family == "cpu":
            return "cpu"
        if self.accelerator.family == "gpu":
            return f"{self.accelerator.name}x{self.chips}"
        return next(each.name for each in _slices(self.accelerator.name) if each.chips == self.chips)


def hardware_flops(seconds: float, spec: HardwareSpec) -> float | None:
    """FLOPs that the hardware could have done at its dense bfloat16 peak: seconds x chips x peak; None on a CPU.

    Args:
        seconds: wall-clock seconds for which the chips were held, summed over the steps.

    Raises:
        ValueError: if the time is negative or not finite.
    """
    _check_seconds(seconds)
    peak = spec.accelerator.peak_flops_per_second
    return None if peak is None else seconds * spec.chips * peak


def price_usd(seconds: float, spec: HardwareSpec) -> float | None:
    """US dollars for holding the hardware so many seconds; None where no price is known.

    Raises:
        ValueError: if the time is negative or not finite.
    """
    _check_seconds(seconds)
    price = spec.accelerator.price
    return None if price is None else seconds / 3600 * spec.chips * price.usd_per_chip_hour


def _check_seconds(seconds: float) -> None:
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"seconds must be finite and not negative, got {seconds}")


def parse_hardware(text: str, known: Mapping[str, Accelerator] | None = None) -> list[HardwareSpec]:
    """The hardware that ``text`` names, several separated by commas, in the order given.

    GPUs are written ``h100``, ``h100x8``, ``8xH100`` or ``H100:8``; TPUs by their slice, ``v5p-8`` or
    ``v5litepod-4`` (``v5e-4``); ``cpu`` alone. ``@2.10`` after one sets its price in dollars per chip-hour.

    Args:
        known: the accelerators to choose from; `accelerators()` by default.

    Raises:
        SpeedrunError: for an unknown accelerator, a slice that doesn't exist or a count that can't be.
    """
    known = accelerators() if known is None else known
    return [_parse_one(part.strip(), text, known) for part in text.split(",")]


def _parse_one(part: str, text: str, known: Mapping[str, Accelerator]) -> HardwareSpec:
    what, at, price = part.partition("@")
    if not what.strip():
        raise SpeedrunError(f"a name of hardware is missing in {text!r}. Examples: h100x8, v5p-8, cpu.")
    name, count = _name_and_count(what.strip(), known)
    accelerator = find_accelerator(name, known)
    if slice_ := _SLICE.fullmatch(name.lower()):
        spec = _tpu(known[_FAMILY_OF_PREFIX[slice_["prefix"]]], slice_, count, part)
    elif accelerator is None:
        raise unknown_accelerator("accelerator", name, known)
    else:
        spec = _counted(accelerator, count, part)
    return _at_price(spec, price, part) if at else spec


def _name_and_count(what: str, known: Mapping[str, Accelerator]) -> tuple[str, str | None]:
    """Splits ``8xH100``, ``h100x8`` and ``H100:8``. An x may belong to the name: rtx4090, mi300x."""
    readings: list[tuple[str, str | None]] = [(what, None)]
    if before := re.fullmatch(r"([-+\d.]+)\s*[x×]\s*(.+)", what, re.IGNORECASE):
        readings.append((before[2], before[1]))
    if after := re.fullmatch(r"(.+?)\s*[x×:]\s*([-+\d.]+)", what, re.IGNORECASE):
        readings.append((after[1], after[2]))
    for name, count in readings:
        if find_accelerator(name, known) or _SLICE.fullmatch(name.lower()):
            return name, count
    # Unknown: the error shall name the chip without its count, yet "rtx5090" rather than "rt".
    chips = [reading for reading in readings if re.search(r"\d", reading[0])]
    return min(chips, key=lambda reading: len(reading[0]), default=readings[0])


def _counted(accelerator: Accelerator, count: str | None, part: str) -> HardwareSpec:
    if accelerator.family == "tpu":
        names = [each.name for each in _slices(accelerator.name)]
        raise SpeedrunError(f"{part!r}: a TPU is named by its slice. Slices of {accelerator.name}: {', '.join(names)}.")
    if accelerator.family == "cpu":
        if count is not None:
            raise SpeedrunError(f"{part!r}: cpu takes no count; it means this computer.")
        return HardwareSpec(accelerator, chips=1, hosts=1)
    chips = _whole_number(count or "1", part)
    per_host = accelerator.chips_per_host
    if chips > per_host and chips % per_host:
        raise SpeedrunError(
            f"{part!r}: {chips} chips don't fill machines of {per_host}. Take a multiple of {per_host}, or set "
            f"chips_per_host for {accelerator.name} in the hardware file."
        )
    return HardwareSpec(accelerator, chips, hosts=math.ceil(chips / per_host))


def _whole_number(count: str, part: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", count) or not 1 <= int(count) <= MOST_CHIPS:
        raise SpeedrunError(f"{part!r}: the number of chips must be a whole number from 1 to {MOST_CHIPS:,}.")
    return int(count)


def _at_price(spec: HardwareSpec, price: str, part: str) -> HardwareSpec:
    try:
        usd = float(price)
    except ValueError:
        usd = math.nan
    if not (math.isfinite(usd) and usd >= 0):
        raise SpeedrunError(f"{part!r}: after '@' stands a price in dollars per chip-hour, as in h100x8@2.10.")
    return replace(spec, accelerator=replace(spec.accelerator, price=Price(usd, "given with the hardware")))


# TPU slices. The number in a slice's name counts cores on v4 and v5p (two a chip) and chips on v5e and v6e:
# reading one for the other is an error of exactly 2 x. Fray's table says which slices Marin can run on.

_FAMILY_OF_PREFIX = {"v4": "v4", "v5e": "v5e", "v5litepod": "v5e", "v5p": "v5p", "v6e": "v6e"}
_CORES_PER_CHIP = {"v4": 2, "v5e": 1, "v5p": 2, "v6e": 1}
_SLICE = re.compile(rf"(?P<prefix>{'|'.join(_FAMILY_OF_PREFIX)})-(?P<size>\d+)")


@dataclass(frozen=True)
class _Slice:
    name: str
    chips: int
    hosts: int


def _slices(family: str) -> Iterator[_Slice]:
    for topology in TPU_TOPOLOGIES:
        if _FAMILY_OF_PREFIX.get(topology.name.rpartition("-")[0]) == family:
            yield _Slice(topology.name, topology.chip_count, topology.vm_count)


def _tpu(accelerator: Accelerator, name: re.Match[str], count: str | None, part: str) -> HardwareSpec:
    if count is not None:
        raise SpeedrunError(f"{part!r}: several slices at once aren't supported; take a larger slice.")
    slices = list(_slices(accelerator.name))
    for each in slices:
        if each.name.endswith(f"-{name['size']}"):
            return HardwareSpec(accelerator, each.chips, each.hosts)
    counted = "cores" if _CORES_PER_CHIP[accelerator.name] == 2 else "chips"
    raise SpeedrunError(
        f"{part!r}: there is no such slice. Slices of {accelerator.name}, by their number of {counted}: "
        f"{', '.join(each.name for each in slices)}."
    )
