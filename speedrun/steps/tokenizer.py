"""Tokenizers as steps: a byte-level BPE trained on a corpus' training documents."""

import json
from dataclasses import dataclass

from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep
from rigging.filesystem.storage_path import StoragePath, prefix_join
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from speedrun.identity import sha256_hex
from speedrun.steps.corpus import read_documents
from speedrun.steps.version import STEP_VERSION

BOS = "<|begin_of_text|>"
EOS = "<|end_of_text|>"


@dataclass(frozen=True)
class BpeConfig:
    """What a BPE step is given."""

    corpus: str
    vocab_size: int
    output_path: str


def byte_level_bpe(corpus: ArtifactStep[Artifact], vocab_size: int) -> ArtifactStep[Artifact]:
    """A byte-level BPE of ``vocab_size`` ids, trained on ``corpus``'s training documents alone.

    Leaves the folder that transformers expects: tokenizer.json, tokenizer_config.json, and a config.json
    that lets Levanter's converter work with no model hub.
    """
    return ArtifactStep(
        name=f"tokenizer/{corpus.name.removeprefix('corpus/')}-bpe{vocab_size}",
        version=STEP_VERSION,
        artifact_type=Artifact,
        run=_train,
        build_config=lambda ctx: BpeConfig(ctx.artifact_path(corpus), vocab_size, ctx.output_path),
        deps=(corpus,),
    )


def tokenizer_sha256(folder: str) -> str:
    """SHA-256 of a tokenizer's ``tokenizer.json``."""
    return sha256_hex(StoragePath(prefix_join(folder, "tokenizer.json")).read_bytes())


def train_bpe(texts: list[str], vocab_size: int) -> Tokenizer:
    """A byte-level BPE in which every text can be written, with a BOS put before each encoded text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[BOS, EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return tokenizer


def _train(config: BpeConfig) -> None:
    documents = read_documents(prefix_join(config.corpus, "train.jsonl.gz"))
    write_tokenizer(train_bpe([document["text"] for document in documents], config.vocab_size), config.output_path)


def write_tokenizer(tokenizer: Tokenizer, folder: str) -> None:
    """Write the files that transformers and Levanter's converter look for."""
    files = {
        "tokenizer.json": tokenizer.to_str(pretty=False),
        "tokenizer_config.json": json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS}
        ),
        "config.json": json.dumps({"model_type": "llama", "vocab_size": tokenizer.get_vocab_size()}),
    }
    for name, content in files.items():
        StoragePath(prefix_join(folder, name)).write_text(content)
