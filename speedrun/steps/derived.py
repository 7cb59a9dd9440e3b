"""Training data made from a corpus by choosing among its training documents; the evaluation stays as it is.

``chosen`` is for the choices of ``speedrun.methods.documents``, which see all documents at once; ``filtered`` for a
candidate's own predicate, which sees one at a time, of any number of files.
"""

import gzip
import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep, StepContext
from rigging.filesystem.factory import url_to_fs
from rigging.filesystem.storage_path import StoragePath, prefix_join
from zephyr.readers import load_file

from speedrun.errors import SpeedrunError, in_one_line
from speedrun.identity import canonical, sha256_of_json
from speedrun.methods.documents import Choice
from speedrun.steps.corpus import read_documents
from speedrun.steps.version import STEP_VERSION


@dataclass(frozen=True)
class ChooseJob:
    """What the step runs."""

    corpus: str
    output_path: str


def chosen(name: str, corpus: ArtifactStep[Artifact], choose: Choice) -> ArtifactStep[Artifact]:
    """The training documents of ``corpus`` that ``choose`` picks, as a step: ``train.jsonl.gz`` and ``corpus.json``.

    The code of the choice and the classifier's library stand in the step's name: what another made is never served.
    """
    made_by = sha256_of_json([canonical(choose), importlib.metadata.version("scikit-learn")])

    def build_config(ctx: StepContext) -> ChooseJob:
        return ChooseJob(ctx.artifact_path(corpus), ctx.output_path)

    def run(job: ChooseJob) -> None:
        documents = choose(read_documents(prefix_join(job.corpus, "train.jsonl.gz")))
        lines = "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)
        StoragePath(prefix_join(job.output_path, "train.jsonl.gz")).write_bytes(gzip.compress(lines.encode(), mtime=0))
        summary = json.loads(StoragePath(prefix_join(job.corpus, "corpus.json")).read_text())
        summary |= {
            "train_documents": len(documents),
            "train_bytes": sum(len(document["text"].encode()) for document in documents),
            "chosen_sha256": sha256_of_json([document["text"] for document in documents]),
        }
        StoragePath(prefix_join(job.output_path, "corpus.json")).write_text(json.dumps(summary, indent=2))

    return ArtifactStep(
        name=f"corpus/{name}-{made_by[:8]}",
        version=STEP_VERSION,
        artifact_type=Artifact,
        run=run,
        build_config=build_config,
        deps=(corpus,),
    )


def filtered(
    name: str, documents: ArtifactStep[Artifact], files: str, keep: Callable[[Mapping[str, Any]], bool]
) -> ArtifactStep[Artifact]:
    """The documents for which ``keep`` is true, as a step: a ``.jsonl.gz`` file for each that matches ``files``, and
    ``corpus.json`` with what was kept.

    The code of ``keep`` stands in the step's name. One file is read at a time, and one that is done is not read again.
    """
    described = canonical(keep)
    made_by = sha256_of_json([described, files, f"{documents.name}@{documents.version}:{documents.fingerprint()}"])

    def build_config(ctx: StepContext) -> ChooseJob:
        return ChooseJob(ctx.artifact_path(documents), ctx.output_path)

    def run(job: ChooseJob) -> None:
        fs, pattern = url_to_fs(prefix_join(job.corpus, files), use_listings_cache=False)
        found = sorted(fs.unstrip_protocol(file) if "://" in job.corpus else str(file) for file in fs.glob(pattern))
        if not found:
            raise SpeedrunError(f"the filter of {name} finds no file {files} in {documents.name}")
        counts = [_filter_file(file, _stem(file, job.corpus), job.output_path, keep) for file in found]
        total = {key: sum(count[key] for count in counts) for key in _COUNTED}
        if not total["train_documents"]:
            raise SpeedrunError(f"the filter of {name} keeps none of its {total['documents']:,} documents")
        before = StoragePath(prefix_join(job.corpus, "corpus.json"))
        summary = json.loads(before.read_text()) if before.exists() else {}
        summary |= {"train_documents": total["train_documents"], "train_bytes": total["train_bytes"]}
        summary["filter"] = {
            "of": name,
            "keep": described,
            "documents": total["documents"],
            "bytes": total["bytes"],
            "kept_share_of_documents": total["train_documents"] / total["documents"],
            "kept_share_of_bytes": total["train_bytes"] / max(1, total["bytes"]),
            "kept_sha256": sha256_of_json([count["sha256"] for count in counts]),
        }
        StoragePath(prefix_join(job.output_path, "corpus.json")).write_text(json.dumps(summary, indent=2))

    return ArtifactStep(
        name=f"corpus/{name}-filtered-{made_by[:16]}",
        version=STEP_VERSION,
        artifact_type=Artifact,
        run=run,
        build_config=build_config,
        deps=(documents,),
    )


_COUNTED = ("documents", "bytes", "train_documents", "train_bytes")


def _stem(file: str, folder: str) -> str:
    """A name for what is made of ``file``: its path within ``folder``, without the suffix."""
    return file.removeprefix(folder).strip("/").replace("/", "-").split(".")[0]


def _filter_file(file: str, stem: str, output: str, keep: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    """Filter one file; returns what was counted, and the SHA-256 over the texts that were kept, in order."""
    counted = StoragePath(prefix_join(output, f"{stem}.counts.json"))
    if counted.exists():
        return json.loads(counted.read_text())
    count: dict[str, Any] = dict.fromkeys(_COUNTED, 0)
    digest = hashlib.sha256()
    lines = []
    for document in load_file(file):
        text = document["text"].encode()
        try:
            is_kept = bool(keep(document))
        except Exception as error:
            where = f"document {count['documents'] + 1} of {stem}"
            raise SpeedrunError(f"the filter's function fails at {where}: {in_one_line(error)}") from error
        count["documents"] += 1
        count["bytes"] += len(text)
        if is_kept:
            count["train_documents"] += 1
            count["train_bytes"] += len(text)
            digest.update(hashlib.sha256(text).digest())
            lines.append(json.dumps(document, ensure_ascii=False, default=str))
    content = "".join(f"{line}\n" for line in lines)
    StoragePath(prefix_join(output, f"{stem}.jsonl.gz")).write_bytes(gzip.compress(content.encode(), mtime=0))
    count["sha256"] = digest.hexdigest()
    counted.write_text(json.dumps(count))
    return count
