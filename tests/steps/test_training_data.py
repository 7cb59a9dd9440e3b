"""Filters, mixtures and tokenizers of its own: what is kept and counted, what is refused, what tells recipes apart."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep
from marin.experiment.data import hf_download, tokenized

from speedrun import Documents, Filtered, Mixture, Tokenizer, reference
from speedrun.errors import SpeedrunError, UnknownNameError
from speedrun.identity import recipe_fingerprint, texts_digest
from speedrun.ladder import LADDER
from speedrun.steps.corpus import read_documents
from speedrun.steps.data import RungData, rung_data
from speedrun.steps.derived import ChooseJob, filtered
from tests.conftest import Cli

MICRO, STANDARD = LADDER["micro_1"], LADDER["30m"]


def is_even(document: Any) -> bool:
    return len(document["text"]) % 2 == 0


def is_odd(document: Any) -> bool:
    return not is_even(document)


def keeps_nothing(document: Any) -> bool:
    return False


def fails(document: Any) -> bool:
    return document["label"] == "good"


def corpus_step(name: str = "corpus/mine") -> ArtifactStep[Artifact]:
    return ArtifactStep(
        name=name, version="2026.11.30", artifact_type=Artifact, run=lambda config: None, build_config=lambda ctx: {}
    )


def run_filter(keep: Any, folder: Path, files: dict[str, list[str]]) -> dict[str, Any]:
    """What the filter leaves of ``files``: its summary."""
    for name, texts in files.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in texts).encode()))
    step = filtered("mine", corpus_step(), "**/*.jsonl.gz", keep)
    step.run(ChooseJob(str(folder / "in"), str(folder / "out")))
    return json.loads((folder / "out" / "corpus.json").read_text())


def test_a_filter_keeps_what_it_says_and_counts_it(tmp_path: Path) -> None:
    summary = run_filter(is_even, tmp_path, {"a/x.jsonl.gz": ["aa", "b", "ÄÄ"], "b/x.jsonl.gz": ["c", "dd"]})
    kept = {path.name: read_documents(str(path)) for path in (tmp_path / "out").glob("*.jsonl.gz")}
    assert kept == {"a-x.jsonl.gz": [{"text": "aa"}, {"text": "ÄÄ"}], "b-x.jsonl.gz": [{"text": "dd"}]}
    assert (summary["train_documents"], summary["train_bytes"]) == (3, 2 + 4 + 2)
    told = summary["filter"]
    assert (told["of"], told["documents"], told["bytes"]) == ("mine", 5, 10)
    assert told["kept_share_of_documents"] == 0.6
    assert told["kept_share_of_bytes"] == 0.8
    assert told["keep"]["function"].endswith("is_even")


@settings(deadline=None, max_examples=25)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1))
def test_two_opposite_filters_share_the_documents_between_them(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    texts = [*texts, "a", "bb"]
    kept = []
    for keep in (is_even, is_odd):
        folder = tmp_path_factory.mktemp("filter")
        summary = run_filter(keep, folder, {"train.jsonl.gz": texts})
        kept.append([document["text"] for document in read_documents(str(folder / "out" / "train.jsonl.gz"))])
        assert summary["train_documents"] == len(kept[-1])
        counts = json.loads((folder / "out" / "train.counts.json").read_text())
        assert counts["sha256"] == texts_digest(kept[-1])
    assert kept == [[t for t in texts if len(t) % 2 == 0], [t for t in texts if len(t) % 2]]


def test_a_filter_that_fails_or_keeps_nothing_is_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(SpeedrunError, match=r"fails at document 1 of train: KeyError: 'label' .*test_training_data.py"):
        run_filter(fails, tmp_path / "fails", {"train.jsonl.gz": ["x"]})
    with pytest.raises(SpeedrunError, match="keeps none of its 2 documents"):
        run_filter(keeps_nothing, tmp_path / "none", {"train.jsonl.gz": ["x", "y"]})
    with pytest.raises(SpeedrunError, match="finds no file"):
        run_filter(is_even, tmp_path / "empty", {})


def test_what_is_filtered_differently_has_another_address() -> None:
    corpus = corpus_step()
    steps = [filtered("mine", corpus, "*", is_even), filtered("mine", corpus, "*", is_odd)]
    steps += [filtered("mine", corpus_step("corpus/other"), "*", is_even), filtered("mine", corpus, "x*", is_even)]
    assert len({step.name for step in steps}) == 4
    assert filtered("mine", corpus_step(), "*", is_even).name == steps[0].name


def data_of(rung: Any, training_data: Any) -> RungData:
    return rung_data(rung, training_data, downloads=Path("nowhere"))


PALOMA = hf_download("raw/mine", hf_id="allenai/paloma", revision="65cd6fc", version="2026.11.30")
PALOMA_TOKENS = tokenized("tokenized/mine", tokenizer="any", raw=PALOMA, glob="*.gz", version="2026.11.30")


@pytest.mark.parametrize(
    ("rung", "training_data", "named"),
    [
        (STANDARD, "paloma_c4_en", "paloma_c4_en"),
        (STANDARD, "paloma_wikitext_103", "paloma_wikitext_103"),
        (STANDARD, Filtered("c4_en_proxy", is_even), "c4_en_proxy"),
        (STANDARD, Mixture([("fineweb_edu_10b", 1), ("paloma_c4_en", 0.01)]), "paloma_c4_en"),
        (STANDARD, Mixture([(Documents(PALOMA, "*.gz"), 1)]), "raw/mine"),
        (STANDARD, Mixture([(PALOMA_TOKENS, 1)]), "tokenized/mine"),
        (MICRO, "wiki_summaries_heldout", "wiki_summaries_heldout"),
        (MICRO, Filtered("wiki_summaries_heldout", is_even), "wiki_summaries_heldout"),
    ],
)
def test_no_recipe_can_train_on_an_evaluation_set(rung: Any, training_data: Any, named: str) -> None:
    with pytest.raises(SpeedrunError, match=f"trains on '{named}', which is an evaluation set: no recipe can name one"):
        data_of(rung, training_data)


def test_what_cannot_be_trained_on_is_refused() -> None:
    with pytest.raises(SpeedrunError, match="fineweb_edu_10b holds tokens, and a filter needs text"):
        data_of(STANDARD, Filtered("fineweb_edu_10b", is_even))
    with pytest.raises(UnknownNameError, match="fineweb_edu_10b"):
        data_of(STANDARD, "fineweb_edu_10")
    with pytest.raises(SpeedrunError, match="twice: add its weights"):
        data_of(STANDARD, Mixture([("fineweb_edu_10b", 1), ("fineweb_edu_10b", 2)]))
    with pytest.raises(SpeedrunError, match="cannot train on int"):
        data_of(STANDARD, Mixture([(3, 1)]))  # type: ignore[list-item]


def test_a_mixture_trains_on_its_parts_by_weight_and_keeps_tokenizer_and_evaluation() -> None:
    plain = data_of(STANDARD, "")
    raw = hf_download("raw/code", hf_id="owner/code", revision="0123456", version="2026.11.30")
    tokenizer = "marin-community/marin-tokenizer"
    made = tokenized("tokenized/math", tokenizer=tokenizer, source="owner/math", version="2026.11.30")
    kept = Filtered("fineweb_edu_100b", is_even)
    mixed = data_of(STANDARD, Mixture([("fineweb_edu_10b", 6), (Documents(raw, "*.parquet"), 3), (made, 1), (kept, 2)]))
    by_name = {step.name.split("-filtered")[0]: weight for step, weight in mixed.weights.items()}
    assert by_name == {
        "tokenized/fineweb_edu_10b/marin-tokenizer": 6,
        "tokenized/raw/code-marin-tokenizer/train": 3,
        "tokenized/math": 1,
        "tokenized/fineweb_edu_100b": 2,
    }
    assert (mixed.tokenizer.name, mixed.held_out.name) == (plain.tokenizer.name, plain.held_out.name)
    assert {source.name for source, _ in mixed.sources} == {
        "fineweb_edu_10b",
        "fineweb_edu_100b",
        "paloma_c4_en",
        "marin_tokenizer",
    }
    assert {step.name for step in mixed.deps} >= {"tokenized/math", "tokenized/raw/code-marin-tokenizer/train"}


def test_recipes_with_other_data_are_told_apart() -> None:
    base = reference.recipe(MICRO)

    def documents(revision: str) -> Documents:
        return Documents(hf_download("raw/code", hf_id="owner/code", revision=revision, version="2026.11.30"), "*")

    different = [
        "",
        "wiki_summaries",
        Filtered("wiki_summaries", is_even),
        Filtered("wiki_summaries", is_odd),
        Mixture([("wiki_summaries", 1.0), ("wiki_summaries_topics", 1.0)]),
        Mixture([("wiki_summaries", 1.0), ("wiki_summaries_topics", 2.0)]),
        Filtered(documents("0000000"), is_even),
        Filtered(documents("1111111"), is_even),
    ]
    fingerprints = [recipe_fingerprint(base.replace(training_data=data)) for data in different]
    assert len(set(fingerprints)) == len(different)
    again = recipe_fingerprint(base.replace(training_data=Filtered(documents("0000000"), is_even)))
    assert again == fingerprints[6]


def with_tokenizer(rung: Any, tokenizer: Tokenizer, training_data: Any = "") -> RungData:
    return rung_data(rung, training_data, downloads=Path("nowhere"), tokenizer=tokenizer)


def tokenizer_step(content: str) -> ArtifactStep[Artifact]:
    return ArtifactStep(
        name="tokenizer/mine",
        version="2026.11.30",
        artifact_type=Artifact,
        run=lambda config: None,
        build_config=lambda ctx: {"content": content},
    )


def test_a_tokenizer_of_its_own_makes_other_token_sets_and_the_same_evaluation() -> None:
    plain, own = data_of(MICRO, ""), with_tokenizer(MICRO, Tokenizer(4096))
    assert (own.vocab_size, own.tokenizer.name) == (4096, "tokenizer/wiki_summaries-bpe4096")
    assert (own.train.name, own.held_out.name) == (
        "tokenized/wiki_summaries-bpe4096/train",
        "tokenized/wiki_summaries-bpe4096/heldout",
    )
    assert (own.texts.name, own.texts_glob, own.name) == (plain.texts.name, plain.texts_glob, plain.name)
    one, two = (with_tokenizer(MICRO, Tokenizer(4096, tokenizer_step(text))) for text in ("one", "two"))
    assert len({data.train.name for data in (plain, own, one, two)}) == 4
    assert len({data.held_out.name for data in (plain, own, one, two)}) == 4


def test_a_standard_rung_with_a_tokenizer_of_its_own_trains_on_text() -> None:
    own = with_tokenizer(STANDARD, Tokenizer(50_000, tokenizer_step("one")))
    assert own.name == "fineweb_edu_100b"
    assert {source.name for source, _ in own.sources} == {"fineweb_edu_100b", "paloma_c4_en"}
    assert own.tokenizer.name == "tokenizer/mine"
    with pytest.raises(SpeedrunError, match="fineweb_edu_10b holds tokens of marin-community/marin-tokenizer"):
        with_tokenizer(STANDARD, Tokenizer(50_000, tokenizer_step("one")), "fineweb_edu_10b")
    with pytest.raises(SpeedrunError, match="trained at the micro rungs only"):
        with_tokenizer(STANDARD, Tokenizer(50_000))
    with pytest.raises(SpeedrunError, match="256 bytes and two special tokens make 258"):
        Tokenizer(257)


def test_a_tokenizer_of_its_own_changes_what_a_step_costs() -> None:
    base = reference.recipe(MICRO)
    own = base.replace(tokenizer=Tokenizer(4096))
    assert (base.vocab_size(MICRO), own.vocab_size(MICRO)) == (2048, 4096)
    others = [base, own, base.replace(tokenizer=Tokenizer(4096, tokenizer_step("one")))]
    others.append(base.replace(tokenizer=Tokenizer(4096, tokenizer_step("two"))))
    assert len({recipe_fingerprint(recipe) for recipe in others}) == 4


CANDIDATE = """
from marin.execution.artifact import Artifact
from marin.execution.lazy import ArtifactStep

from speedrun import Author, Candidate, Filtered, Mixture, Recipe, Rung, Tokenizer, reference
from speedrun.steps.tokenizer import train_bpe, write_tokenizer

def is_long(document):
    return len(document["text"]) >= 400

def make(config):
    write_tokenizer(train_bpe(["nothing but bytes"], 258), config["folder"])

BYTES = ArtifactStep(
    name="tokenizer/bytes", version="2026.11.30", artifact_type=Artifact, run=make,
    build_config=lambda ctx: {"folder": ctx.output_path},
)

def recipe(rung: Rung) -> Recipe:
    data = Mixture([(Filtered("wiki_summaries", is_long), 3), ("wiki_summaries_topics", 1)])
    return reference.recipe(rung).replace(training_data=data, tokenizer=Tokenizer(258, BYTES), steps=8)

CANDIDATE = Candidate(name="mixed", authors=[Author("A")], hypothesis="H.", recipe=recipe, rungs=["micro_1"])
"""


@pytest.mark.slow
def test_a_candidates_own_filter_mixture_and_tokenizer_train_and_are_on_record(new_project) -> None:
    cli: Cli = new_project("mixed")
    (cli.root / "executor_steps" / "mixed.py").write_text(CANDIDATE)
    (record,) = cli.json("run", "mixed", "--rung", "micro_1")
    told = record["training_data"]
    first, second = told["mixture"]
    assert [(part["name"], part["weight"]) for part in told["mixture"]] == [
        ("wiki_summaries", 3.0),
        ("wiki_summaries_topics", 1.0),
    ]
    assert first["filter"]["documents"] == 9029
    assert first["filter"]["kept_share_of_documents"] == pytest.approx(first["train_documents"] / 9029)
    assert 0.2 < first["filter"]["kept_share_of_documents"] < 0.9
    assert record["contamination"]["training_documents"] == first["train_documents"] + second["train_documents"]
    assert record["evaluation"]["documents"] == 1004
    # Without a single merge each byte is a token.
    assert record["evaluation"]["tokens"] == record["evaluation"]["bytes"] == 493_271
    # micro_1 has 252,144 parameters with 2,048 rows in each of two embeddings of width 48.
    assert record["model_size"] == 252_144 - 2 * 48 * (2048 - 258)
    said = cli("validate", ok=False).stdout
    assert "training-texts" not in said and "training_data" not in said


@pytest.mark.slow
def test_a_tokenizer_with_another_number_of_ids_than_was_said_is_not_trained_with(new_project) -> None:
    cli: Cli = new_project("liar")
    (cli.root / "executor_steps" / "mixed.py").write_text(CANDIDATE.replace("Tokenizer(258", "Tokenizer(300"))
    done = cli("run", "mixed", "--rung", "micro_1", ok=False)
    assert done.returncode == 2
    assert "its tokenizer has 300 ids" in done.stdout + done.stderr
    assert "has 258" in done.stdout + done.stderr
