"""Running somebody's record again: their code, in a clean worktree, without the reviewer's files and keys.

What runs is the candidate of a stranger. The environment that it gets holds nothing but what is listed here and
what the reviewer names; that keeps credentials out of it, and no more: a container is the wall.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from speedrun.errors import SpeedrunError
from speedrun.identity import methods_used, source_digest
from speedrun.project import CANDIDATES_FOLDER, Project
from speedrun.records.schema import RunInfo, utc_now
from speedrun.records.store import RESULTS_FILE, read_results
from speedrun.records.verifications import Verification
from speedrun.submission.git import commit_of, top_of
from speedrun.submission.rule import close
from speedrun.submission.subjects import World
from speedrun.submission.tree import entries
from speedrun.submission.worktree import worktree

KEPT_VARIABLES = (
    "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "COLUMNS", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE",
    "CUDA_VISIBLE_DEVICES", "XLA_FLAGS", "JAX_PLATFORMS",
)  # fmt: skip
"""What a run needs to find Python and its accelerator. The address of a package index may hold a password."""
CONFIDENCE = 0.99
"""Two-sided: so often an honest rerun lies within the tolerance."""
UNKNOWN_NOISE = 0.005
"""Tolerance, as a fraction of the score, where no seeds tell the noise."""


@dataclass(frozen=True)
class Case:
    """What is to be run again."""

    info: RunInfo
    candidate: str
    """Whose file is run; another name than the record's where the recipe was overridden."""
    commit: str
    files: tuple[str, ...]
    """The candidate's file and the parts of speedrun/methods that it uses, in the repository."""


def find_case(project: Project, name: str, rung: str, seed: int | None) -> Case:
    """The record that is to be reproduced (its first seed by default), and the code at HEAD that made it.

    Raises:
        SpeedrunError: when there is no such record, or HEAD holds another source than it was made from.
    """
    path = project.results / name / rung / RESULTS_FILE
    runs = {run.run_info.seed: run.run_info for run in read_results(path).runs}
    if not runs or (seed is not None and seed not in runs):
        raise SpeedrunError(f"{path} has no seed {seed}; it has {', '.join(map(str, runs)) or 'none'}")
    info = runs[min(runs) if seed is None else seed]
    if top_of(project.root).resolve() != project.root.resolve():
        raise SpeedrunError(f"{project.root} is not the top folder of its git repository")
    commit = commit_of(project.root, "HEAD")
    with worktree(project.root, commit) as tree:
        candidate = name if not info.overrides else _by_digest(tree, info.source_digest) or name
        file = tree / CANDIDATES_FOLDER / f"{candidate}.py"
        if not file.is_file() or file.is_symlink():
            raise SpeedrunError(f"{file.relative_to(tree)} is not in HEAD: check out the branch that holds it")
        parts = methods_used(file, tree / "speedrun" if (tree / "speedrun").is_dir() else None)
        if source_digest(file, parts) != info.source_digest:
            raise SpeedrunError(
                f"{file.relative_to(tree)} at HEAD is not what the record was made from (see `speedrun validate`): "
                "check out the commit that it belongs to"
            )
        files = [file, *(part for part in parts if part.is_relative_to(tree))]
        return Case(info, candidate, commit, tuple(str(each.relative_to(tree)) for each in files))


def _by_digest(tree: Path, digest: str) -> str | None:
    return World(tree, {entry.path: entry for entry in entries(tree)}).digests.get(digest)


def command_of(case: Case, hardware: str | None) -> list[str]:
    """The command that runs it."""
    info = case.info
    words = ["run", case.candidate, "--rung", info.rung, "--seed", str(info.seed)]
    if hardware is not None:
        words += ["--hardware", hardware]
    if info.overrides:
        words += ["--record-as", info.candidate]
        words += [f"--{field}={json.dumps(value)}" for field, value in info.overrides.items()]
    return [sys.executable, "-m", "speedrun", *words]


def stripped_environment(home: Path, project: Path, keep: Sequence[str] = ()) -> dict[str, str]:
    """What the run sees of this environment: no credentials, no home, nothing but `KEPT_VARIABLES` and ``keep``."""
    kept = {name: os.environ[name] for name in (*KEPT_VARIABLES, *keep) if name in os.environ}
    return kept | {"HOME": str(home), "SPEEDRUN_PROJECT": str(project), "PYTHONNOUSERSITE": "1"}


def run_again(project: Project, case: Case, *, hardware: str | None, keep: Sequence[str] = ()) -> RunInfo:
    """Run the case in a clean worktree and return its record.

    Raises:
        SpeedrunError: when the run fails.
    """
    info = case.info
    with worktree(project.root, case.commit) as tree:
        # The record must come from this run, not from the commit.
        shutil.rmtree(tree / "results" / info.candidate, ignore_errors=True)
        downloads = project.work / "downloads"
        if downloads.is_dir():
            # Data, whose hash is checked when it is read.
            shutil.copytree(downloads, tree / ".speedrun" / "downloads")
        home = tree.parent / "home"
        home.mkdir()
        # The folder comes first on the path of `python -m`: the worktree's own speedrun runs.
        done = subprocess.run(
            command_of(case, hardware), cwd=tree, env=stripped_environment(home, tree, keep), stdin=subprocess.DEVNULL
        )
        if done.returncode != 0:
            raise SpeedrunError(f"the run of {info.candidate} at {info.rung} ended with exit code {done.returncode}")
        results = read_results(tree / "results" / info.candidate / info.rung / RESULTS_FILE)
    (again,) = (run.run_info for run in results.runs if run.run_info.seed == info.seed)
    return again


def verification_of(project: Project, recorded: RunInfo, again: RunInfo, verified_by: str) -> Verification:
    """What the rerun says of the record."""
    tolerance, noise = tolerance_of(project, recorded)
    differences = _differences(recorded, again)
    same_work = recorded.total_tokens == again.total_tokens and close(recorded.model_flops, again.model_flops)
    within = abs(again.bits_per_byte - recorded.bits_per_byte) <= tolerance
    return Verification(
        candidate=recorded.candidate,
        rung=recorded.rung,
        seed=recorded.seed,
        run_key=recorded.run_key,
        recorded_bits_per_byte=recorded.bits_per_byte,
        bits_per_byte=again.bits_per_byte,
        tolerance=tolerance,
        noise=noise,
        verdict="reproduced" if within and same_work else "differs",
        differences=differences,
        source_digest=again.source_digest,
        recipe_fingerprint=again.recipe_fingerprint,
        hardware=str(again.resources.get("hardware")),
        versions=again.versions,
        verified_by=verified_by,
        completed=utc_now(),
    )


def tolerance_of(project: Project, info: RunInfo) -> tuple[float, str]:
    """(largest difference in bits per byte that noise explains between two runs, where it comes from).

    The two are taken as two seeds of the recipe: sqrt(2) sigma times Student's quantile. A rerun of the same seed
    on the same hardware is much nearer.
    """
    from scipy import stats

    from speedrun.board.records import read_records
    from speedrun.board.table import scored_table
    from speedrun.ladder import LADDER
    from speedrun.scoring import UndefinedError, arms_of, noises_of

    ladder = LADDER[info.rung].ladder
    runs = scored_table([record for record in read_records(project) if record.ladder == ladder])
    names = set(runs["candidate"])
    arms = {name: list(arms_of(runs, name).values()) for name in {info.candidate, info.baseline} & names}
    try:
        _, noise = noises_of(arms.get(info.baseline, []), arms.get(info.candidate, []))
    except UndefinedError:
        return UNKNOWN_NOISE * info.bits_per_byte, f"unknown: {UNKNOWN_NOISE:.1%} of the score is allowed"
    here = noise.at(info.rung)
    quantile = stats.norm if math.isinf(here.degrees_of_freedom) else stats.t(here.degrees_of_freedom)
    return float(quantile.ppf((1 + CONFIDENCE) / 2)) * math.sqrt(2) * here.sigma, here.source


def _differences(recorded: RunInfo, again: RunInfo) -> list[str]:
    found = []
    pairs: Mapping[str, tuple[object, object]] = {
        "tokens": (recorded.total_tokens, again.total_tokens),
        "model FLOPs": (recorded.model_flops, again.model_flops),
        "hardware": (recorded.resources.get("hardware"), again.resources.get("hardware")),
        "recipe fingerprint": (recorded.recipe_fingerprint, again.recipe_fingerprint),
        **{f"version of {name}": (recorded.versions.get(name), version) for name, version in again.versions.items()},
    }
    for what, (before, after) in pairs.items():
        if before != after:
            found.append(f"{what}: {before} on record, {after} here")
    return found
