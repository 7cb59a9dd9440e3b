"""Building the DAGs of one command: shown, resumable, each record published as soon as it is made."""

import errno
import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from speedrun.cli.out_of_memory import is_out_of_memory, memory_note
from speedrun.cli.progress import ProgressDisplay
from speedrun.engines.engine import Engine
from speedrun.engines.locks import process_name, release_dead
from speedrun.engines.manifest import Manifest, write_manifest
from speedrun.engines.watch import RunProgress, look_at
from speedrun.errors import SpeedrunError
from speedrun.project import Project
from speedrun.records.attempts import AttemptsLog
from speedrun.records.schema import RunInfo, utc_now
from speedrun.records.store import RESULTS_FILE, publish_run, read_results

if TYPE_CHECKING:
    from speedrun.steps.dag import RunDag

POLL_SECONDS = 0.5


class StepFailed(Exception):
    """A step of the DAG raised: the candidate's own error, or one of the stack's. Exit code 1."""

    published: "list[Published]"
    """The runs that were finished all the same."""


@dataclass(frozen=True)
class Published:
    """A run that has its record."""

    info: RunInfo
    results_file: Path
    was_cached: bool
    """Whether everything had been built before."""


def results_folder(project: Project, name: str, rung: str, *, scratch_label: str | None) -> Path:
    """Where the record of a run goes: into results/, or for a scratch run into the work folder."""
    if scratch_label is None:
        return project.results / name / rung
    return project.work / "scratch" / name / rung / scratch_label


def check_results_folder(folder: Path) -> None:
    """Refuse before anything is trained what would be refused at the end.

    Raises:
        SpeedrunError: when the folder cannot be written, or holds a damaged results file.
    """
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        raise SpeedrunError(f"{parent} cannot be written: the record could not be kept. Nothing has been run.")
    if (folder / RESULTS_FILE).exists():
        read_results(folder / RESULTS_FILE)


def execute(
    project: Project, engine: Engine, dags: Sequence["RunDag"], folders: Sequence[Path], console: Console, log: Path
) -> list[Published]:
    """Build ``dags`` on ``engine`` and publish each record into its folder.

    Raises:
        SpeedrunError: for what the user can mend (exit 2).
        StepFailed: when a step raised (exit 1).
        KeyboardInterrupt: after saying how to resume.
    """
    manifests = [manifest_of(dag, folder, log) for dag, folder in zip(dags, folders, strict=True)]
    for folder in set(folders):
        check_results_folder(folder)
    addresses = {path for manifest in manifests for path in manifest.addresses.values()}
    if project.store_is_local:
        release_dead(addresses)
    before = {manifest.key: look_at(manifest) for manifest in manifests}
    cached = {key for key, progress in before.items() if progress.is_done}
    trained = {key for key, progress in before.items() if progress.states["train"][0] == "done"}
    engine.check([dag.resources for dag, manifest in zip(dags, manifests, strict=True) if manifest.key not in cached])
    for manifest in manifests:
        write_manifest(project, manifest)
    published: dict[str, Published] = {}
    build = engine.build([dag.record for dag in dags])
    with ProgressDisplay(console) as display, AttemptsLog() as attempts:
        over = False
        while not over:
            over = build.wait(POLL_SECONDS)
            for notice in engine.news():
                console.print(notice, markup=False, highlight=False, soft_wrap=True)
            if project.store_is_local:
                release_dead(addresses)
            seen = [(manifest, look_at(manifest)) for manifest in manifests]
            display.show(seen)
            for dag, folder, (manifest, progress) in zip(dags, folders, seen, strict=True):
                if manifest.key not in trained and progress.states["train"][0] != "waiting":
                    _note_attempt(project, dag, attempts)
                if progress.is_done and manifest.key not in published:
                    published[manifest.key] = _publish(dag, folder, manifest.key in cached)
                    attempts.end(manifest.key, "finished", published[manifest.key].info.bits_per_byte)
    done = [published[manifest.key] for manifest in manifests if manifest.key in published]
    if build.error is not None:
        failure = explain(build.error, dags, log)
        if isinstance(failure, StepFailed):
            failure.published = done
        raise failure
    return done


def resume_hint(project: Project, dags: Sequence["RunDag"]) -> str:
    """What to say when the user interrupts."""
    for dag in dags:
        progress: RunProgress = look_at(manifest_of(dag, project.root, project.root))
        if not progress.is_done:
            where = f"at step {progress.last.step + 1} of {progress.steps_total}" if progress.last else "early"
            return f"Interrupted {where}. Nothing is lost: the same command goes on from the last checkpoint."
    return "Interrupted. Nothing is lost: the same command goes on where this one stopped."


def manifest_of(dag: "RunDag", folder: Path, log: Path) -> Manifest:
    """What is kept of a run that is started."""
    assert dag.recipe.steps is not None
    identity = dag.identity
    return Manifest(
        key=identity.key,
        candidate=identity.record_as,
        rung=identity.rung.name,
        seed=identity.seed,
        hardware=str(identity.hardware),
        steps_total=dag.recipe.steps,
        started=utc_now(),
        log_file=str(log),
        addresses={label: step.path() for label, step in dag.steps()},
        results_folder=str(folder),
        overrides=dict(identity.overrides),
        driver=process_name(),
        flops_per_token=dag.flops_per_token,
    )


def _note_attempt(project: Project, dag: "RunDag", attempts: AttemptsLog) -> None:
    """Note beside the candidate's record that the run was started; trials on the rung's own data count."""
    identity = dag.identity
    if not identity.is_off_board:
        attempts.start(
            results_folder(project, identity.record_as, identity.rung.name, scratch_label=None),
            run_key=identity.key,
            rung=identity.rung.name,
            seed=identity.seed,
            recipe_fingerprint=identity.fingerprint,
            hardware=str(identity.hardware),
            overrides=identity.overrides,
        )


def _publish(dag: "RunDag", folder: Path, was_cached: bool) -> Published:
    from speedrun.steps.record import read_record

    info, log_text, documents = read_record(dag.record.path())
    return Published(info, publish_run(folder, info, log_text, documents), was_cached)


def _storage_error(what: str) -> SpeedrunError:
    return SpeedrunError(f"{what}. Mend it and run the same command again: it goes on where it stopped.")


def explain(error: BaseException, dags: Sequence["RunDag"], log: Path) -> Exception:
    """The step's own error, out of the layers of runner and client around it."""
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    for link in chain:
        if isinstance(link, SpeedrunError):
            return link
        if isinstance(link, OSError) and link.errno in (errno.ENOSPC, errno.EROFS, errno.EACCES):
            return _storage_error(f"{link.filename}: {link.strerror}" if link.filename else str(link.strerror))
        if os.strerror(errno.ENOSPC) in str(link):
            # Tensorstore has an error of its own for it.
            return _storage_error(os.strerror(errno.ENOSPC))
    root = next((link for link in chain if not str(link).startswith(("Step failed", "1 step(s)"))), chain[-1])
    # An exception that comes from a worker brings its frames along: a traceback cannot be sent.
    here = [(frame.filename, frame.lineno, frame.name) for frame in traceback.extract_tb(root.__traceback__)]
    frames = list(getattr(root, "remote_frames", here))
    own = [frame for frame in frames if "executor_steps" in frame[0] or "/speedrun/" in frame[0]]
    where = "\n  at {}:{}, in {}".format(*(own or frames)[-1]) if frames else ""
    step = next((str(link).removeprefix("Step failed: ") for link in chain if str(link).startswith("Step failed")), "?")
    note = memory_note(dags, step) if any(map(is_out_of_memory, chain)) else ""
    what = f"{note}\n  {type(root).__name__}: {root}" if note else f"{type(root).__name__}: {root}"
    return StepFailed(f"step {step} failed: {what}{where}\n  full log: {log}")
