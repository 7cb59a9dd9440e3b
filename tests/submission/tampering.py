"""What tests do to a project's records: change a field, a step log, a list of attempts, and what follows from it.

Mixed into factory.Tree by conftest.py.
"""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def key_of(*parts: object) -> str:
    """The key of a run, of its fingerprint, rung, seed and hardware."""
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:16]


class Tampering:
    """Changes to the records of ``muonh`` at micro_1, unless said otherwise."""

    root: Path
    folder: Callable[..., Path]
    content: Callable[..., dict[str, Any]]
    info: Callable[..., dict[str, Any]]
    write: Callable[..., None]
    write_log: Callable[..., None]
    write_documents: Callable[..., None]
    documents_text: Callable[[dict[str, Any]], bytes]

    def edit(
        self, change: Callable[[dict[str, Any]], Any], *, at: int | None = 0, rung: str = "micro_1", of: str = "muonh"
    ) -> None:
        """Change the ``run_info`` of one run in place, or of every run when ``at`` is None."""
        content = self.content(of, rung)
        for run in content["runs"] if at is None else [content["runs"][at]]:
            change(run["run_info"])
        self.write(of, rung, content)

    def set(self, path: str, value: Any, **where: Any) -> None:
        """Set a field, given with spaces between its parts; a function is applied to what is there."""

        def change(info: dict[str, Any]) -> None:
            *way, last = path.split(" ")
            owner: Any = info
            for key in way:
                owner = owner[int(key) if key.isdigit() else key]
            owner[last] = value(owner[last]) if callable(value) else value

        self.edit(change, **where)

    def sign(self, **author: str) -> None:
        """Give both runs another author."""
        self.edit(lambda info: info.update(author=info["author"] | author), at=None)
        self.edit(lambda info: info.update(authors=[info["author"]]), at=None)

    def put(self, path: str, content: str | bytes) -> None:
        """Write a file."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def retype(self, change: Callable[[str], str]) -> None:
        """Change the text of a results file."""
        self.write("muonh", "micro_1", change(json.dumps(self.content("muonh"))))

    def rescore(self, nats: float, score: float) -> None:
        """Give the first run another score, whole."""

        def change(info: dict[str, Any]) -> None:
            info["evaluation"].update(nats=nats, bits_per_byte=score)
            info.update({"bits_per_byte": score, "eval/micro/heldout/bpb": score * 0.999})

        self.edit(change)
        self.redocument()

    def redocument(self, text: bytes | None = None) -> None:
        """Put a documents file beside the first run that adds up to its evaluation, with the digest to match."""
        text = self.documents_text(self.info("muonh")) if text is None else text
        self.write_documents("muonh", "micro_1", 42, text)
        self.set("evaluation documents_file sha256", hashlib.sha256(text).hexdigest())

    def retime(self, steady: float, compiling: float, **where: Any) -> None:
        """Give the first run other times, and all that follows from them but the step log."""

        def change(info: dict[str, Any]) -> None:
            training = steady + compiling
            info.update(steady_time=steady, compile_time=compiling, training_time=training, spent_time=training)
            info["attempts"][0]["seconds"] = training
            info["tokens_per_second"] = info["total_tokens"] / steady
            if info["device_flops"]:
                rate = info["num_chips"] * info["device_flops"]
                info.update(mfu=info["model_flops"] / steady / rate, training_hardware_flops=training * rate)

        self.edit(change, **where)

    def on(self, hardware: str, accelerator: str, **where: Any) -> None:
        """Say that the first run ran on other hardware, its key included."""

        def change(info: dict[str, Any]) -> None:
            info["resources"].update(hardware=hardware, accelerator=accelerator)
            info["attempts"][0]["hardware"] = hardware
            info["run_key"] = key_of(info["recipe_fingerprint"], info["rung"], info["seed"], hardware)

        self.edit(change, **where)

    def log_rows(self, of: str = "muonh", rung: str = "micro_1", seed: int = 42) -> list[dict[str, Any]]:
        """The rows of a step log."""
        text = gzip.decompress((self.folder(of, rung) / f"steps-{seed}.jsonl.gz").read_bytes())
        return [json.loads(line) for line in text.splitlines()]

    def relog(self, rows: list[dict[str, Any]], rung: str = "micro_1") -> None:
        """Put other rows into the first run's step log, with the digest on record to match."""
        text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()
        self.write_log("muonh", rung, 42, text)
        self.set("step_log sha256", hashlib.sha256(text).hexdigest(), rung=rung)

    def edit_log(self, change: Callable[[list[dict[str, Any]]], Any]) -> None:
        """Change the rows of the first run's step log."""
        rows = self.log_rows()
        change(rows)
        self.relog(rows)

    def edit_attempts(self, change: Callable[[list[dict[str, Any]]], Any]) -> None:
        """Change the lines of attempts.jsonl."""
        path = self.folder("muonh") / "attempts.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        change(lines)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def preregister(self, fingerprint: str = "", registered: str = "2026-02-01 00:00:00 UTC") -> Path:
        """Preregister the candidate's recipes, that of micro_1 with another batch when given a ``fingerprint``."""
        from speedrun.records.preregistrations import sealed

        rungs = {}
        for rung in ("micro_1", "micro_2", "30m"):
            info = self.info("muonh", rung)
            other = rung == "micro_1" and fingerprint
            rungs[rung] = {
                "recipe_fingerprint": fingerprint if other else info["recipe_fingerprint"],
                "model_settings": info["model_config"],
                "train_settings": info["train_config"] | ({"batch_size": 16} if other else {}),
                "versions": info["versions"],
                "tokens": info["total_tokens"],
                "model_flops": info["model_flops"],
                "seeds": [42, 43],
            }
        plan = {
            "schema_version": 1,
            "candidate": "muonh",
            "baseline": "adamw",
            "registered": registered,
            "source_digest": "0" * 64,
            "expected_gain": 0.1,
            "smallest_gain": 0.02,
            "hardware": "cpu",
            "rungs": rungs,
        }
        path = self.root / "preregistrations" / "muonh.md"
        path.parent.mkdir(exist_ok=True)
        body = f"## Hypothesis\n\nIt is better.\n\n```json\n{json.dumps(plan)}\n```"
        path.write_text(sealed("Preregistration: muonh", body, 7))
        return path
