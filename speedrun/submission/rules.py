"""The table of rules, whole, and docs/rules.md made from it."""

from collections.abc import Iterator
from typing import Any

from speedrun.submission.rule import Rule
from speedrun.submission.rules_change import CHANGE_RULES
from speedrun.submission.rules_copies import COPY_RULES
from speedrun.submission.rules_evaluation import EVALUATION_RULES
from speedrun.submission.rules_files import CANDIDATE_RULES, ENTRY_RULES, FOLDER_FILE_RULES
from speedrun.submission.rules_flops import FLOPS_RULES
from speedrun.submission.rules_hardware import HARDWARE_RULES
from speedrun.submission.rules_identity import IDENTITY_RULES
from speedrun.submission.rules_score import SCORE_RULES
from speedrun.submission.rules_seeds import SEED_RULES
from speedrun.submission.rules_steps import STEP_RULES
from speedrun.submission.rules_time import TIME_RULES

FOLDER_RULES = (*FOLDER_FILE_RULES, *SEED_RULES)
RUN_RULES = (*IDENTITY_RULES, *FLOPS_RULES, *HARDWARE_RULES, *TIME_RULES, *SCORE_RULES, *EVALUATION_RULES, *STEP_RULES)

SECTIONS: tuple[tuple[str, tuple[Rule[Any], ...]], ...] = (
    ("Files", (*ENTRY_RULES, *CANDIDATE_RULES, *FOLDER_FILE_RULES)),
    ("Whose it is, and of what", IDENTITY_RULES),
    ("Model FLOPs", FLOPS_RULES),
    ("Hardware", HARDWARE_RULES),
    ("Time", TIME_RULES),
    ("The score", SCORE_RULES),
    ("Behind the score: documents and probes", EVALUATION_RULES),
    ("The step log", STEP_RULES),
    ("Seeds, attempts, preregistration", SEED_RULES),
    ("Against all other records", COPY_RULES),
    ("The change as a whole (with `--base`)", CHANGE_RULES),
)

_INTRODUCTION = """\
# What `speedrun validate` checks

Written by `speedrun validate --rules`; don't edit it by hand.

An **error** refuses the submission. A **warning** must be looked at by a reviewer. A **note** is nothing wrong, but
readers should know: it becomes a badge. A field that no rule knows is kept, and is no error.

What no rule can see: a record that was forged consistently, every figure and the step log with it, passes until
somebody runs it again, and an `attempts.jsonl` can be deleted or shortened. What settles both is
`speedrun reproduce`, and the badge "reproduced".
"""


def all_rules() -> Iterator[Rule[Any]]:
    """Every rule, in the table's order."""
    for _, rules in SECTIONS:
        yield from rules


def rules_markdown() -> str:
    """docs/rules.md."""
    parts = [_INTRODUCTION]
    for title, rules in SECTIONS:
        header = [f"## {title}", "", "| rule | a fault is | what it checks |", "|---|---|---|"]
        rows = [f"| `{rule.id}` | {rule.severity} | {rule.what} |" for rule in rules]
        parts.append("\n".join([*header, *rows, ""]))
    return "\n".join(parts)
