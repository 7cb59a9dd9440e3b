"""The difference between two candidates over documents, from the files beside their records."""

import gzip
import hashlib
import json
import math

import pytest

from speedrun.board.pair_sheets import report_sheets
from speedrun.board.pairs import report
from speedrun.board.text import markdown


@pytest.fixture
def measured(writer):
    """Two candidates with two seeds each on four documents of ten bytes each, whose bits are known."""
    bits = {("adamw", 42): (20, 20, 20, 20), ("adamw", 43): (22, 22, 22, 22)}
    bits |= {("faster", 42): (19, 18, 19, 18), ("faster", 43): (19, 20, 19, 20)}

    def keep(info) -> None:
        own = [count * math.log(2) for count in bits[info["candidate"], info["seed"]]]
        text = json.dumps({"nats": own, "tokens": [5] * 4, "bytes": [10] * 4}).encode()
        folder = writer.project.results / info["candidate"] / info["rung"]
        (folder / f"documents-{info['seed']}.json.gz").write_bytes(gzip.compress(text, mtime=0))
        info["evaluation"]["documents_file"]["sha256"] = hashlib.sha256(text).hexdigest()

    for name, gain in (("adamw", 1.0), ("faster", 1.3)):
        for rung in ("micro_1", "micro_2", "micro_3"):
            writer.arm(name, rung, gain, seeds=2, change=keep)
    return writer


def test_the_difference_over_documents_is_paired_and_has_students_interval(measured) -> None:
    (pair,) = report(measured.project, ["faster"], None).steps
    found = pair.rungs[0].over_documents
    # Means of seeds: 21 bits a document against 19, 19, 19 and 19; 2 bits less on each ten bytes, without exception.
    assert (found.value, found.low, found.high) == pytest.approx((-0.2, -0.2, -0.2))
    text = "\n".join(markdown(sheet) for sheet in report_sheets(report(measured.project, ["faster"], None)))
    assert "-0.2000 \\[-0.2000, -0.2000]" in text and "knows nothing of seeds" in text


@pytest.mark.parametrize("spoil", ["missing", "changed", "damaged", "no digest"])
def test_without_the_right_file_there_is_a_reason(measured, spoil: str) -> None:
    folder = measured.project.results / "faster" / "micro_1"
    file, record = folder / "documents-42.json.gz", folder / "speedrun_results.json"
    if spoil == "missing":
        file.unlink()
    elif spoil == "changed":
        text = gzip.decompress(file.read_bytes()).replace(b"5", b"6")
        file.write_bytes(gzip.compress(text))
    elif spoil == "damaged":
        file.write_bytes(b"no gzip")
    else:
        content = json.loads(record.read_text())
        content["runs"][0]["run_info"]["evaluation"]["documents_file"] = None
        record.write_text(json.dumps(content))
    (pair,) = report(measured.project, ["faster"], None).steps
    assert pair.rungs[0].over_documents.value is None
    assert "faster at micro_1, seed 42" in pair.rungs[0].over_documents.reason
    assert pair.rungs[1].over_documents.value is not None
