"""Writes the site: a front page, a page a run, their data, one stylesheet, one script and the plotting library."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from speedrun.board.build import board, without_collector
from speedrun.board.model import Board
from speedrun.board.pull_requests import with_pull_requests
from speedrun.board.records import Record, read_records
from speedrun.board.site.payload import boards, page_of, run_id
from speedrun.board.site.runs import configuration, loss_curve, run_facts
from speedrun.board.text import plain
from speedrun.errors import SpeedrunError
from speedrun.ladder import BOARD_NAME
from speedrun.project import Project

MARKER = ".speedrun-site"
"""Lies in a folder that a site was written to: only such a folder is ever emptied."""
STATIC = Path(__file__).parent / "static"


def build_site(project: Project, out: Path) -> int:
    """Write the site into ``out``; how many runs it has.

    Raises:
        SpeedrunError: for a record that cannot be read, or a folder that holds something else.
    """
    with without_collector():
        return _build_site(project, out)


def _build_site(project: Project, out: Path) -> int:
    records, shown = read_records(project), with_pull_requests(project, board(project))
    _prepare(out)
    pages = Environment(
        loader=PackageLoader("speedrun.board.site"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    pages.globals["board_name"] = BOARD_NAME
    try:
        _write_assets(out)
        _write_boards(out, pages, shown)
        _write_runs(project, out, pages, records, shown)
    except OSError as error:
        raise SpeedrunError(f"{error.filename or out} cannot be written: {error.strerror}") from None
    return len(records)


def _prepare(out: Path) -> None:
    """An empty folder, or one with an older site, which is emptied."""
    if out.exists() and not out.is_dir():
        raise SpeedrunError(f"{out} is a file: name a folder with --out")
    if out.is_dir() and any(out.iterdir()):
        if not (out / MARKER).is_file():
            raise SpeedrunError(f"{out} holds something that is no site: name an empty folder with --out")
        for child in out.iterdir():
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / MARKER).write_text("Written by `speedrun site`, which empties this folder.\n")
    except OSError as error:
        raise SpeedrunError(f"{out} cannot be written: {error.strerror}") from None


def _write_assets(out: Path) -> None:
    from plotly.offline import get_plotlyjs

    for name in ("site.css", "site.js"):
        shutil.copyfile(STATIC / name, out / name)
    (out / "plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")


def _write_boards(out: Path, pages: Environment, shown: Board) -> None:
    tabs = []
    for page, tables in boards(shown):
        tabs.append((page["key"], page["title"]))
        _write_data(out / "data" / f"{page['key']}.js", page["key"], _rounded(page))
        for name, table in tables.items():
            _write_data(out / "data" / page["key"] / f"{name}.js", f"{page['key']}/{name}", _rounded(table))
    (out / "index.html").write_text(pages.get_template("index.html").render(tabs=tabs), encoding="utf-8")


def _write_data(path: Path, key: str, content: Any) -> None:
    """Data as a script, for a page opened as a file may load scripts and no JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only ASCII: no character of a record can end the script or a line.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    path.write_text(f"speedrunData({json.dumps(key)},{text});\n", encoding="ascii")


def _rounded(content: Any) -> Any:
    """Figures to six digits, which is more than is shown: half the size."""
    if isinstance(content, float):
        return float(f"{content:.6g}")
    if isinstance(content, dict):
        return {key: _rounded(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_rounded(value) for value in content]
    return content


def _write_runs(project: Project, out: Path, pages: Environment, records: Sequence[Record], shown: Board) -> None:
    template = pages.get_template("run.html")
    about = {each.name: each for each in shown.candidates}
    arms = {arm.record: arm for ladder in shown.ladders for arm in ladder.arms}
    seen: set[str] = set()
    for record in records:
        name = run_id(*record.key)
        if name in seen:
            continue  # a repeated seed: flagged, and the first has the page
        seen.add(name)
        path = out / page_of(*record.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = template.render(
            name=name,
            candidate=record.candidate,
            rung=record.rung,
            seed=record.info.seed,
            hypothesis=plain(record.info.description, 2000),
            groups=run_facts(record, arms[record.path], about.get(record.candidate)),
        )
        path.write_text(text, encoding="utf-8")
        data = {"curve": loss_curve(project, record), "configuration": configuration(record)}
        _write_data(path.with_suffix(".js"), f"run/{name}", data)
    _write_data(out / "data" / "runs.js", "runs", sorted(seen))
