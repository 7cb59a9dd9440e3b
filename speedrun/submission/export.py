"""Records in the shape and the folders of Marin's own repository."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speedrun.board.badges import edge_of_search
from speedrun.errors import SpeedrunError
from speedrun.hardware import parse_hardware
from speedrun.ladder import LADDER
from speedrun.project import Project
from speedrun.records.schema import RunInfo
from speedrun.records.store import RESULTS_FILE, write_json_atomically
from speedrun.records.sweeps import read_sweep
from speedrun.submission.pull_request import runs_of

FOLDER = Path("experiments", "speedrun")
SUMMARY_FILE = "summary.json"


def export_marin(project: Project, name: str, out: Path, *, summary: bool) -> list[Path]:
    """Write ``experiments/speedrun/NAME/RUNG/speedrun_results.json`` below ``out``; the files written.

    Rungs without Levanter's figure on Paloma (the micro rungs) are left out: upstream ranks by nothing else.

    Args:
        summary: whether to write a summary of all rungs with their learning-rate sweeps beside them.

    Raises:
        SpeedrunError: when nothing can be exported.
    """
    runs = {
        rung: [info for info in infos if info.paloma_c4_en_bpb is not None]
        for rung, infos in runs_of(project, name).items()
    }
    runs = {rung: infos for rung, infos in runs.items() if infos}
    if not runs:
        raise SpeedrunError(
            f"{name} has no record with Levanter's figure on Paloma, which is what Marin's board ranks by "
            "(the micro rungs have none)"
        )
    written = []
    for rung, infos in runs.items():
        path = out / FOLDER / name / rung / RESULTS_FILE
        write_json_atomically(path, {"runs": [{"run_info": marin_run_info(info)} for info in infos]})
        written.append(path)
    if summary:
        path = out / FOLDER / name / SUMMARY_FILE
        rungs = [_rung_summary(project, name, rung, infos) for rung, infos in runs.items()]
        write_json_atomically(path, {"candidate": name, "rungs": rungs})
        written.append(path)
    return written


def marin_run_info(info: RunInfo) -> dict[str, Any]:
    """A run in the shape that upstream's files had last: ours without what upstream did not know, with its names for
    the settings and the hardware."""
    record = info.model_dump(by_alias=True, mode="json")
    same = (
        "author", "description", "device_flops", "eval/paloma/c4_en/bpb", "model_flops", "model_flops_per_token",
        "model_size", "num_chips", "num_devices", "run_completion_timestamp", "tokenized_dataset", "total_tokens",
        "training_hardware_flops", "training_time", "wandb_run_link",
    )  # fmt: skip
    settings = info.train_config
    optimizer = settings.get("optimizer")
    optimizer = dict(optimizer) if isinstance(optimizer, Mapping) else {}
    return {key: record[key] for key in same} | {
        "model_config": _without_types(info.model_configuration),
        "train_config": {
            "learning_rate": optimizer.get("learning_rate"),
            "num_train_steps": settings.get("steps"),
            "optimizer_config": _without_types(optimizer),
            "train_batch_size": _without_types(settings.get("batch_size")),
            "train_seq_len": settings.get("sequence_length"),
            "z_loss_weight": settings.get("z_loss_weight"),
        },
        "resources": _resources(info),
    }


def _resources(info: RunInfo) -> dict[str, Any]:
    (spec,) = parse_hardware(str(info.resources.get("hardware")))
    device: dict[str, Any] = {"kind": spec.accelerator.family, "variant": str(spec), "topology": None}
    if spec.accelerator.family == "gpu":
        device = {"kind": "gpu", "variant": spec.accelerator.name.upper(), "count": spec.chips // spec.hosts}
    return {"device": device, "replicas": spec.hosts}


def _without_types(value: Any) -> Any:
    """Settings without the names of classes, which upstream did not write."""
    match value:
        case Mapping():
            return {key: _without_types(item) for key, item in value.items() if key != "type"}
        case list():
            return [_without_types(item) for item in value]
    return value


def _rung_summary(project: Project, name: str, rung: str, infos: list[RunInfo]) -> dict[str, Any]:
    first, sweep = infos[0], read_sweep(project.results / name / rung)
    return {
        "rung": rung,
        "budget_flops": LADDER[rung].budget_flops,
        "model_size": first.model_size,
        "total_tokens": first.total_tokens,
        "model_flops": first.model_flops,
        "optimizer": first.train_config.get("optimizer"),
        "seeds": [
            {"seed": info.seed, "bits_per_byte": info.bits_per_byte, "eval/paloma/c4_en/bpb": info.paloma_c4_en_bpb}
            for info in infos
        ],
        "sweep": [point.model_dump(mode="json") for point in sweep.points],
        "sweep_model_flops": sweep.model_flops,
        "at_edge_of_sweep": edge_of_search(sweep, first.recipe_fingerprint),
    }
