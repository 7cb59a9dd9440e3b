"""Downloads from the model hub as steps: what a training set, an evaluation set or a tokenizer is made of.

Each leaves its files and ``source.json``: which commit they are of, and their digests. The commit is written before
the first file is fetched, so that a download that goes on another day goes on with the same set, even where the
repository has moved.
"""

import gzip
import json
import shutil
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep, StepContext
from marin.processing.tokenize.tokenize import TokenizedCache
from rigging.filesystem.storage_path import StoragePath, prefix_join

from speedrun.errors import SpeedrunError
from speedrun.hub import HubFile, fetch, list_files, resolve
from speedrun.identity import sha256_of_json
from speedrun.sources import HubSource
from speedrun.steps.version import STEP_VERSION

SOURCE_FILE = "source.json"
PROGRESS_FILE = "progress.json"
_PARTIALS = ".incomplete"


@dataclass(frozen=True)
class HubJob:
    """What a download step runs. All but the path says what is fetched."""

    repo_id: str
    revision: str
    files: tuple[str, ...]
    output_path: str


@dataclass(frozen=True)
class HubCacheJob(HubJob):
    """The download of a Levanter cache."""

    tokenizer: str
    """Path of the tokenizer that it was made with; readers of the cache take it from here."""


def downloaded(source: HubSource) -> ArtifactStep[Artifact]:
    """The files of ``source`` as a step, under their names in the repository."""

    def build_config(ctx: StepContext) -> HubJob:
        return HubJob(source.repo_id, source.revision, source.files, ctx.output_path)

    return ArtifactStep(
        name=source.step,
        version=STEP_VERSION,
        artifact_type=Artifact,
        run=lambda job: _download(source, job, _check_tokenizer if source.kind == "model" else _check_documents),
        build_config=build_config,
    )


def downloaded_cache(source: HubSource, tokenizer: ArtifactStep[Artifact]) -> ArtifactStep[TokenizedCache]:
    """A Levanter cache that lies on the hub, as a step that reads like one of Marin's own tokenize steps."""

    def build_config(ctx: StepContext) -> HubCacheJob:
        tokenizer_path = ctx.artifact_path(tokenizer)
        return HubCacheJob(source.repo_id, source.revision, source.files, ctx.output_path, tokenizer_path)

    return ArtifactStep(
        name=source.step,
        version=STEP_VERSION,
        artifact_type=TokenizedCache,
        run=lambda job: _download(source, job, _check_cache),
        build_config=build_config,
        deps=(tokenizer,),
    )


def source_on_record(path: str) -> dict[str, Any]:
    """What a record says of a download: repository, commit, and one digest over its files."""
    content = json.loads(StoragePath(prefix_join(path, SOURCE_FILE)).read_text())
    files = content.pop("files")
    return {
        **content,
        "files": len(files),
        "bytes": sum(f["size"] for f in files),
        "files_sha256": sha256_of_json(files),
    }


def _download(source: HubSource, job: HubJob, check: Callable[[HubSource, HubJob, list[HubFile]], None]) -> None:
    commit, files = _pinned(source, job)
    here = {file.path for file in files if _is_whole(prefix_join(job.output_path, file.path), file.size)}
    missing = [file for file in files if file.path not in here]
    before, total = sum(file.size for file in files if file.path in here), sum(file.size for file in files)
    is_local = "://" not in job.output_path
    # A bucket takes only whole files: what is not whole yet lies on this machine.
    partials = (Path(job.output_path) if is_local else Path(tempfile.gettempdir()) / "speedrun" / commit) / _PARTIALS

    def keep(file: HubFile, whole: Path) -> None:
        target = prefix_join(job.output_path, file.path)
        if is_local:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            whole.replace(target)
        else:
            StoragePath(target).upload_from(str(whole))
            whole.unlink()

    def on_progress(done: int) -> None:
        said = json.dumps({"done": before + done, "total": total})
        StoragePath(prefix_join(job.output_path, PROGRESS_FILE)).write_text(said)

    fetch(source, commit, missing, partials, keep, on_progress)
    shutil.rmtree(partials, ignore_errors=True)
    check(source, job, files)


def _pinned(source: HubSource, job: HubJob) -> tuple[str, list[HubFile]]:
    """(commit, its files): those that an earlier attempt began with, else today's."""
    place = StoragePath(prefix_join(job.output_path, SOURCE_FILE))
    if place.exists():
        content = json.loads(place.read_text())
        return content["commit"], [HubFile(**file) for file in content["files"]]
    commit = resolve(source)
    files = list_files(source, commit)
    content = {"repository": source.repo_id, "commit": commit, "files": [asdict(file) for file in files]}
    place.write_text(json.dumps(content, indent=2))
    return commit, files


def _is_whole(path: str, size: int) -> bool:
    """Whether the file is here. It gets its name only once its digest is right."""
    place = StoragePath(path)
    return place.exists() and place.size() == size


def _check_documents(source: HubSource, job: HubJob, files: list[HubFile]) -> None:
    """Read every gzipped file to its end: a broken one is named here, not by whoever reads it next."""
    for file in files:
        if not file.path.endswith(".gz"):
            continue
        with StoragePath(prefix_join(job.output_path, file.path)).open("rb") as raw:
            where = f"{source.name}: {file.path} of {source.repo_id}"
            number = 0
            try:
                with gzip.open(raw) as lines:  # type: ignore[arg-type]
                    for line in lines:
                        number += 1
                        if not isinstance(json.loads(line)["text"], str):
                            raise ValueError("its text is no string")
            except (OSError, EOFError, zlib.error) as error:
                raise SpeedrunError(f"{where} is damaged on the hub ({error}): it is no whole gzip file") from None
            except (ValueError, KeyError, TypeError) as error:
                raise SpeedrunError(f'{where}: line {number} is no document with a "text" ({error!r})') from None


def _check_cache(source: HubSource, job: HubJob, files: list[HubFile]) -> None:
    if "train/shard_ledger.json" not in {file.path for file in files}:
        raise SpeedrunError(f"{source.name}: {source.repo_id} holds no Levanter cache (train/shard_ledger.json)")


def _check_tokenizer(source: HubSource, job: HubJob, files: list[HubFile]) -> None:
    """See that there is a tokenizer, and give it the configuration by which Levanter's converter needs no hub."""
    from tokenizers import Tokenizer

    if "tokenizer.json" not in {file.path for file in files}:
        raise SpeedrunError(f"{source.name}: {source.repo_id} has no tokenizer.json, which is what is read here")
    try:
        tokenizer = Tokenizer.from_str(StoragePath(prefix_join(job.output_path, "tokenizer.json")).read_text())
    except Exception as error:
        raise SpeedrunError(f"{source.name}: tokenizer.json of {source.repo_id} cannot be read: {error}") from None
    config = StoragePath(prefix_join(job.output_path, "config.json"))
    if not config.exists():
        config.write_text(json.dumps({"model_type": "llama", "vocab_size": tokenizer.get_vocab_size()}))
