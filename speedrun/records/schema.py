"""The results file: what a run leaves behind, and what each field means.

``results/<candidate>/<rung>/speedrun_results.json`` holds one ``RunInfo`` a seed. Its keys are a superset
of the latest shape that Marin's own speedrun files had, with the same names and meanings, so that a
reader of the old files reads these. What is not known is null. Fields that a newer version adds are kept
on reading and writing.
"""

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
PROTOCOL = 1
"""Version of the evaluation protocol by which scores are compared (docs/scoring.md)."""


def utc_now() -> str:
    """Now, as records write it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True, protected_namespaces=(), allow_inf_nan=False)


class AuthorInfo(_Model):
    """Who gets the credit."""

    name: str
    affiliation: str = ""
    url: str = ""


class AttemptInfo(_Model):
    """One process' part in the run."""

    number: int
    started: str
    """UTC, "YYYY-MM-DD HH:MM:SS UTC"."""
    hardware: str
    num_chips: int
    seconds: float
    """Sum of the durations of the steps that it trained, replayed ones included."""
    first_step: int | None
    last_step: int | None
    wall_seconds: float | None = None
    """Seconds from the reservation of its hosts, or from the start of its step log where no cluster was asked, to its
    end; null when it was killed together with whoever started it, and in older records."""
    lost_steps: int | None = None
    """Steps that a later attempt trained again; null in older records."""
    cause: str | None = None
    """Why it ended before the run did, as far as the engine knew."""
    others_cpu_share: float | None = None
    """Share of the machine's processor time that other processes used meanwhile (0 to 1); null when it was killed, and
    in older records."""


PROBE_LIMITS = {"finite": 0.0, "causality": 1e-3, "batch": 1e-3, "state": 1e-3, "isolation": 1e-3}
"""The probes that a finished model must pass, each with the largest value that passes: for the first a count, for
the others nats of one token, which float32 sums of the same numbers in another order can move by far less."""


class Probe(_Model):
    """One question asked of the finished model beside its score: does it see ahead, leak, remember...
    (docs/scoring.md). A run that fails one has no record."""

    name: str
    passed: bool
    value: float
    """What was measured."""
    limit: float
    """The largest value that passes."""
    meaning: str
    """What the value is, with its unit."""


class LevanterFigures(_Model):
    """Bits per byte as Levanter counts them, for the same checkpoint: packed sequences in the run's own precision,
    the mean of the batches' ratios weighted by tokens. They move with the batch, and are never ranked on."""

    batch_size: int
    """Sequences in a batch."""
    sequences: int
    """Of the evaluation set, as packed."""
    bits_per_byte: float
    """Without a mixture of experts' auxiliary loss."""
    bits_per_byte_with_auxiliary_loss: float
    """What Levanter logs under ``eval/.../bpb``: the model's own loss, whatever it adds."""
    bits_per_byte_with_exact_bytes: float | None
    """As ``bits_per_byte``, with each token's bytes counted exactly; null for a kind of tokenizer whose bytes are
    not known token by token. Levanter takes three bytes for a token that is no UTF-8 by itself."""


class DocumentsInfo(_Model):
    """The documents file beside the record: ``documents-<seed>.json.gz`` (``speedrun.records.documents``)."""

    file: str
    sha256: str
    """Of its text, before compression."""


class Evaluation(_Model):
    """What stands behind the score."""

    protocol: int
    """Version of the protocol (docs/scoring.md)."""
    bits_per_byte: float
    """nats / ln 2 / bytes."""
    nats: float
    """Sum of the negative log-likelihoods of all scored tokens."""
    tokens: int
    """Scored tokens: every token of every document once, no BOS, no end-of-text."""
    bytes: int
    """UTF-8 bytes of the documents."""
    documents: int
    """Documents that were scored; empty ones are not."""
    texts_sha256: str
    """Over the texts in order."""
    tokenizer_sha256: str
    """Of the tokenizer's ``tokenizer.json``."""
    end_of_text_bits_per_byte: float | None = None
    """As ``bits_per_byte``, with each document's end-of-text token scored too, over the same bytes; null in records
    from before it was counted, and for a tokenizer without such a token."""
    levanter: LevanterFigures | None = None
    """Null in records from before they were counted."""
    probes: list[Probe] = []
    """All passed; empty in records from before there were any."""
    documents_file: DocumentsInfo | None = None
    """Null in records from before it was kept."""


class FlopsInfo(_Model):
    """What each FLOPs meter says of the run (docs/pricing.md). Model figures are forward FLOPs per token, of which
    training takes three times; a figure that cannot be told is null, and ``unknown`` says why."""

    convention_forward_flops_per_token: float | None
    """Marin's closed form, full attention."""
    causal_forward_flops_per_token: float | None
    """The same with causal attention counted half, and a window where the config has one."""
    traced_forward_flops_per_token: float | None
    """What a trace of the loss counts, with plain attention."""
    optimizer_flops_per_step: float | None
    """Matrix products of one update; 0 for an optimizer that works element by element, such as Adam."""
    unknown: dict[str, str] = {}
    """By name of a null field above: why it is null."""


class Metric(_Model):
    """A figure off the board's axis, measured on the finished model: shown beside the score, never ranked on."""

    name: str
    """Lower case with underscores, such as "sparsity" or "kv_cache_bytes_per_token"."""
    value: float
    unit: str
    """Of ``value``, such as "share" or "bytes"."""
    meaning: str
    """One sentence for a reader who does not know the method."""


class StepLogInfo(_Model):
    """The step log beside the record: ``steps-<seed>.jsonl.gz``."""

    file: str
    sha256: str
    """Of the log's text, before compression."""
    steps: int
    """Steps in it, each once."""
    complete: bool
    """Whether every step from 0 to the last is there."""


class Contamination(_Model):
    """What the training data and the evaluation set have in common, in documents."""

    training_documents: int
    training_exact: int
    """Training documents whose words are those of an evaluation document."""
    training_ngram: int
    """Training documents that share a run of 13 words with an evaluation document."""
    evaluation_documents: int
    evaluation_exact: int
    """Evaluation documents that stand in the training data whole."""
    evaluation_ngram: int
    """Evaluation documents that share a run of 13 words with the training data."""
    evaluation_copied: int
    """Evaluation documents that stand there whole, or at least 70 % of whose runs of 13 words do."""
    contaminated: bool
    """Whether ``evaluation_copied`` is more than 1 % of ``evaluation_documents``."""


class RunInfo(_Model):
    """One run: a recipe with one seed, trained and evaluated."""

    # What upstream's files have, with upstream's meaning.
    author: AuthorInfo
    description: str
    """The candidate's hypothesis."""
    model_size: int
    """Trainable parameters."""
    total_tokens: int
    """Tokens trained on: the batch schedule's sum of sequences x length."""
    model_flops: float
    """3 x ``model_flops_per_token`` x ``total_tokens``."""
    model_flops_per_token: float
    """Forward FLOPs per token by the budget's meter: Marin's convention where a trace agrees, else the trace."""
    num_devices: int
    num_chips: int
    device_flops: float | None
    """Peak dense bf16 FLOP/s of one chip; null where there is no such figure (a CPU)."""
    training_time: float
    """Seconds: every step's duration once, first steps with their compilation."""
    training_hardware_flops: float | None
    """Step seconds x chips x peak, summed over attempts; null without a peak."""
    paloma_c4_en_bpb: float | None = Field(default=None, alias="eval/paloma/c4_en/bpb")
    """Levanter's own figure on Paloma C4-EN; null where Paloma was not evaluated."""
    c4_en_proxy_bpb: float | None = Field(default=None, alias="eval/c4_en_proxy/bpb")
    """Levanter's own figure on the open stand-in for Paloma; never to be compared with any figure on Paloma."""
    run_completion_timestamp: str
    """UTC, "YYYY-MM-DD HH:MM:SS UTC"."""
    wandb_run_link: str | None
    model_configuration: dict[str, Any] = Field(alias="model_config")
    train_config: dict[str, Any]
    tokenized_dataset: str
    """Name of the training data's step, without the prefix of anybody's storage."""
    resources: dict[str, Any]

    # What they lacked.
    candidate: str
    rung: str
    seed: int
    bits_per_byte: float
    """The score."""
    evaluation: Evaluation
    micro_heldout_bpb: float | None = Field(default=None, alias="eval/micro/heldout/bpb")
    """Levanter's own figure on the micro rungs' held-out documents."""
    authors: list[AuthorInfo]
    baseline: str
    overrides: dict[str, Any]
    """Fields of the recipe that were set on the command line; empty for the candidate as written."""
    budget_flops: float
    """What the rung allows."""
    flops: FlopsInfo | None = None
    """The three FLOPs meters and the optimizer's own FLOPs; null in records from before they were kept."""
    non_embedding_parameters: int | None = None
    """``model_size`` without input embedding and output head; null where the model cannot be traced."""
    active_parameters: int | None = None
    """``model_size`` without the experts that a token does not pass through, embeddings included."""
    metrics: list[Metric] = []
    """What the candidate had measured on the finished model, beside its score."""
    tokens_per_second: float | None
    """``total_tokens`` over ``steady_time``."""
    mfu: float | None
    """Model FLOPs over peak FLOPs in steady time; null without a peak."""
    compile_time: float
    """Seconds that the first steps of attempts took above the median step."""
    steady_time: float
    """Seconds of training without ``compile_time``."""
    spent_time: float
    """Seconds of all steps ever trained, replays included."""
    attempts: list[AttemptInfo]
    step_log: StepLogInfo
    source_digest: str
    """Of the candidate's file and the parts of ``speedrun.methods`` that it uses."""
    recipe_fingerprint: str
    """Of what the run computes; seeds share it."""
    run_key: str
    git_commit: str | None
    git_dirty: bool | None
    """Whether tracked files differed from the commit."""
    versions: dict[str, str]
    training_data: dict[str, Any]
    """The corpus' counts, hashes and attribution; of data from the model hub ``sources``, by name: the repository, the
    commit, the number of files, their bytes, and a SHA-256 over the files' own digests. ``filter``: the candidate's own
    predicate, the shares that it kept and a SHA-256 over what it kept; ``mixture``: each part with its weight."""
    contamination: Contamination | None = None
    """Evaluation text found in the training data; null where it is unknown: the raw training texts are not at hand
    (pretokenized data), or the record is older than the count."""
    corpus: Literal["rung", "user"] = "rung"
    """"user" when ``--corpus`` replaced the rung's data: such a record never enters the board."""
    evaluation_data: str = ""
    """Name of the evaluation set where ``--evaluation`` replaced the rung's own: such a record never enters the board.
    Empty where it was the rung's (or, with ``corpus`` "user", the user's)."""


class Run(_Model):
    """One entry of ``runs``."""

    run_info: RunInfo


class ResultsFile(_Model):
    """The whole file."""

    schema_version: int = SCHEMA_VERSION
    runs: list[Run]
