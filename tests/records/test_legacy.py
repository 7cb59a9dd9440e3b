import json
import math
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedrun.errors import SpeedrunError
from speedrun.records.legacy import FLAGS, combine, read_board, read_results_file, read_results_tree
from speedrun.scoring import Noise, check_runs, compare

REPOSITORY = Path(__file__).parents[2]
BOARD = REPOSITORY / "results" / "marin" / "board.json"
REAL = REPOSITORY / ".." / "shared" / "data"
needs_real_files = pytest.mark.skipif(not REAL.exists(), reason="upstream's own result files are not here")


def info(**changed: Any) -> dict[str, Any]:
    """A run as upstream wrote it in 2025: one v5p-32, 16 chips of 459 TFLOP/s, for 1,000 s."""
    return {
        "author": {"name": "A", "affiliation": "B", "url": "https://c.example"},
        "eval/paloma/c4_en/bpb": 1.18,
        "model_flops": 1e17,
        "model_size": 154_147_328,
        "training_hardware_flops": 1000 * 16 * 459e12,
        "training_time": 1000.0,
        "total_tokens": 4959 * 128 * 4096,
        "train_config": {"train_batch_size": 128, "num_train_steps": 4959},
        "model_config": {"seq_len": 4096},
        "resources": {"tpu_type": "v5p-32", "slice_count": 1},
        "run_completion_timestamp": "2025-06-28 06:42:45 UTC",
        "wandb_run_link": "https://wandb.example/runs/one",
    } | changed


Read = Callable[[Any], pd.DataFrame]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(content: Any) -> pd.DataFrame:
        path = tmp_path / "speedrun_results.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_results_file(path, "muon/130m")

    return read


def read_one(read: Read, **changed: Any) -> pd.Series:
    return read({"runs": [{"run_info": info(**changed)}]}).iloc[0]


def test_a_sound_run_has_no_flags(read: Read) -> None:
    row = read_one(read)
    assert row["flags"] == () and row["ranked"]
    assert (row["candidate"], row["rung"], row["hardware"]) == ("muon", "130m", "v5p-32")
    assert row["expected_hardware_flops"] == pytest.approx(7.344e18)
    assert row["completed"] == pd.Timestamp("2025-06-28 06:42:45", tz="UTC")
    assert row["author_url"] == "https://c.example"


@pytest.mark.parametrize(
    ("changed", "flag"),
    [
        ({"training_hardware_flops": 2 * 7.344e18}, "chips_doubled"),
        ({"training_hardware_flops": 1.3 * 7.344e18}, "hardware_flops_mismatch"),
        # A record that names one card and holds another's figures: an A100's peak is 4.4 times an RTX 3090's.
        (
            {
                "resources": {"accelerator_type": "rtx3090", "gpu_count": 4},
                "training_hardware_flops": 1000 * 4 * 312e12,
            },
            "hardware_flops_mismatch",
        ),
        ({"resources": {"tpu_type": "v99-8"}}, "hardware_unknown"),
        ({"training_time": 60.0, "training_hardware_flops": 60 * 16 * 459e12, "model_flops": 5e17}, "impossible_mfu"),
        ({"eval/paloma/c4_en/bpb": None}, "no_score"),
        ({"eval/paloma/c4_en/bpb": 0.02}, "impossible_score"),
        ({"model_flops": None}, "no_model_flops"),
        ({"model_flops": "1.00e+17"}, "number_as_string"),
        ({"total_tokens": 4958 * 128 * 4096}, "tokens_mismatch"),
    ],
)
def test_what_cannot_be_right_is_flagged_and_kept(read: Read, changed: dict[str, Any], flag: str) -> None:
    row = read_one(read, **changed)
    assert row["flags"] == (flag,)
    assert row["ranked"] is not FLAGS[flag].keeps_off_ranking


def test_a_text_is_read_as_its_number(read: Read) -> None:
    assert read_one(read, model_flops="1.25e+17")["model_flops"] == 1.25e17


@pytest.mark.parametrize(
    ("resources", "flops_per_second"),
    [
        ({"tpu_type": "v4-128", "slice_count": 1}, 64 * 275e12),
        ({"tpu_type": "v5litepod-64", "slice_count": 1}, 64 * 197e12),
        ({"accelerator_type": "A100", "gpu_count": 4}, 4 * 312e12),
        ({"device": {"kind": "tpu", "variant": "v5p-32"}, "replicas": 4}, 16 * 459e12),
        ({"device": {"kind": "gpu", "variant": "H100", "count": 8}, "replicas": 1}, 8 * 989.5e12),
    ],
)
def test_hardware_is_counted_in_chips(read: Read, resources: dict[str, Any], flops_per_second: float) -> None:
    row = read_one(read, resources=resources, training_hardware_flops=1000 * flops_per_second)
    assert row["expected_hardware_flops"] == pytest.approx(1000 * flops_per_second)
    assert row["flags"] == ()


def test_a_batch_schedule_counts_its_tokens(read: Read) -> None:
    # 100 steps of 64 sequences, then 300 of 256, each of 1,024 tokens.
    batch = [{"start": 0, "value": 64}, {"start": 100, "value": 256}]
    config = {"train_batch_size": batch, "num_train_steps": 400, "train_seq_len": 1024}
    assert read_one(read, train_config=config, total_tokens=(6_400 + 76_800) * 1024)["flags"] == ()
    assert read_one(read, train_config=config, total_tokens=400 * 64 * 1024)["flags"] == ("tokens_mismatch",)


def april_2025(**stats: Any) -> dict[str, Any]:
    about = {
        "hardware_config": {"device_type": "v4-128"},
        "total_tokens": 3000 * 512 * 1024,
        "model_config": {"seq_len": 1024},
        "train_config": {"train_batch_size": 512, "num_train_steps": 3000},
    }
    return {"runs": [{"run_related_info": about, "run_stats": {"eval/paloma/c4_en/bpb": 1.3088} | stats}]}


def test_minutes_that_are_seconds_are_read_as_seconds(read: Read) -> None:
    per_second = 64 * 275e12
    stats = {"pre_run_flops_estimate": 1e16, "training_time_in_minutes": 40.0}
    mislabelled = read(april_2025(**stats, total_training_flops=40 * per_second)).iloc[0]
    assert mislabelled["training_time_seconds"] == 40
    assert mislabelled["flags"] == ("other_flops_convention", "minutes_are_seconds")
    labelled = read(april_2025(**stats, total_training_flops=2400 * per_second)).iloc[0]
    assert labelled["training_time_seconds"] == 2400
    assert labelled["flags"] == ("other_flops_convention",)
    assert not labelled["ranked"]


@pytest.mark.parametrize("content", ["", "[1, 2", "[]", "{}", '{"runs": []}', '{"runs": [3]}', '{"runs": [{"x": {}}]}'])
def test_a_file_that_cannot_be_read_is_a_row_that_says_so(read: Read, content: str) -> None:
    row = read(content).iloc[0]
    assert "unreadable" in row["flags"] and not row["ranked"]
    assert row["run_name"] == "muon/130m" and row["source"].endswith("speedrun_results.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.sampled_from(sorted([*info(), "device_flops"])), JSON, max_size=5)
CONFIG = st.fixed_dictionaries(
    {}, optional={"train_batch_size": JSON, "num_train_steps": JSON, "train_seq_len": JSON, "tpu_type": JSON}
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(fields=FIELDS, config=CONFIG)
def test_no_record_however_strange_is_more_than_data(read: Read, fields: dict, config: dict) -> None:
    row = read_one(read, **{"train_config": config, "resources": config} | fields)
    assert set(row["flags"]) <= set(FLAGS)
    figures = (row["bits_per_byte"], row["model_flops"])
    assert not row["ranked"] or all(figure is not None and math.isfinite(figure) for figure in figures)


def test_a_tree_is_read_by_its_folders_and_copies_stand_once(tmp_path: Path) -> None:
    content = json.dumps({"runs": [{"run_info": info()}]})
    for name in ("muon/130m", "renamed/muon/130m", "other/300m"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "speedrun_results.json").write_text(content.replace("one", "two") if "other" in name else content)
    table = read_results_tree(tmp_path)
    assert table["run_name"].tolist() == ["muon/130m", "other/300m", "renamed/muon/130m"]
    assert table["ranked"].tolist() == [False, True, True]  # the most specific name stays
    assert table.loc[0, "flags"] == ("duplicate_run",)


def test_of_two_records_of_one_run_the_sound_one_stays(read: Read) -> None:
    doubled, corrected = (
        read({"runs": [{"run_info": info(training_hardware_flops=times * 7.344e18)}]}) for times in (2, 1)
    )
    both = combine([doubled, corrected])
    assert both["flags"].tolist() == [("chips_doubled", "duplicate_run"), ()]
    assert combine([both])["flags"].tolist() == both["flags"].tolist()


def test_a_name_without_folders_is_its_own_candidate(tmp_path: Path) -> None:
    path = tmp_path / "speedrun_results.json"
    path.write_text(json.dumps({"runs": [{"run_info": info()}]}))
    for name, rung in [("llama_75m_z_loss", "75m"), ("llama_1_4B_8xH200", "1_4b"), ("llama", "unknown")]:
        assert read_results_file(path, name).loc[0, ["candidate", "rung"]].tolist() == [name, rung]


def test_the_board_has_credit_links_and_an_age() -> None:
    board = read_board(BOARD)
    assert len(board.runs) == 96
    assert board.runs[["author_name", "author_affiliation", "author_url", "run_link"]].notna().all(axis=None)
    assert board.as_of == date(2025, 12, 21) and board.age_in_days(date(2025, 12, 31)) == 10
    assert "description" not in BOARD.read_text()
    ranked = board.runs[board.runs["ranked"]]
    check_runs(ranked)
    assert compare(ranked, "muon_llama_scaling", "adamw_llama_scaling", noise=Noise.assumed()).rungs


@pytest.mark.parametrize("content", ["{}", '{"runs": 3}', "[1]", '{"runs": [], "as_of": "soon"}', "nothing"])
def test_a_file_that_is_no_board_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "board.json"
    path.write_text(content)
    with pytest.raises(SpeedrunError, match=r"board\.json"):
        read_board(path)
    with pytest.raises(SpeedrunError, match="cannot be read"):
        read_board(tmp_path / "none.json")


@needs_real_files
def test_the_transcription_is_the_board() -> None:
    upstream = json.loads((REAL / "marin_runs.json").read_text())
    ours = json.loads(BOARD.read_text())
    assert ours["runs"] == [{key: row[key] for key in row if key != "description"} for row in upstream]
    targets = {track["id"]: track["target_bpb"] for track in json.loads((REAL / "tracks.json").read_text())}
    assert read_board(BOARD).targets == {name: bits for name, bits in targets.items() if bits is not None}
    assert read_board(REAL / "marin_runs.json").runs["bits_per_byte"].tolist() == [
        row["eval_paloma_c4_en_bpb"] for row in ours["runs"]
    ]


@needs_real_files
def test_the_five_ages_of_upstreams_files() -> None:
    files = sorted((REAL / "speedrun_results").glob("*.json"))
    tables = {file.name: read_results_file(file, file.name.partition("__speedrun")[0]) for file in files}
    rows = {name: table.iloc[0] for name, table in tables.items()}
    assert len(rows) == 31 and {row["age"][0] for row in rows.values()} == set("12345")

    oldest = rows["llama_75m_fineweb_edu_z_loss__speedrun_results@feb5d9d8.json"]
    assert oldest["model_flops"] == 6.91e17 and oldest["hardware_flops"] == 6.41e17
    # 36.4 "minutes" on 64 chips of 275 TFLOP/s are 6.41e17 FLOPs if they are seconds.
    assert oldest["training_time_seconds"] == pytest.approx(36.4048)
    assert set(oldest["flags"]) == {
        "number_as_string",
        "other_flops_convention",
        "minutes_are_seconds",
        "impossible_mfu",
    }

    before = rows["parallel_llama__old_scaling__tpu__75m__speedrun_results.json"]
    after = rows["parallel_llama__old_scaling__tpu__75m__speedrun_results@e040cfa7.json"]
    assert before["hardware_flops"] == 2 * after["hardware_flops"]
    assert before["flags"] == ("chips_doubled",) and after["flags"] == ()

    # All of v5p's records were doubled until upstream corrected them; no record of v4, v5e or a GPU was.
    doubled = {name for name, row in rows.items() if "chips_doubled" in row["flags"]}
    assert len(doubled) == 16
    assert {rows[name]["hardware"] for name in doubled} == {"v5p-32"}
    assert sum(row["ranked"] for row in rows.values()) == 29
