"""Chips, hardware FLOPs and prices, against published runs and data sheets."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedrun.accelerators import accelerator_from_device_kind, accelerators
from speedrun.errors import SpeedrunError
from speedrun.hardware import hardware_flops, parse_hardware, price_usd

KNOWN = accelerators(Path(os.devnull))
"""The built-in ones alone."""


@pytest.fixture(autouse=True)
def no_declarations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the developer has declared for their own use must not reach the tests."""
    monkeypatch.delenv("SPEEDRUN_HARDWARE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


# Time and hardware FLOPs of runs on Marin's public speedrun board; the v5p ones as corrected in its issue 1756.
@pytest.mark.parametrize(
    ("hardware", "seconds", "published_flops"),
    [
        ("v5p-32", 911.8835150737759, 6.696872534701811e18),
        ("v5p-32", 1595.0118390480134, 1.171376694596861e19),
        ("v5p-32", 15936.208457253022, 1.170355149100662e20),
        ("v4-128", 111.63192389399967, 1.964721860534394e18),
        ("v4-256", 1115.86879359899, 3.927858153468445e19),
        ("v5litepod-64", 14494.589203668893, 1.827477806798574e20),
        ("h100x1", 3331.8479856066406, 3.296863581757771e18),
        ("h200x8", 50947.15530548012, 4.032976813981806e20),
        ("a100-40gx4", 1201.859431101475, 1.4999205700146406e18),
    ],
)
def test_published_runs_are_reproduced(hardware: str, seconds: float, published_flops: float) -> None:
    [spec] = parse_hardware(hardware)
    assert hardware_flops(seconds, spec) == pytest.approx(published_flops, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "peak_tflops", "memory_gib"),
    [
        ("h100", 989.5, 80),
        ("h100-pcie", 756.5, 80),
        ("h200", 989.5, 141),
        ("a100-40g", 312, 40),
        ("a100-80g", 312, 80),
        ("b200", 2250, 180),
        ("gb200", 2500, 186),
        ("l40s", 366.5, 48),
        ("rtx4090", 165.2, 24),
        ("rtx3090", 71, 24),
        ("w7900", 122.6, 48),
        ("mi300x", 1307.4, 192),
        ("v4", 275, 32),
        ("v5e", 197, 16),
        ("v5p", 459, 95),
        ("v6e", 918, 32),
    ],
)
def test_peak_and_memory_are_the_data_sheets(name: str, peak_tflops: float, memory_gib: int) -> None:
    assert KNOWN[name].peak_flops_per_second == pytest.approx(peak_tflops * 1e12)
    assert KNOWN[name].memory_bytes == memory_gib * 1024**3


# v4 and v5p count cores in a slice's name, two a chip; v5e and v6e count chips. Hosts are Cloud TPU VMs.
@pytest.mark.parametrize(
    ("text", "name", "chips", "hosts"),
    [
        ("h100", "h100x1", 1, 1),
        ("h100x8", "h100x8", 8, 1),
        ("8xH100", "h100x8", 8, 1),
        ("H100:8", "h100x8", 8, 1),
        ("8 x H100", "h100x8", 8, 1),
        ("h100x32", "h100x32", 32, 4),
        ("gb200x8", "gb200x8", 8, 2),
        ("A100-80GB:2", "a100-80gx2", 2, 1),
        ("RTX 4090", "rtx4090x1", 1, 1),
        ("2xrtx-4090", "rtx4090x2", 2, 1),
        ("4090x2", "rtx4090x2", 2, 1),
        ("mi300xx8", "mi300xx8", 8, 1),
        ("v4-8", "v4-8", 4, 1),
        ("v5p-8", "v5p-8", 4, 1),
        ("v5p-64", "v5p-64", 32, 8),
        ("v5e-4", "v5litepod-4", 4, 1),
        ("v5litepod-8", "v5litepod-8", 8, 1),
        ("v6e-8", "v6e-8", 8, 1),
        ("V6E-16", "v6e-16", 16, 4),
        ("cpu", "cpu", 1, 1),
    ],
)
def test_names_are_read_as_people_write_them(text: str, name: str, chips: int, hosts: int) -> None:
    [spec] = parse_hardware(text)
    assert (str(spec), spec.chips, spec.hosts) == (name, chips, hosts)


def test_several_are_separated_by_commas() -> None:
    assert [str(spec) for spec in parse_hardware("v5p-8, 8xH100,cpu")] == ["v5p-8", "h100x8", "cpu"]


GPUS = sorted(name for name, each in KNOWN.items() if each.family == "gpu")


@given(st.sampled_from(GPUS), st.integers(1, 3), st.sampled_from(["{n}x{c}", "{c}x{n}", "{n}:{c}", " {c} X {n} "]))
def test_a_gpu_reads_back_from_every_way_to_write_it(name: str, count: int, form: str) -> None:
    [spec] = parse_hardware(form.format(n=name.upper(), c=count))
    assert (spec.accelerator.name, spec.chips) == (name, count)
    assert parse_hardware(str(spec)) == [spec]


@given(st.sampled_from(["v4", "v5e", "v5litepod", "v5p", "v6e"]), st.integers(0, 13000))
def test_a_slice_reads_back_or_is_refused(prefix: str, size: int) -> None:
    try:
        [spec] = parse_hardware(f"{prefix}-{size}")
    except SpeedrunError as error:
        assert "Slices of" in str(error)
    else:
        assert spec.chips == (size // 2 if prefix in ("v4", "v5p") else size)
        assert parse_hardware(str(spec)) == [spec]


@given(st.text(max_size=40) | st.text("h1024v5p6ecua×xX8g-:@,. ", max_size=12))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        specs = parse_hardware(text)
    except SpeedrunError as error:
        assert str(error)
    else:
        assert parse_hardware(",".join(str(spec) for spec in specs)) is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("h10x8", "unknown accelerator 'h10'. Did you mean 'h100'"),
        ("rtx5090", "unknown accelerator 'rtx5090'. Did you mean 'rtx4090'"),
        ("auto", "unknown accelerator 'auto'"),
        ("a100", "say a100-40g or a100-80g"),
        ("v5p", "v5p-8, v5p-16"),
        ("v5px4", "v5p-8, v5p-16"),
        ("v5p-6", "by their number of cores: v5p-8"),
        ("v6e-2", "by their number of chips: v6e-1, v6e-4"),
        ("2xv5p-8", "several slices"),
        ("h100x0", "whole number from 1"),
        ("h100x-8", "whole number from 1"),
        ("h100x1.5", "whole number from 1"),
        ("h100x800000", "whole number from 1"),
        ("h100x" + "9" * 5000, "whole number from 1"),
        ("h100x12", "don't fill machines of 8"),
        ("cpux2", "cpu takes no count"),
        ("", "is missing"),
        ("h100,,cpu", "is missing"),
        ("h100@-1", "dollars per chip-hour"),
        ("h100@free", "dollars per chip-hour"),
    ],
)
def test_what_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(SpeedrunError) as error:
        parse_hardware(text)
    assert says in str(error.value)


def test_a_cpu_has_no_hardware_flops_and_no_price() -> None:
    [cpu] = parse_hardware("cpu")
    assert hardware_flops(60, cpu) is None
    assert price_usd(60, cpu) is None


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_time_that_cannot_be_is_refused(seconds: float) -> None:
    [spec] = parse_hardware("h100@1")
    with pytest.raises(ValueError, match="seconds"):
        hardware_flops(seconds, spec)
    with pytest.raises(ValueError, match="seconds"):
        price_usd(seconds, spec)


def test_price_is_per_chip_and_hour() -> None:
    [spec] = parse_hardware("h100x8@2.50")
    assert price_usd(1800, spec) == pytest.approx(10.0)  # half an hour of 8 chips at 2.50
    assert str(spec) == "h100x8"


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in ("cpu", "w7900")])
def test_every_default_price_says_whose_and_when(name: str) -> None:
    price = KNOWN[name].price
    assert price is not None and "list price" in price.source and "as of" in price.source


@pytest.mark.parametrize(
    ("device_kind", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-40GB", "a100-40g"),
        ("NVIDIA A100-SXM4-80GB", "a100-80g"),
        ("NVIDIA A100 80GB PCIe", "a100-80g"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("AMD Radeon PRO W7900", "w7900"),
        ("AMD Instinct MI300X", "mi300x"),
        ("TPU v4", "v4"),
        ("TPU v5 lite", "v5e"),
        ("TPU v5", "v5p"),
        ("TPU v5p", "v5p"),
        ("TPU v6 lite", "v6e"),
        ("cpu", "cpu"),
    ],
)
def test_jax_device_kinds_are_recognised(device_kind: str, name: str) -> None:
    assert accelerator_from_device_kind(device_kind).name == name


@pytest.mark.parametrize(
    "device_kind",
    [
        "NVIDIA H100 NVL",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA GH200 480GB",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA RTX A1000",
        "NVIDIA L40",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3090 Ti",
        "TPU v3",
        "TPU7x",
        "",
    ],
)
def test_a_chip_that_only_looks_like_a_known_one_is_refused(device_kind: str) -> None:
    with pytest.raises(SpeedrunError, match="peak_bf16_flops_per_second"):
        accelerator_from_device_kind(device_kind)


def write(folder: Path, text: str) -> Path:
    path = folder / "hardware.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_declared_accelerator_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path,
        """
        [accelerators.h100-nvl]
        peak_bf16_flops_per_second = 835.5e12
        source = "data sheet"
        device_kind = "NVIDIA H100 NVL"
        memory_gib = 94
        usd_per_chip_hour = 2.0
        chips_per_host = 4

        [accelerators.H200]
        usd_per_chip_hour = 1.5
        """,
    )
    monkeypatch.setenv("SPEEDRUN_HARDWARE", str(path))
    nvl, h200 = parse_hardware("h100-nvlx8,h200")
    assert (nvl.chips, nvl.hosts, nvl.accelerator.memory_bytes) == (8, 2, 94 * 1024**3)
    assert hardware_flops(10, nvl) == pytest.approx(6.684e16)
    assert price_usd(3600, nvl) == pytest.approx(16.0)
    assert price_usd(3600, h200) == pytest.approx(1.5)
    assert accelerator_from_device_kind("NVIDIA H100 NVL") == nvl.accelerator


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[accelerators.new]\npeak_bf16_flops_per_second = 1e15\n", "needs peak_bf16_flops_per_second and its source"),
        ("[accelerators.new]\nsource = 'hearsay'\n", "needs peak_bf16_flops_per_second and its source"),
        ("[accelerators.new]\npeak_bf16_flops_per_second = 0\nsource = 's'\n", "greater than 0"),
        ("[accelerators.new]\npeak = 1e15\n", "accelerators.new.peak"),
        ("[accelerators.h100]\npeak_bf16_flops_per_second = 1e15\n", "h100 is built in"),
        ("[accelerators.H-100]\npeak_bf16_flops_per_second = 1e15\n", "h100 is built in"),
        ("[accelerators.'a,b']\npeak_bf16_flops_per_second = 1e15\nsource = 's'\n", "can't name an accelerator"),
        ("[[[", "cannot read the hardware file"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SpeedrunError) as error:
        accelerators(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_a_file_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEEDRUN_HARDWARE", str(tmp_path / "absent.toml"))
    with pytest.raises(SpeedrunError, match=r"absent\.toml"):
        parse_hardware("h100")
