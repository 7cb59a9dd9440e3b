"""Memory of the real training step, compiled for hardware that is not there.

Levanter's own step is compiled by the TPU's or GPU's own compiler, which needs no device, only the plug-in
that holds it. The plug-in is fetched once, into a folder of its own, and put on the path of a process of its
own that does the compiling; this environment stays as it is. Where the plug-in cannot be had, the step is
compiled for as many CPU devices instead, and the figure is called approximate.

This module imports no jax.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from speedrun.cost.compile_worker import CompileJob
from speedrun.cost.targets import GIB, GPU_MEMORY_FRACTION, Target, target_for
from speedrun.cost.workload import Workload
from speedrun.errors import SpeedrunError
from speedrun.hardware import HardwareSpec
from speedrun.identity import canonical, computing_versions, sha256_of_json
from speedrun.ladder import Rung
from speedrun.project import Project
from speedrun.records.store import write_json_atomically

CACHE_FORMAT = 1
"""Raised when the compiled program or the meaning of a cached figure changes."""

PLUGIN_SIZES = {"tpu": "0.7 GB", "cuda": "3.8 GB"}

Progress = Callable[[str], None]


class PluginError(SpeedrunError):
    """A compiler's plug-in could not be installed."""


@dataclass(frozen=True)
class CompiledMemory:
    """What a compiled training step takes on each chip."""

    target: str
    chips: int
    platform: str
    """"tpu", "cuda", or "cpu" where the figure is approximate."""
    capacity_bytes: int
    """Memory of one chip of the target; for a TPU that it refused, what the compiler says may be used."""
    needed_bytes: int | None
    """Arguments, results that are not arguments written over, temporaries and code. Where a TPU's compiler
    refuses: what it names, which is the least; None where it names nothing."""
    arguments_bytes: int | None
    """Model, optimizer state and batch."""
    temporaries_bytes: int | None
    refused: str
    """The compiler's own message where it does not fit; empty where it compiled."""
    note: str
    """Why the figure is approximate; empty where it is not."""
    compile_seconds: float | None

    @property
    def is_approximate(self) -> bool:
        """Whether another compiler than the target's own was used. Against an H100's it read 32 % high at 1.4 B
        parameters and 26 % low at 30 M."""
        return self.platform == "cpu"

    @property
    def fits(self) -> bool:
        """Whether the step fits into the chip's memory. A GPU's compiler does not say, so it is compared here."""
        if self.refused or self.needed_bytes is None:
            return False
        # A TPU's compiler knows its memory and refuses by itself.
        return self.platform == "tpu" or self.needed_bytes <= self.capacity_bytes

    @property
    def verdict(self) -> str:
        """One line: whether it fits, with the numbers."""
        needed = "more" if self.needed_bytes is None else f"{self.needed_bytes / GIB:.2f} GiB"
        figures = f"{needed} of {self.capacity_bytes / GIB:.2f} GiB on each of {self.chips} chip(s) of {self.target}"
        about = "about " if self.is_approximate else "at least " if self.refused and self.needed_bytes else ""
        if not self.fits:
            return f"does not fit: {about}{figures}"
        assert self.needed_bytes is not None
        if self.platform == "cuda" and self.needed_bytes > GPU_MEMORY_FRACTION * self.capacity_bytes:
            return (
                f"fits, but not into the {GPU_MEMORY_FRACTION:.0%} of it that JAX takes by default: {figures}; set "
                "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95"
            )
        return f"fits: {about}{figures}"


def compile_candidate(
    project: Project,
    name: str,
    rung: Rung,
    target: HardwareSpec,
    progress: Progress,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compile the step of candidate ``name`` at ``rung`` for ``target``: every figure, ``fits`` and ``text``.

    Args:
        overrides: fields of the recipe that are set to something else.

    Raises:
        SpeedrunError: for hardware that cannot be compiled for, or a step that does not compile.
    """
    from speedrun.catalog import load_candidate
    from speedrun.cost.workload import workload_of
    from speedrun.overrides import apply_overrides

    progress(f"loading {name}")
    recipe = apply_overrides(load_candidate(project, name).recipe(rung), overrides or {})
    workload = workload_of(recipe, recipe.vocab_size(rung))
    memory = compile_for(workload, target, folder=project.work / "cache" / "compiled", progress=progress)
    text = f"{rung.name}: {memory.verdict}"
    if memory.is_approximate:
        text += f". Approximate: compiled for {memory.chips} CPU devices instead, since {memory.note}"
    return {"rung": rung.name, **dataclasses.asdict(memory), "fits": memory.fits, "text": text}


def compile_for(
    workload: Workload, spec: HardwareSpec, *, folder: Path, progress: Progress = lambda _: None
) -> CompiledMemory:
    """Compile the training step of ``workload`` for ``spec``, or read what compiling it said before.

    Args:
        folder: where results are kept.
        progress: called with a line of text whenever something that takes time begins.

    Raises:
        SpeedrunError: for hardware that cannot be compiled for, or a step that does not compile.
    """
    target = target_for(spec)
    kept = folder / f"{cache_key(workload, target)}.json"
    if kept.exists():
        return CompiledMemory(**json.loads(kept.read_text()))
    try:
        plugin = install_plugin(target, plugins_folder(), progress)
    except PluginError as error:
        progress(f"{error}; compiling for {target.chips} CPU devices instead, which is approximate")
        job, environment, note = CompileJob(workload, None, target.chips), _cpu_environment(target.chips), str(error)
    else:
        job, environment, note = CompileJob(workload, target, target.chips), _plugin_environment(plugin), ""
    result = _result(target, _run_worker(job, environment, progress), note)
    if not result.is_approximate:
        write_json_atomically(kept, dataclasses.asdict(result))
    return result


def plugins_folder() -> Path:
    """Where plug-ins are kept, for all checkouts: ``$SPEEDRUN_COMPILERS``, else in the user's cache."""
    if named := os.environ.get("SPEEDRUN_COMPILERS"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "speedrun" / "compilers"


def cache_key(workload: Workload, target: Target) -> str:
    """Names a result by all that it depends on: the workload with its own code, the target, the versions."""
    described = dataclasses.asdict(dataclasses.replace(target, options={}))
    return sha256_of_json([CACHE_FORMAT, canonical(workload), described, computing_versions()])[:32]


def install_plugin(target: Target, folder: Path, progress: Progress) -> Path:
    """The folder that holds the target's compiler, filled from the package index if it is not there yet.

    Raises:
        PluginError: when it cannot be installed.
    """
    name = f"{target.platform}-{sha256_of_json([target.requirements, sysconfig.get_python_version()])[:8]}"
    plugin = folder / name
    if plugin.is_dir():
        return plugin
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / f"{name}.lock"):
        if plugin.is_dir():
            return plugin
        what = " ".join(target.requirements)
        progress(f"installing {what} once ({PLUGIN_SIZES[target.platform]}) into {plugin}")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config"]
            command += ["--python", sys.executable, "--target", f"{scratch}/plugin", *target.requirements]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                raise PluginError(f"{what} could not be installed: {error}") from error
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["uv gave no reason"])[-1].strip()
                raise PluginError(f"{what} could not be installed ({reason})")
            shutil.move(f"{scratch}/plugin", plugin)
    return plugin


def _plugin_environment(plugin: Path) -> dict[str, str]:
    # The plug-in is found on the path; the target is described, not there, so jax itself runs on the CPU.
    return _environment([str(plugin)])


def _cpu_environment(chips: int) -> dict[str, str]:
    return _environment([]) | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={chips}"}


def _environment(first: list[str]) -> dict[str, str]:
    # The child finds whatever this process can import, a checkout that is not installed included.
    path = [*first, *(entry for entry in sys.path if entry)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}


def _run_worker(job: CompileJob, environment: dict[str, str], progress: Progress) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        job_path, result_path, errors_path = (Path(scratch) / name for name in ("job", "result.json", "errors"))
        job_path.write_bytes(_pickled(job))
        command = [sys.executable, "-m", "speedrun.cost.compile_worker", str(job_path), str(result_path)]
        with (
            errors_path.open("w") as errors,
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as worker,
        ):
            assert worker.stdout is not None
            try:
                for line in worker.stdout:
                    progress(line.rstrip())
            except BaseException:
                worker.kill()
                raise
        if not result_path.exists():
            raise SpeedrunError(f"the compiler died with exit code {worker.returncode}: {_last_line(errors_path)}")
        said = json.loads(result_path.read_text())
    if "error" in said:
        raise SpeedrunError(f"the training step could not be compiled: {said['error'][:2000]}")
    return said


def _last_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing (out of memory?)"


def _result(target: Target, said: dict[str, Any], note: str) -> CompiledMemory:
    if "exhausted" in said:
        capacity = said["limit_bytes"] or target.capacity_bytes
        needed, arguments, temporaries = said["needed_bytes"], None, None
    else:
        capacity = target.capacity_bytes
        arguments, temporaries = said["arguments_bytes"], said["temporaries_bytes"]
        needed = arguments + said["outputs_bytes"] - said["aliased_bytes"] + temporaries + said["code_bytes"]
    return CompiledMemory(
        target=target.name,
        chips=target.chips,
        platform="cpu" if note else target.platform,
        capacity_bytes=capacity,
        needed_bytes=needed,
        arguments_bytes=arguments,
        temporaries_bytes=temporaries,
        refused=said.get("exhausted", ""),
        note=note,
        compile_seconds=said.get("compile_seconds"),
    )


def _pickled(job: CompileJob) -> bytes:
    import cloudpickle

    with _carried_by_value(job.workload):
        return cloudpickle.dumps(job)


@contextlib.contextmanager
def _carried_by_value(workload: Workload) -> Iterator[None]:
    """Within, classes of a candidate's own file are pickled whole: the child cannot import them by name."""
    import cloudpickle

    kinds = {type(workload.model), workload.model.model_type, type(workload.optimizer)}
    names = {base.__module__ for kind in kinds for base in kind.__mro__}
    own = [sys.modules[name] for name in sorted(names) if name in sys.modules and not _importable(sys.modules[name])]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def _importable(module: Any) -> bool:
    """Whether another process finds the module by its name: it is installed, built in, or this package's."""
    if module.__name__.split(".")[0] in ("speedrun", "builtins") or not getattr(module, "__file__", None):
        return True
    roots = [Path(sysconfig.get_paths()[key]).resolve() for key in ("stdlib", "purelib", "platlib")]
    return any(Path(module.__file__).resolve().is_relative_to(root) for root in roots)
