"""Ways in which a submission can be wrong: (the rule that must find it, what is wrong, how to make it so).

Each breaks one thing in a project that is otherwise as it should be, and carries the change as far as a forger
would, so that only the rule named can find it.
"""

import json
import math
from collections.abc import Callable
from typing import Any

Case = tuple[str, str, Callable[[Any], Any]]


def score_of(score: float) -> Callable[[Any], None]:
    """A score that agrees with itself, and with the training loss."""

    def apply(tree: Any) -> None:
        nats = score * math.log(2) * 493_271
        tree.rescore(nats, nats / math.log(2) / 493_271)
        tree.edit_log(lambda rows: [row.update(loss=nats / 158_307) for row in rows[-10:]])

    return apply


def tokens_of_half_the_batch(tree: Any) -> None:
    def change(info: dict[str, Any]) -> None:
        info["total_tokens"] //= 2
        info["model_flops"] /= 2
        info["tokens_per_second"] /= 2

    tree.edit(change)


def flops_of_half_the_model(tree: Any) -> None:
    def change(info: dict[str, Any]) -> None:
        info["model_flops_per_token"] /= 2
        info["model_flops"] /= 2

    tree.edit(change)


def a_model_of_its_own(tree: Any) -> None:
    tree.set("model_config type", "executor_steps.muonh.Gated", at=None)


def nothing_counted(tree: Any) -> None:
    a_model_of_its_own(tree)
    tree.set("model_size", -1, at=None)
    checked(tree, 1.0)


def flops_that_check_counted_twice(tree: Any) -> None:
    a_model_of_its_own(tree)
    checked(tree, 2.0)


def meters_on_record(tree: Any, factor: float, optimizer: float) -> None:
    """All meters say ``factor`` times what was charged, and the optimizer takes ``optimizer`` FLOPs."""
    says = factor * tree.info("muonh")["model_flops_per_token"]
    names = ("convention", "causal", "traced")
    flops = {f"{name}_forward_flops_per_token": says for name in names} | {"optimizer_flops_per_step": optimizer}
    tree.set("flops", flops, at=None)


def checked(tree: Any, factor: float) -> None:
    """Gate 1's result is there, and counted ``factor`` times the FLOPs on record."""
    info = tree.info("muonh")
    counted = {"rung": "micro_1", "forward_flops_per_token": factor * info["model_flops_per_token"]}
    tree.put("results/muonh/check.json", json.dumps({"source_digest": info["source_digest"], "rungs": [counted]}))


def over_the_budget(tree: Any) -> None:
    """Twice the batch, consistently."""

    def change(info: dict[str, Any]) -> None:
        for name in ("total_tokens", "model_flops", "tokens_per_second"):
            info[name] *= 2
        info["train_config"]["batch_size"] *= 2

    tree.edit(change, at=None)
    for seed, at in ((42, 0), (43, 1)):
        rows = tree.log_rows(seed=seed)
        for row in rows:
            row["tokens"] *= 2
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        tree.write_log("muonh", "micro_1", seed, text)
        import hashlib

        tree.set("step_log sha256", hashlib.sha256(text).hexdigest(), at=at)


def cores_counted_as_chips(tree: Any) -> None:
    """v5p-8 has 8 cores and 4 chips; every figure follows from the 8."""

    def change(info: dict[str, Any]) -> None:
        info.update(num_chips=8, num_devices=8, mfu=info["mfu"] / 2)
        info["attempts"][0]["num_chips"] = 8
        info["training_hardware_flops"] *= 2

    tree.edit(change, rung="30m")


def an_a100_with_an_h100s_peak(tree: Any) -> None:
    tree.on("a100-80gx8", "a100-80g", of="adamw", rung="30m")
    info = tree.info("adamw", "30m")
    tree.set("training_hardware_flops", info["training_time"] * 8 * 312e12, of="adamw", rung="30m")


def faster_than_the_peak(tree: Any) -> None:
    """A tenth of the time, throughout."""
    info, rows = tree.info("muonh", "30m"), tree.log_rows(rung="30m")
    for row in rows[1:]:
        row["seconds"] = round(row["seconds"] / 10, 4)
    rows[0]["seconds"] -= 0.0001
    steady = sum(row["seconds"] for row in rows) - info["compile_time"]
    tree.relog(rows, rung="30m")
    tree.retime(steady, info["compile_time"], rung="30m")


def more_seconds_than_there_were(tree: Any) -> None:
    tree.edit(lambda info: info.update(run_completion_timestamp=info["attempts"][0]["started"]))


def attempts_with_a_gap(tree: Any) -> None:
    rows = tree.log_rows()
    for row in rows:
        row["attempt"] = 1 if row["step"] < 60 else 2
    tree.relog(rows)
    spent = [sum(row["seconds"] for row in rows if row["attempt"] == number) for number in (1, 2)]

    def change(info: dict[str, Any]) -> None:
        spent[1] += info["training_time"] - sum(spent)
        first = info["attempts"][0] | {"started": "2026-05-01 08:00:00 UTC", "last_step": 50, "seconds": spent[0]}
        second = first | {"number": 2, "started": "2026-05-01 09:00:00 UTC", "first_step": 60, "last_step": 126}
        info["attempts"] = [first, second | {"seconds": spent[1]}]
        info["run_completion_timestamp"] = "2026-05-01 10:00:00 UTC"
        info["spent_time"] = sum(spent)

    tree.edit(change)


def an_attempt_numbered_7(tree: Any) -> None:
    tree.set("attempts 0 number", 7)
    tree.edit_log(lambda rows: [row.update(attempt=7) for row in rows])


def a_tokenizer_of_its_own(tree: Any) -> None:
    tree.set("train_config tokenizer", "my/tokenizer", at=None)
    checked(tree, 1.0)


def a_step_log_cut_short(tree: Any) -> None:
    tree.edit_log(lambda rows: rows.__delitem__(slice(60, 70)))


def a_step_in_no_time(tree: Any) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[8]["seconds"] = round(rows[8]["seconds"] + rows[7]["seconds"], 4)
        rows[7]["seconds"] = 0.0

    tree.edit_log(change)


def a_seed_left_out(tree: Any) -> None:
    content = tree.content("muonh")
    del content["runs"][0]
    tree.write("muonh", "micro_1", content)
    (tree.folder("muonh") / "steps-42.jsonl.gz").unlink()
    (tree.folder("muonh") / "documents-42.json.gz").unlink()
    tree.edit_attempts(lambda lines: lines.__delitem__(slice(0, 2)))


def a_seed_twice(tree: Any) -> None:
    content = tree.content("muonh")
    content["runs"].append(content["runs"][1])
    tree.write("muonh", "micro_1", content)


def one_run_under_two_seeds(tree: Any) -> None:
    other = tree.info("muonh", at=1)
    tree.rescore(other["evaluation"]["nats"], other["bits_per_byte"])


def a_seed_that_was_dropped(tree: Any) -> None:
    tree.edit_attempts(lambda lines: lines.append(lines[0] | {"seed": 44, "attempt": "feedbeef0000"}))


def the_best_of_two_recipes(tree: Any) -> None:
    other = {"recipe_fingerprint": "9" * 64, "attempt": "feedbeef0000", "overrides": {"optimizer.learning_rate": 1.0}}
    tree.edit_attempts(lambda lines: lines.append(lines[0] | other))


def anothers_score(tree: Any) -> None:
    other = tree.info("adamw")
    tree.rescore(other["evaluation"]["nats"], other["bits_per_byte"])


def anothers_times(tree: Any) -> None:
    """The baseline's times, with a step log whose seconds make the same sum."""
    other, rows = tree.info("adamw"), tree.log_rows()
    for row, theirs in zip(rows, tree.log_rows("adamw"), strict=True):
        row["seconds"] = theirs["seconds"]
    tree.relog(rows)
    tree.retime(other["steady_time"], other["compile_time"])
    tree.set("training_time", other["training_time"])
    tree.set("compile_time", other["training_time"] - other["steady_time"])


def anothers_moments(tree: Any) -> None:
    other = tree.info("adamw")
    tree.set("attempts 0 started", other["attempts"][0]["started"])
    tree.set("run_completion_timestamp", other["run_completion_timestamp"])


def anothers_step_log(tree: Any) -> None:
    """The whole step log of the baseline, to which time and score were bent."""
    other = tree.info("adamw")
    tree.relog(tree.log_rows("adamw"))
    tree.retime(other["steady_time"] + 2e-3, other["compile_time"])
    nats = other["evaluation"]["nats"] * 1.001
    tree.rescore(nats, nats / math.log(2) / 493_271)


def anothers_figures_touched(tree: Any) -> None:
    """The baseline's score and time, each changed in a late digit, and everything that follows from them."""
    other = tree.info("adamw")
    nats = other["evaluation"]["nats"] * (1 + 2e-6)
    tree.rescore(nats, nats / math.log(2) / 493_271)
    rows = tree.log_rows("adamw")
    rows[3]["seconds"] = round(rows[3]["seconds"] + 0.0002, 4)
    tree.relog(rows)
    tree.retime(other["steady_time"] + 0.0002, other["compile_time"])


def anothers_recipe(tree: Any) -> None:
    for at in range(2):
        other = tree.info("adamw", at=at)
        same = {key: other[key] for key in ("recipe_fingerprint", "run_key")}
        tree.edit(lambda info, same=same: info.update(same), at=at)
    recipe = {"recipe_fingerprint": tree.info("adamw")["recipe_fingerprint"]}
    tree.edit_attempts(lambda lines: [line.update(recipe) for line in lines if "recipe_fingerprint" in line])


def name_and_affiliation_the_other_way_round(tree: Any) -> None:
    tree.sign(name="Beacon Point", affiliation="Kim Lee Park")
    author = {"name": "Kim Lee Park", "affiliation": "Beacon Point", "url": ""}
    tree.edit(lambda info: info.update(author=author, authors=[author]), of="adamw", at=None)


def reevaluate(tree: Any, **figures: Any) -> None:
    """Change the evaluation, and the documents file with it."""
    tree.set("evaluation", lambda evaluation: evaluation | figures)
    tree.redocument()


def a_probe_with_a_limit_of_its_own(tree: Any) -> None:
    tree.edit(lambda info: info["evaluation"]["probes"][1].update(value=1.0, limit=2.0))


def a_document_that_took_less(tree: Any) -> None:
    documents = json.loads(tree.documents_text(tree.info("muonh")))
    documents["nats"][3] -= 1
    tree.redocument(json.dumps(documents).encode())


CASES: list[Case] = [
    # FLOPs.
    ("recipe-on-record", "batch as text", lambda t: t.set("train_config batch_size", "8", at=None)),
    ("recipe-on-record", "no steps", lambda t: t.set("train_config steps", None, at=None)),
    ("positive", "negative parameters", nothing_counted),
    ("tokens", "of half the batch", tokens_of_half_the_batch),
    ("model-flops", "half", lambda t: t.set("model_flops", lambda flops: flops / 2)),
    ("flops-per-token", "of half the model", flops_of_half_the_model),
    ("flops-per-token", "counted otherwise by check", flops_that_check_counted_twice),
    ("flops-verified", "no formula", a_model_of_its_own),
    ("flops-meters", "no meter says so", lambda t: meters_on_record(t, 2.0, 0.0)),
    ("flops-meters", "an optimizer that gives FLOPs back", lambda t: meters_on_record(t, 1.0, -1.0)),
    ("flops-meters", "more active than all", lambda t: t.set("active_parameters", 10**9, at=None)),
    ("rung-budget", "another", lambda t: t.set("budget_flops", 1e20)),
    ("within-budget", "twice", over_the_budget),
    ("model-size", "another model's", lambda t: t.set("model_size", 10**9, at=None)),
    # Hardware.
    ("hardware-known", "nobody's", lambda t: t.on("my-gpux4", "my-gpu", rung="30m")),
    ("chips", "cores", cores_counted_as_chips),
    ("chips", "hosts", lambda t: t.set("resources hosts", 2, rung="30m")),
    ("peak", "another accelerator's", an_a100_with_an_h100s_peak),
    ("hardware-flops", "another figure", lambda t: t.set("training_hardware_flops", 1e18, rung="30m")),
    ("hardware-flops", "on a CPU", lambda t: t.set("training_hardware_flops", 1e18)),
    ("utilisation", "another figure", lambda t: t.set("mfu", 0.5, rung="30m")),
    ("utilisation", "on a CPU", lambda t: t.set("mfu", 0.5)),
    ("utilisation", "beyond the peak", faster_than_the_peak),
    # Time.
    ("durations", "spent", lambda t: t.set("spent_time", 1e6)),
    ("throughput", "another figure", lambda t: t.set("tokens_per_second", 1e9)),
    ("timestamps", "no moment", lambda t: t.set("run_completion_timestamp", "2026-13-41 99:00:00 UTC")),
    ("timestamps", "in the future", lambda t: t.set("run_completion_timestamp", "2099-01-01 00:00:00 UTC")),
    ("timestamps", "long past", lambda t: t.set("attempts 0 started", "1999-01-01 00:00:00 UTC")),
    ("time-order", "complete before it began", lambda t: t.set("run_completion_timestamp", "2026-01-01 00:00:00 UTC")),
    ("wall-clock", "more seconds than there were", more_seconds_than_there_were),
    ("attempts", "gap", attempts_with_a_gap),
    ("attempts", "numbered 7", an_attempt_numbered_7),
    # The score.
    ("score", "two of them", lambda t: t.set("bits_per_byte", lambda score: score - 0.01)),
    ("score", "that does not follow", lambda t: reevaluate(t, nats=t.info("muonh")["evaluation"]["nats"] * 0.99)),
    ("protocol", "another", lambda t: t.set("evaluation protocol", 2)),
    ("evaluation-text", "other texts", lambda t: t.set("evaluation texts_sha256", "0" * 64)),
    ("evaluation-text", "fewer documents", lambda t: reevaluate(t, documents=3)),
    ("tokenizer", "another", lambda t: t.set("evaluation tokenizer_sha256", "0" * 64)),
    ("tokenizer", "fewer tokens", lambda t: reevaluate(t, tokens=158_000)),
    ("evaluation-verified", "unknown tokenizer", a_tokenizer_of_its_own),
    ("plausible-score", "beyond any model", score_of(0.02)),
    ("plausible-score", "worse than chance", score_of(9.0)),
    ("levanter-score", "none", lambda t: t.set("eval/micro/heldout/bpb", None)),
    ("levanter-score", "another model's", lambda t: t.set("eval/micro/heldout/bpb", 1.5)),
    ("training-loss", "ends elsewhere", lambda t: t.edit_log(lambda rows: [r.update(loss=2.0) for r in rows[-20:]])),
    ("training-texts", "others", lambda t: t.set("training_data documents_sha256", "0" * 64)),
    # Documents and probes.
    ("documents-file", "gone", lambda t: (t.folder("muonh") / "documents-42.json.gz").unlink()),
    ("documents-file", "none on record", lambda t: t.set("evaluation documents_file", None)),
    ("documents-file", "no gzip", lambda t: t.put("results/muonh/micro_1/documents-42.json.gz", b"hello")),
    ("documents-file", "one list too few", lambda t: t.redocument(b'{"nats":[],"tokens":[]}')),
    ("documents-file", "lists of two lengths", lambda t: t.redocument(b'{"nats":[1],"tokens":[1],"bytes":[]}')),
    ("documents-file", "negative", lambda t: t.redocument(b'{"nats":[1],"tokens":[-1],"bytes":[1]}')),
    ("documents-file", "infinity", lambda t: t.redocument(b'{"nats":[1e999],"tokens":[1],"bytes":[1]}')),
    ("documents-file", "words", lambda t: t.redocument(b'{"nats":["1"],"tokens":[1],"bytes":[1]}')),
    ("documents-file", "another", lambda t: t.set("evaluation documents_file sha256", "0" * 64)),
    ("documents-sums", "one document's nats", a_document_that_took_less),
    ("probes", "none", lambda t: t.set("evaluation probes", [])),
    ("probes", "one left out", lambda t: t.set("evaluation probes", lambda probes: probes[1:])),
    ("probes", "that sees ahead", lambda t: t.set("evaluation probes 1 value", 0.5)),
    (
        "probes",
        "by a limit of its own",
        a_probe_with_a_limit_of_its_own,
    ),
    ("probes", "that says so", lambda t: t.set("evaluation probes 1 passed", False)),
    # The step log.
    ("step-log", "gone", lambda t: (t.folder("muonh") / "steps-42.jsonl.gz").unlink()),
    ("step-log", "no gzip", lambda t: t.put("results/muonh/micro_1/steps-42.jsonl.gz", b"hello")),
    ("step-log", "NaN", lambda t: t.edit_log(lambda rows: rows[5].update(loss=float("nan")))),
    ("step-log-digest", "another", lambda t: t.set("step_log sha256", "0" * 64)),
    ("step-log-length", "cut short", a_step_log_cut_short),
    ("step-log-length", "incomplete", lambda t: t.set("step_log complete", False)),
    ("step-log-order", "step in no time", a_step_in_no_time),
    ("step-log-tokens", "that jump", lambda t: t.edit_log(lambda rows: rows[7].update(tokens=rows[7]["tokens"] + 1))),
    ("step-log-times", "other sum", lambda t: t.edit_log(lambda rows: rows[7].update(seconds=rows[7]["seconds"] + 1))),
    ("step-log-times", "unlisted attempt", lambda t: t.edit_log(lambda rows: rows[7].update(attempt=2))),
    # Seeds and attempts.
    ("seeds-distinct", "twice", a_seed_twice),
    ("seeds-complete", "one left out", a_seed_left_out),
    ("one-recipe", "two", lambda t: t.set("train_config z_loss_weight", 1e-4)),
    ("seeds-differ", "one run under two seeds", one_run_under_two_seeds),
    ("attempts-on-record", "no list", lambda t: (t.folder("muonh") / "attempts.jsonl").unlink()),
    ("attempts-on-record", "not listed", lambda t: t.edit_attempts(lambda lines: lines.__delitem__(slice(0, 2)))),
    ("seeds-started", "and dropped", a_seed_that_was_dropped),
    ("recipes-tried", "best of two", the_best_of_two_recipes),
    ("preregistered", "after it had run", lambda t: t.preregister(registered="2026-09-30 00:00:00 UTC")),
    ("changed-since", "other batch", lambda t: t.preregister(fingerprint="f" * 64)),
    # Copies.
    ("copied-link", "another's", lambda t: t.set("wandb_run_link", t.info("adamw")["wandb_run_link"])),
    ("copied-score", "another's", anothers_score),
    ("copied-times", "another's", anothers_times),
    ("copied-step-log", "another's", anothers_step_log),
    ("copied-moments", "another's", anothers_moments),
    ("near-copy", "figures touched", anothers_figures_touched),
    ("same-recipe", "another's", anothers_recipe),
    ("names-swapped", "in another record", name_and_affiliation_the_other_way_round),
]
