"""Training data made from a corpus by choosing among its training documents; the evaluation stays as it is."""

import gzip
import importlib.metadata
import json
from dataclasses import dataclass

from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep, StepContext
from rigging.filesystem.storage_path import StoragePath, prefix_join

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
