"""Ways in which a submission can be wrong: (the rule that must find it, what is wrong, how to make it so).

Each breaks one thing in a project that is otherwise as it should be, and carries the change as far as a forger
would, so that only the rule named can find it.
"""

import json
from collections.abc import Callable
from typing import Any

Case = tuple[str, str, Callable[[Any], Any]]


def verification(**more: Any) -> str:
    """A verification of a record that isn't there."""
    content = {
        "candidate": "muonh",
        "rung": "micro_1",
        "seed": 42,
        "run_key": "0" * 16,
        "recorded_bits_per_byte": 1.0,
        "bits_per_byte": 1.0,
        "tolerance": 0.1,
        "noise": "",
        "verdict": "reproduced",
        "source_digest": "",
        "recipe_fingerprint": "",
        "hardware": "cpu",
        "versions": {},
        "verified_by": "B",
        "completed": "2026-11-29 00:00:00 UTC",
    }
    return json.dumps(content | more)


def an_empty_record(tree: Any) -> None:
    tree.put("results/adamw/75m/speedrun_results.json", '{"schema_version": 1, "runs": []}')


def an_edited_preregistration(tree: Any) -> None:
    path = tree.preregister()
    path.write_text(path.read_text().replace("It is better.", "It is much better."))


def another_seeds_key(tree: Any) -> None:
    tree.set("run_key", tree.info("muonh", at=1)["run_key"])


CASES: list[Case] = [
    # Files.
    ("plain-file", "link out of the tree", lambda t: (t.root / "executor_steps" / "x.py").symlink_to("/etc/hostname")),
    ("plain-file", "link to a device", lambda t: (t.folder("adamw") / "sweep.json").symlink_to("/dev/zero")),
    ("file-name", "folder with a shell in it", lambda t: t.put("results/a;rm -rf/.lock", "")),
    ("file-name", "script", lambda t: t.put("results/muonh/micro_1/run.sh", "echo")),
    ("file-name", "no such rung", lambda t: (t.root / "results" / "muonh" / "micro_9").mkdir()),
    ("file-size", "huge file", lambda t: t.put("results/muonh/micro_1/sweep.json", b" " * 1_100_000)),
    ("json", "half a file", lambda t: t.retype(lambda text: text[: len(text) // 2])),
    ("json", "NaN", lambda t: t.retype(lambda text: text.replace('"seed": 42', '"seed": NaN', 1))),
    ("json", "infinity", lambda t: t.retype(lambda text: text.replace('"seed": 42', '"seed": 1e999', 1))),
    (
        "json",
        "endless integer",
        lambda t: t.retype(lambda text: text.replace('"seed": 42', f'"seed": {"9" * 5000}', 1)),
    ),
    ("json", "key twice", lambda t: t.retype(lambda text: text.replace('"seed": 42', '"seed": 1, "seed": 42', 1))),
    ("json", "endless nesting", lambda t: t.retype(lambda text: "[" * 100_000)),
    (
        "json",
        "deep nesting",
        lambda t: t.retype(lambda text: text.replace('"seed": 42', '"x": ' + "[" * 99 + "]" * 99)),
    ),
    ("schema-version", "of the future", lambda t: t.retype(lambda text: text.replace('_version": 1', '_version": 2'))),
    ("schema-version", "none", lambda t: t.retype(lambda text: text.replace(', "schema_version": 1', ""))),
    ("schema", "FLOPs as text", lambda t: t.set("model_flops", "6.41e+17")),
    ("schema", "null score", lambda t: t.set("bits_per_byte", None)),
    ("schema", "no evaluation", lambda t: t.edit(lambda info: info.pop("evaluation"))),
    ("has-runs", "none", an_empty_record),
    ("stray-file", "log of no run", lambda t: t.put("results/muonh/micro_1/steps-99.jsonl.gz", b"")),
    ("stray-file", "documents of no run", lambda t: t.put("results/muonh/micro_1/documents-9.json.gz", b"")),
    ("sweep-file", "no sweep", lambda t: t.put("results/muonh/micro_1/sweep.json", '{"points": 3}')),
    ("verification-file", "none", lambda t: t.put("results/muonh/micro_1/verification-42.json", "{}")),
    ("verification-file", "another's", lambda t: t.put("results/muonh/micro_1/verification-42.json", verification())),
    ("attempts-file", "none", lambda t: t.put("results/muonh/micro_1/attempts.jsonl", '{"event": "started"}\n')),
    ("candidate-file", "no Python", lambda t: t.put("executor_steps/broken.py", "def (:\n")),
    ("candidate-file", "two", lambda t: t.put("executor_steps/two.py", "CANDIDATE = 1\nCANDIDATE = 2\n")),
    ("preregistration-intact", "none", lambda t: t.put("preregistrations/adamw.md", "# We will win\n")),
    ("preregistration-intact", "edited", an_edited_preregistration),
    # Whose, and of what.
    ("place", "another candidate's", lambda t: t.set("candidate", "adamw")),
    ("authors", "nobody", lambda t: t.set("authors", [], at=None)),
    ("authors", "without a name", lambda t: t.sign(name=" ")),
    ("authors", "another first", lambda t: t.set("author name", "Somebody Else")),
    ("author-swapped", "address as name", lambda t: t.sign(name="https://x.example/y")),
    (
        "author-swapped",
        "person as affiliation",
        lambda t: t.sign(name="Example University", affiliation="Ada B. Lovelace"),
    ),
    ("links", "one that runs", lambda t: t.sign(url="javascript:alert(1)")),
    ("links", "with a password", lambda t: t.set("wandb_run_link", "https://me:secret@wandb.ai/x")),
    ("links", "to a file", lambda t: t.set("wandb_run_link", "file:///etc/passwd")),
    ("links", "with markup", lambda t: t.set("wandb_run_link", 'https://x.example/"><script>')),
    ("plain-text", "turned around", lambda t: t.set("description", "better\u202e worse", at=None)),
    ("plain-text", "terminal's escape", lambda t: t.set("description", "\x1b[31mred", at=None)),
    ("plain-text", "endless", lambda t: t.sign(affiliation="x" * 5000)),
    ("digests", "commit", lambda t: t.set("git_commit", "HEAD; rm -rf")),
    ("digests", "fingerprint", lambda t: t.set("run_key", "xyz")),
    ("run-key", "none's", lambda t: t.set("run_key", "0123456789abcdef")),
    ("run-key", "another seed's", another_seeds_key),
    ("source", "changed", lambda t: t.put("executor_steps/muonh.py", "CANDIDATE = 2  # changed\n")),
    ("source", "gone", lambda t: (t.root / "executor_steps" / "muonh.py").unlink()),
    ("overrides", "under its own name", lambda t: t.set("overrides", {"optimizer.beta1": 0.5}, at=None)),
    ("versions", "not named", lambda t: t.set("versions jax", "")),
    ("rung-data-only", "own texts", lambda t: t.set("corpus", "user")),
    ("rung-data-only", "another evaluation", lambda t: t.set("evaluation_data", "c4_en_proxy")),
    ("clean-tree", "dirty", lambda t: t.set("git_dirty", True)),
]
