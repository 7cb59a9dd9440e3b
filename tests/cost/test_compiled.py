"""Memory of the compiled step: what is said of it, what is kept, and (slow) real compilers."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from levanter.models.llama import LlamaConfig
from levanter.optim.config import AdamConfig

from speedrun.cost import compiled
from speedrun.cost.compile_worker import _exhausted
from speedrun.cost.compiled import CompiledMemory, cache_key, compile_for
from speedrun.cost.targets import target_for
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec, parse_hardware
from speedrun.ladder import LADDER
from speedrun.project import Project

GIB = 2**30
TINY = Workload(
    LlamaConfig(max_seq_len=64, hidden_dim=32, intermediate_dim=64, num_layers=2, num_heads=2, num_kv_heads=2),
    AdamConfig(),
    vocab_size=512,
    sequence_length=64,
    batch_size=8,
)


def hardware(name: str) -> HardwareSpec:
    return parse_hardware(name)[0]


def memory(
    needed_gib: float | None, *, platform: str = "cuda", capacity_gib: float = 80, **more: object
) -> CompiledMemory:
    needed = None if needed_gib is None else round(needed_gib * GIB)
    fields = {"refused": "", "note": "", "compile_seconds": 1.0} | more
    return CompiledMemory("h100x1", 1, platform, round(capacity_gib * GIB), needed, needed, 0, **fields)


def test_a_gpu_is_compared_with_its_memory_since_its_compiler_is_silent() -> None:
    assert memory(94.04).verdict == "does not fit: 94.04 GiB of 80.00 GiB on each of 1 chip(s) of h100x1"
    assert not memory(94.04).fits
    assert memory(30.8).verdict == "fits: 30.80 GiB of 80.00 GiB on each of 1 chip(s) of h100x1"
    # JAX takes 60 of the 80 GiB unless told otherwise.
    assert memory(70).fits and "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95" in memory(70).verdict


def test_a_tpu_compiler_decides_by_itself() -> None:
    refused = memory(23.57, platform="tpu", capacity_gib=15.75, refused="RESOURCE_EXHAUSTED: ...")
    assert not refused.fits
    assert refused.verdict.startswith("does not fit: at least 23.57 GiB of 15.75 GiB")
    assert memory(16.5, platform="tpu", capacity_gib=16).fits
    assert "does not fit: more of" in memory(None, platform="tpu", refused="RESOURCE_EXHAUSTED").verdict


def test_a_figure_from_the_cpu_is_called_approximate() -> None:
    approximate = memory(10.4, platform="cpu", note="libtpu could not be installed")
    assert approximate.is_approximate and "about 10.40 GiB" in approximate.verdict
    assert not memory(100, platform="cpu", note="...").fits


def test_the_compilers_own_figures_are_read_from_its_refusal() -> None:
    for message in (
        "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Used 23.57G of 15.75G hbm. Exceeded by 7.82G",
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (23.57G) exceeds "
        "available HBM (15.75G). HLO module: jit_of_arrays.",
    ):
        said = _exhausted(message)
        assert (said["needed_bytes"], said["limit_bytes"]) == (round(23.57 * GIB), round(15.75 * GIB))
    assert _exhausted("RESOURCE_EXHAUSTED: no figures")["needed_bytes"] is None


def test_results_are_kept_by_what_they_depend_on() -> None:
    v5p, h100 = target_for(hardware("v5p-8")), target_for(hardware("h100x8"))
    larger = dataclasses.replace(TINY, batch_size=16)
    wider = dataclasses.replace(TINY, model=dataclasses.replace(TINY.model, hidden_dim=64))
    keys = [cache_key(TINY, v5p), cache_key(TINY, h100), cache_key(larger, v5p), cache_key(wider, v5p)]
    assert len(set(keys)) == 4
    assert cache_key(dataclasses.replace(TINY), v5p) == keys[0]

    class Renamed(LlamaConfig):
        pass

    same_fields = Renamed(**{f.name: getattr(TINY.model, f.name) for f in dataclasses.fields(LlamaConfig)})
    assert cache_key(dataclasses.replace(TINY, model=same_fields), v5p) != keys[0]


def test_a_kept_result_is_read_without_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    kept = tmp_path / f"{cache_key(TINY, target_for(hardware('h100x1')))}.json"
    kept.write_text(json.dumps(dataclasses.asdict(memory(1.5))))
    assert compile_for(TINY, hardware("h100x1"), folder=tmp_path) == memory(1.5)


def test_a_candidate_is_compiled_at_its_rung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Workload, str]] = []

    def answer(workload: Workload, spec: HardwareSpec, **_: object) -> CompiledMemory:
        asked.append((workload, str(spec)))
        return memory(94.04)

    monkeypatch.setattr(compiled, "compile_for", answer)
    project = Project(Path(__file__).parents[2])
    row = compiled.compile_candidate(project, "adamw", LADDER["75m"], parse_hardware("h100x1")[0], lambda _: None)
    ((workload, target),) = asked
    assert (workload.model.hidden_dim, workload.vocab_size, workload.batch_size, target) == (
        256,
        128_256,
        512,
        "h100x1",
    )
    assert not row["fits"]
    assert row["text"] == "75m: does not fit: 94.04 GiB of 80.00 GiB on each of 1 chip(s) of h100x1"
    assert json.loads(json.dumps(row)) == row


def test_a_plug_in_that_cannot_be_had_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = dataclasses.replace(target_for(hardware("v5p-8")), requirements=("no-such-compiler==0.0.1",))
    monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(compiled.PluginError, match="no-such-compiler==0.0.1 could not be installed"):
        compiled.install_plugin(unknown, tmp_path / "compilers", lambda _: None)
    assert [path.suffix for path in (tmp_path / "compilers").iterdir()] == [".lock"]


@pytest.mark.slow
def test_without_the_plug_in_the_cpu_answers_approximately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_plugin(*_: object) -> Path:
        raise compiled.PluginError("there is no network")

    monkeypatch.setattr(compiled, "install_plugin", no_plugin)
    told: list[str] = []
    result = compile_for(TINY, hardware("v5p-8"), folder=tmp_path, progress=told.append)
    assert (result.platform, result.note, result.chips) == ("cpu", "there is no network", 4)
    assert result.is_approximate and result.fits
    assert "there is no network" in told[0] and len(told) > 3
    # Twelve bytes a parameter over four chips, and a batch of eight.
    parameters = 2 * 512 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32
    assert result.arguments_bytes == pytest.approx(12 * parameters / 4 + 3 * 4 * 8 * 64 / 4, rel=0.02)
    uneven = compile_for(dataclasses.replace(TINY, batch_size=5), hardware("v5p-8"), folder=tmp_path)
    assert uneven.arguments_bytes == result.arguments_bytes  # five sequences are filled up to eight
    # An approximate figure is not kept: the plug-in may be there next time.
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_step_that_does_not_compile_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "install_plugin", lambda *_: (_ for _ in ()).throw(compiled.PluginError("none")))
    odd = dataclasses.replace(TINY, model=dataclasses.replace(TINY.model, hidden_dim=36))
    with pytest.raises(SpeedrunError, match="could not be compiled: .*36"):
        compile_for(odd, hardware("v5p-16"), folder=tmp_path)


LARGE = Workload(
    LlamaConfig(max_seq_len=4096, hidden_dim=2048, intermediate_dim=7168, num_layers=16, num_heads=16, num_kv_heads=8),
    AdamConfig(),
    vocab_size=128_256,
    sequence_length=4096,
    batch_size=128,
)


needs_plugins = pytest.mark.skipif(
    "SPEEDRUN_COMPILERS" not in os.environ,
    reason="SPEEDRUN_COMPILERS names no folder with the compilers' plug-ins, which are gigabytes",
)


@needs_plugins
@pytest.mark.slow
@pytest.mark.parametrize(("target", "limit_gib"), [("h100x1", 80), ("v5e-4", 15.75)])
def test_the_largest_rung_at_batch_128_does_not_fit(tmp_path: Path, target: str, limit_gib: float) -> None:
    result = compile_for(LARGE, hardware(target), folder=tmp_path)
    assert not result.is_approximate and not result.fits
    assert result.capacity_bytes / GIB == pytest.approx(limit_gib, abs=0.01)
    assert "does not fit" in result.verdict
    if target == "h100x1":
        assert result.needed_bytes / GIB == pytest.approx(94, abs=6)


@needs_plugins
@pytest.mark.slow
@pytest.mark.parametrize("target", ["v5p-8", "h100x8"])
def test_state_is_twelve_bytes_a_parameter_on_real_compilers(tmp_path: Path, target: str) -> None:
    # Wide enough that a TPU's tiles, to which it fills up every array, do not matter.
    shape = {"max_seq_len": 128, "hidden_dim": 512, "intermediate_dim": 1024, "num_layers": 2}
    model = LlamaConfig(**shape, num_heads=4, num_kv_heads=4)
    step = dataclasses.replace(TINY, model=model, vocab_size=2048, sequence_length=128)
    result = compile_for(step, hardware(target), folder=tmp_path)
    parameters = 2 * 2048 * 512 + 2 * (4 * 512 * 512 + 3 * 512 * 1024 + 2 * 512) + 512
    batch = 3 * 4 * 8 * 128
    assert not result.is_approximate and result.fits
    assert result.arguments_bytes == pytest.approx((12 * parameters + batch) / result.chips, rel=0.02)


def test_importing_the_parent_side_imports_no_jax() -> None:
    code = "import sys, speedrun.cost.compiled; print([m for m in sys.modules if m in ('jax', 'levanter', 'marin')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
