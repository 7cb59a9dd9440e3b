"""Accelerators: what one chip computes, holds and costs.

The peak is what hardware FLOPs are counted with, so an accelerator whose peak isn't known is an error,
never a zero and never another one's figure. A CPU has no peak that means anything here.

People declare accelerators that are missing, and their own prices, in a TOML file: the one that
``$SPEEDRUN_HARDWARE`` names, else ``speedrun/hardware.toml`` in ``$XDG_CONFIG_HOME`` (``~/.config``).
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fray.device_flops import DEVICE_FLOPS
from fray.types import TPU_HBM_BYTES_PER_CHIP
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError

from speedrun.errors import SpeedrunError, UnknownNameError

GIB = 2**30


@dataclass(frozen=True)
class Price:
    """What one chip costs for an hour."""

    usd_per_chip_hour: float
    source: str
    """Whose price, of which kind, as of when."""


@dataclass(frozen=True)
class Accelerator:
    """One kind of chip. A TPU chip is a chip, not a core: v4 and v5p have two cores a chip."""

    name: str
    family: Literal["cpu", "gpu", "tpu"]
    peak_flops_per_second: float | None
    """Dense (not sparse) bfloat16 peak of one chip in FLOP/s; None on a CPU."""
    peak_source: str
    memory_bytes: int | None
    """Memory of one chip as sold. Data sheets write GB and mean GiB; a process gets a few per cent less."""
    price: Price | None
    """The default price; None where no public one is known."""
    device_kind: str
    """Regular expression that matches the whole of jax's ``device_kind``, whatever its case."""
    chips_per_host: int = 8
    """For GPUs: how many of them one machine usually holds."""
    other_names: tuple[str, ...] = ()


# The table. Peaks come from fray where it has them, so that ours and Levanter's agree. Prices are what
# companies asked in public and are out of date by nature: they give an order of magnitude, and are shown
# with their source.

_GOOGLE = "Google Cloud TPU on-demand list price, US regions, as of 2025"
_RUNPOD = "RunPod, lowest on-demand list price, as of March 2026"


def _gpu(
    name: str, *, peak: float, source: str, memory_gib: int, price: Price | None, kind: str, **more
) -> Accelerator:
    return Accelerator(name, "gpu", peak, source, memory_gib * GIB, price, kind, **more)


def _tpu(name: str, *, fray_name: str, price: float, kind: str) -> Accelerator:
    return Accelerator(
        name=name,
        family="tpu",
        peak_flops_per_second=DEVICE_FLOPS[fray_name]["bf16"],
        peak_source=f"Google Cloud TPU documentation, {name}",
        memory_bytes=TPU_HBM_BYTES_PER_CHIP[name],
        price=Price(price, _GOOGLE),
        device_kind=kind,
    )


_BUILT_IN = (
    Accelerator("cpu", "cpu", None, "no peak that means anything here", None, None, "cpu", chips_per_host=1),
    _gpu(
        "h100",
        peak=DEVICE_FLOPS["h100"]["bf16"],
        source="NVIDIA H100 data sheet, SXM: 1,979 TFLOP/s with sparsity, halved",
        memory_gib=80,
        price=Price(2.69, _RUNPOD),
        kind=r"(nvidia )?h100( sxm5)?( 80gb( hbm3)?)?",
        other_names=("h100-sxm",),
    ),
    _gpu(
        "h100-pcie",
        peak=DEVICE_FLOPS["h100-pcie"]["bf16"],
        source="NVIDIA H100 data sheet of 2022, PCIe: 1,513 TFLOP/s with sparsity, halved",
        memory_gib=80,
        price=Price(1.99, _RUNPOD),
        kind=r"(nvidia )?h100 pcie",
    ),
    _gpu(
        "h200",
        peak=DEVICE_FLOPS["h200"]["bf16"],
        source="NVIDIA H200 data sheet, SXM: 1,979 TFLOP/s with sparsity, halved",
        memory_gib=141,
        price=Price(3.59, _RUNPOD),
        kind=r"(nvidia )?h200",
    ),
    _gpu(
        "a100-40g",
        peak=DEVICE_FLOPS["a100-40g"]["bf16"],
        source="NVIDIA A100 data sheet",
        memory_gib=40,
        price=Price(1.29, "Lambda on-demand list price, as of 2025"),
        kind=r"(nvidia )?a100-(sxm4?|pcie)-40gb",
        other_names=("a100-40gb",),
    ),
    _gpu(
        "a100-80g",
        peak=DEVICE_FLOPS["a100-80g"]["bf16"],
        source="NVIDIA A100 data sheet",
        memory_gib=80,
        price=Price(1.39, _RUNPOD),
        kind=r"(nvidia )?a100(-sxm4?-80gb| 80gb pcie|-pcie-80gb)",
        other_names=("a100-80gb",),
    ),
    _gpu(
        # Fray gives the B200 the GB200's figure, which is 11 % higher.
        "b200",
        peak=4.5e15 / 2,
        source="NVIDIA HGX B200 data sheet, 1,000 W: 4.5 PFLOP/s with sparsity, halved",
        memory_gib=180,
        price=Price(5.98, _RUNPOD),
        kind=r"(nvidia )?b200",
    ),
    _gpu(
        "gb200",
        peak=DEVICE_FLOPS["b200"]["bf16"],
        source="NVIDIA GB200 NVL72: 360 PFLOP/s with sparsity for 72 GPUs, halved",
        memory_gib=186,
        price=Price(10.50, "CoreWeave list price ($42.00 for four), as of 2025"),
        kind=r"(nvidia )?gb200",
        chips_per_host=4,
    ),
    _gpu(
        "l40s",
        peak=DEVICE_FLOPS["l40s"]["bf16"],
        source="NVIDIA L40S data sheet: 733 TFLOP/s with sparsity, halved",
        memory_gib=48,
        price=Price(0.79, _RUNPOD),
        kind=r"(nvidia )?l40s",
    ),
    _gpu(
        "rtx4090",
        peak=165.2e12,
        source="NVIDIA Ada GPU architecture white paper, FP32 accumulation",
        memory_gib=24,
        price=Price(0.34, _RUNPOD),
        kind=r"(nvidia )?geforce rtx 4090",
        other_names=("4090",),
    ),
    _gpu(
        "rtx3090",
        peak=71e12,
        source="NVIDIA GA102 GPU architecture white paper, FP32 accumulation",
        memory_gib=24,
        price=Price(0.22, _RUNPOD),
        kind=r"(nvidia )?geforce rtx 3090",
        other_names=("3090",),
    ),
    _gpu(
        "w7900",
        peak=122.6e12,
        source="AMD Radeon PRO W7900 specifications: half precision matrix peak",
        memory_gib=48,
        price=None,
        kind=r"(amd )?radeon pro w7900( dual slot)?",
    ),
    _gpu(
        "mi300x",
        peak=DEVICE_FLOPS["mi300x"]["bf16"],
        source="AMD Instinct MI300X data sheet",
        memory_gib=192,
        price=Price(2.49, "RunPod on-demand list price, as of 2025"),
        kind=r"(amd )?instinct mi300x( oam| vf)?",
    ),
    _tpu("v4", fray_name="v4", price=3.22, kind=r"tpu v4"),
    _tpu("v5e", fray_name="v5litepod", price=1.20, kind=r"tpu v5( lite|e|litepod)"),
    _tpu("v5p", fray_name="v5p", price=4.20, kind=r"tpu v5p?"),
    _tpu("v6e", fray_name="v6e", price=2.70, kind=r"tpu v6( lite|e)"),
)


# What people declare themselves.

_EXAMPLE = """\
[accelerators.my-gpu]
peak_bf16_flops_per_second = 3.5e14   # dense, one chip
source = "data sheet of my-gpu, 2026"
device_kind = "Maker My GPU"          # optional: what jax.devices()[0].device_kind prints
memory_gib = 64                       # optional
usd_per_chip_hour = 1.10              # optional
chips_per_host = 8                    # optional"""


class _Declared(BaseModel):
    """One table of the user's file."""

    model_config = ConfigDict(extra="forbid")
    peak_bf16_flops_per_second: PositiveFloat | None = None
    source: str | None = None
    device_kind: str | None = None
    memory_gib: PositiveFloat | None = None
    usd_per_chip_hour: NonNegativeFloat | None = None
    chips_per_host: PositiveInt | None = None


class _DeclarationFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    accelerators: dict[str, _Declared] = {}


def declaration_file() -> Path:
    """Where the user's own accelerators and prices are looked for; it needn't exist."""
    if named := os.environ.get("SPEEDRUN_HARDWARE"):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "speedrun" / "hardware.toml"


def accelerators(path: Path | None = None) -> dict[str, Accelerator]:
    """Every known accelerator by name: the built-in ones, and what the file at ``path`` adds or reprices.

    Args:
        path: the user's file; `declaration_file()` by default, and there nothing need be.

    Raises:
        SpeedrunError: if the file is missing where one is named, or says something that it can't.
    """
    known = {accelerator.name: accelerator for accelerator in _BUILT_IN}
    must_exist = path is not None or bool(os.environ.get("SPEEDRUN_HARDWARE"))
    path = path or declaration_file()
    if not path.exists() and not must_exist:
        return known
    try:
        declared = _DeclarationFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpeedrunError(f"cannot read the hardware file {path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SpeedrunError(f"{path}: {where}: {first['msg']}. An example:\n{_EXAMPLE}") from error
    for name, entry in declared.accelerators.items():
        built_in = find_accelerator(name, known)
        accelerator = _repriced(built_in, entry, path) if built_in else _declared(name, entry, path)
        known[accelerator.name] = accelerator
    return known


def find_accelerator(name: str, known: Mapping[str, Accelerator]) -> Accelerator | None:
    """The accelerator of this name, however it is spelled (``RTX 4090``, ``rtx-4090``); None if there is none."""
    wanted = re.sub(r"[\s_-]", "", name.lower())
    for accelerator in known.values():
        if wanted in {re.sub("-", "", each) for each in (accelerator.name, *accelerator.other_names)}:
            return accelerator
    return None


def unknown_accelerator(kind: str, name: str, known: Mapping[str, Accelerator]) -> SpeedrunError:
    """The error for an accelerator that nobody has declared; it says how to."""
    variants = [each for each in known if each.startswith(f"{name.lower()}-")]
    if variants:
        return SpeedrunError(f"{kind} {name!r} is not enough: say {' or '.join(variants)}.")
    advice = f"Or declare its peak and where you have it from in {declaration_file()}:\n{_EXAMPLE}"
    return UnknownNameError(kind, name, known, advice=advice)


def accelerator_from_device_kind(device_kind: str, known: Mapping[str, Accelerator] | None = None) -> Accelerator:
    """The accelerator that jax calls ``device_kind`` (``NVIDIA H100 80GB HBM3``, ``TPU v5 lite``, ``cpu``).

    The whole name must match: an RTX 4090 Laptop GPU, an H100 NVL or a slice of an H100 is another chip.

    Raises:
        SpeedrunError: if none matches, saying how to declare it.
    """
    known = accelerators() if known is None else known
    for accelerator in known.values():
        if re.fullmatch(accelerator.device_kind, device_kind.strip(), re.IGNORECASE):
            return accelerator
    raise unknown_accelerator("device kind", device_kind, known)


def _repriced(accelerator: Accelerator, entry: _Declared, path: Path) -> Accelerator:
    # A peak that anybody can redefine would make hardware FLOPs incomparable between records.
    fixed = entry.model_fields_set - {"usd_per_chip_hour", "chips_per_host", "source"}
    if fixed:
        raise SpeedrunError(
            f"{path}: {accelerator.name} is built in; only its usd_per_chip_hour and chips_per_host can be set, not "
            f"{', '.join(sorted(fixed))}. For another chip, declare another name."
        )
    price = accelerator.price
    if entry.usd_per_chip_hour is not None:
        price = Price(entry.usd_per_chip_hour, entry.source or f"declared in {path.name}")
    return replace(accelerator, price=price, chips_per_host=entry.chips_per_host or accelerator.chips_per_host)


def _declared(name: str, entry: _Declared, path: Path) -> Accelerator:
    if not re.fullmatch(r"[a-z][a-z0-9-]*[a-z0-9]", name):
        raise SpeedrunError(f"{path}: {name!r} can't name an accelerator: use a-z, 0-9 and '-', as in 'my-gpu'.")
    if entry.peak_bf16_flops_per_second is None or entry.source is None:
        raise SpeedrunError(f"{path}: {name} needs peak_bf16_flops_per_second and its source. An example:\n{_EXAMPLE}")
    return Accelerator(
        name=name,
        family="gpu",
        peak_flops_per_second=entry.peak_bf16_flops_per_second,
        peak_source=entry.source,
        memory_bytes=None if entry.memory_gib is None else round(entry.memory_gib * GIB),
        price=None if entry.usd_per_chip_hour is None else Price(entry.usd_per_chip_hour, f"declared in {path.name}"),
        device_kind=re.escape(entry.device_kind or name),
        chips_per_host=entry.chips_per_host or 8,
    )
