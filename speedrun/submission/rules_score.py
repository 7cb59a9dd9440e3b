"""Rules about the score: its arithmetic, its texts, its tokenizer, and whether any model could have reached it."""

import math
from collections.abc import Iterator

from speedrun.records.schema import PROTOCOL, RunInfo
from speedrun.submission.expected import (
    EVALUATION_SETS,
    MOST_BITS_PER_BYTE,
    TRAINING_DOCUMENTS_SHA256,
)
from speedrun.submission.implied import tokenizer, training_data
from speedrun.submission.rule import Fault, Rule, Severity, close, show
from speedrun.submission.subjects import RunCase

LEVANTER_WITHIN = 0.10
"""Relative difference from Levanter's figure: it packs documents and averages ratios, which moves it by less."""
LOSS_WITHIN = 0.25
"""Relative difference between the last training loss and the evaluated nats per token that wants explaining."""


def score(run: RunCase) -> Iterator[Fault]:
    """The score is the evaluation's, which is nats over ln 2 and the bytes."""
    info, evaluation = run.info, run.info.evaluation
    if info.bits_per_byte != evaluation.bits_per_byte:
        yield Fault("bits_per_byte", f"{info.bits_per_byte!r}; the evaluation has {evaluation.bits_per_byte!r}")
    if evaluation.bytes > 0:
        expected = evaluation.nats / math.log(2) / evaluation.bytes
        if not close(evaluation.bits_per_byte, expected):
            what = f"{evaluation.bits_per_byte:.8g}; nats and bytes make it {expected:.8g}"
            yield Fault("evaluation.bits_per_byte", what)


def protocol(run: RunCase) -> Iterator[Fault]:
    """The evaluation followed the protocol that is compared."""
    if run.info.evaluation.protocol != PROTOCOL:
        yield Fault("evaluation.protocol", f"{run.info.evaluation.protocol}; records are compared by {PROTOCOL}")


def evaluation_text(run: RunCase) -> Iterator[Fault]:
    """The texts that were scored are the rung's: their digest, their number, their bytes."""
    expected, evaluation = EVALUATION_SETS.get(run.rung.evaluation_data), run.info.evaluation
    if expected is not None:
        for name in ("texts_sha256", "documents", "bytes"):
            if getattr(evaluation, name) != getattr(expected, name):
                said, right = show(getattr(evaluation, name)), show(getattr(expected, name))
                yield Fault(f"evaluation.{name}", f"{said}; {run.rung.evaluation_data} has {right}")


def tokenizer_used(run: RunCase) -> Iterator[Fault]:
    """The tokenizer is the one that the recipe names, and the texts have as many tokens in it as were scored."""
    (name, facts), evaluation = tokenizer(run.info), run.info.evaluation
    if facts is None:
        return
    if facts.sha256 is not None and evaluation.tokenizer_sha256 != facts.sha256:
        yield Fault("evaluation.tokenizer_sha256", f"{show(evaluation.tokenizer_sha256)} is not that of {name}")
    tokens = facts.evaluation_tokens.get(run.rung.evaluation_data)
    if tokens is not None and evaluation.tokens != tokens:
        yield Fault("evaluation.tokens", f"{evaluation.tokens:,}; {name} makes {tokens:,} of the texts")


def evaluation_verified(run: RunCase) -> Iterator[Fault]:
    """Whether the digests of the rung's texts and of the recipe's tokenizer are known, so that they can be checked."""
    name, facts = tokenizer(run.info)
    if run.index > 0:
        return  # seeds share their recipe: once a record is enough
    if EVALUATION_SETS.get(run.rung.evaluation_data) is None:
        yield Fault("evaluation.texts_sha256", f"evaluation texts unverified: no digest of {run.rung.evaluation_data}")
    if facts is None or facts.sha256 is None:
        yield Fault("evaluation.tokenizer_sha256", f"tokenizer unverified: no digest of {show(name)} is known")


def plausible(run: RunCase) -> Iterator[Fault]:
    """The score is one that a model could reach: no better than any with the rung's budget ever will, no worse than
    guessing every byte at random."""
    value, least = run.info.bits_per_byte, run.rung.least_bits_per_byte
    if value < least:
        yield Fault("bits_per_byte", f"{value:.4f}: no model gets below {least} for the budget of {run.rung.name}")
    elif value > MOST_BITS_PER_BYTE:
        yield Fault("bits_per_byte", f"{value:.4f}: guessing bytes at random gives {MOST_BITS_PER_BYTE}")


def levanter_figure(info: RunInfo, micro: bool) -> float | None:
    """Levanter's own bits per byte on the rung's evaluation."""
    return info.micro_heldout_bpb if micro else info.paloma_c4_en_bpb


def levanter_score(run: RunCase) -> Iterator[Fault]:
    """Levanter's own figure is on record and within 10 % of the score."""
    figure, key = levanter_figure(run.info, run.rung.is_micro), run.rung.levanter_key
    if figure is None:
        yield Fault(key, "it is null: Levanter's own figure on the rung's evaluation is part of the record")
    elif not close(figure, run.info.bits_per_byte, LEVANTER_WITHIN):
        yield Fault(key, f"{figure:.4f} and the score of {run.info.bits_per_byte:.4f} are not of one model")


def training_loss(run: RunCase) -> Iterator[Fault]:
    """The training loss ends near the evaluated nats per token."""
    evaluation, losses = run.info.evaluation, run.log.loss
    if not losses or evaluation.tokens <= 0:
        return
    last = losses[-max(1, len(losses) // 20) :]
    trained, scored = sum(last) / len(last), evaluation.nats / evaluation.tokens
    if not close(trained, scored, LOSS_WITHIN):
        yield Fault("evaluation.nats", f"{scored:.3f} nats per token, while training ended at a loss of {trained:.3f}")


def training_texts(run: RunCase) -> Iterator[Fault]:
    """The training data are those that the recipe or the rung names."""
    said, name = run.info.training_data, training_data(run.info)
    if said.get("name") != name:
        yield Fault("training_data.name", f"{show(said.get('name'))}; the recipe trains on {show(name)}")
    expected = TRAINING_DOCUMENTS_SHA256.get(name)
    if expected is not None and said.get("documents_sha256") != expected:
        yield Fault("training_data.documents_sha256", f"{show(said.get('documents_sha256'))} is not that of {name}")


SCORE_RULES: tuple[Rule[RunCase], ...] = (
    Rule("score", Severity.ERROR, score),
    Rule("protocol", Severity.ERROR, protocol),
    Rule("evaluation-text", Severity.ERROR, evaluation_text),
    Rule("tokenizer", Severity.ERROR, tokenizer_used),
    Rule("evaluation-verified", Severity.NOTE, evaluation_verified),
    Rule("plausible-score", Severity.ERROR, plausible),
    Rule("levanter-score", Severity.ERROR, levanter_score),
    Rule("training-loss", Severity.WARNING, training_loss),
    Rule("training-texts", Severity.ERROR, training_texts),
)
