"""Showing runs while they are built: a line per step of the DAG, live on a terminal, plain in a log."""

import time

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from speedrun.engines.locks import Holder
from speedrun.engines.manifest import Manifest, StepState
from speedrun.engines.watch import RunProgress

PLAIN_EVERY_SECONDS = 15.0
_MARKS: dict[StepState, tuple[str, str]] = {
    "done": ("✓", "green"),
    "running": ("▸", "cyan"),
    "held": ("…", "yellow"),
    "failed": ("✗", "red"),
    "stopped": ("·", "yellow"),
    "waiting": ("·", "dim"),
}


def duration(seconds: float | None) -> str:
    """Seconds as people say them: 42 s, 3 min 20 s, 7.6 h, 6.9 d."""
    if seconds is None:
        return "?"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} d"


def size_of(count: float | None) -> str:
    """Bytes as people say them: 17 MB, 20 GB."""
    if count is None:
        return "?"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def title(manifest: Manifest) -> str:
    """What a run is called."""
    return f"{manifest.candidate} · {manifest.rung} · seed {manifest.seed} · {manifest.hardware}"


def detail(label: str, state: StepState, holder: Holder | None, progress: RunProgress) -> str:
    """What there is to say of one step of the DAG."""
    if state == "held":
        return f"waiting for {holder}, which is at it"
    if label == "train" and state == "running":
        if progress.last is None:
            return "compiling"
        return training_detail(progress)
    if label == "evaluate" and state == "running" and progress.evaluated is not None:
        done, total = progress.evaluated
        return f"{done}/{total} windows"
    if state == "running" and label in progress.fetched:
        done, total = progress.fetched[label]
        return f"{size_of(done)} of {size_of(total)}"
    return {"failed": "failed", "stopped": "stopped; will be taken up again"}.get(state, "")


def training_detail(progress: RunProgress) -> str:
    """Step, loss, speed and time left of a run in training."""
    assert progress.last is not None
    speed = f"{progress.tokens_per_second:,.0f} tokens/s" if progress.tokens_per_second else "… tokens/s"
    done = f"step {progress.last.step + 1}/{progress.steps_total}"
    return f"{done}  loss {progress.last.loss:.3f}  {speed}  {duration(progress.eta_seconds())} left"


class ProgressDisplay:
    """Shows the runs of one command. Use as a context manager; call ``show`` now and then."""

    def __init__(self, console: Console):
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False) if console.is_terminal else None
        self._said: dict[tuple[str, str], str] = {}
        self._said_at = 0.0

    def __enter__(self) -> "ProgressDisplay":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, runs: list[tuple[Manifest, RunProgress]]) -> None:
        """Bring what is shown up to date."""
        if self._live:
            self._live.update(Group(*(self._draw(manifest, progress) for manifest, progress in runs)))
            return
        for manifest, progress in runs:
            self._say_changes(manifest, progress)

    def _draw(self, manifest: Manifest, progress: RunProgress) -> Group | Text:
        if progress.is_done:
            return Text(f"✓ {title(manifest)}", style="green")
        if all(
            state == "waiting" for label, (state, _) in progress.states.items() if label in ("train", "record")
        ) and (progress.now == "train"):
            return Text(f"· {title(manifest)}", style="dim")
        table = Table.grid(padding=(0, 1))
        for label, (state, holder) in progress.states.items():
            mark, style = _MARKS[state]
            bar: ProgressBar | str = ""
            if label == "train" and state == "running" and progress.last is not None:
                bar = ProgressBar(total=progress.steps_total, completed=progress.last.step + 1, width=20)
            text = Text(detail(label, state, holder, progress))
            table.add_row(Text(f"  {mark}", style=style), Text(label, style=style), bar, text)
        return Group(Text(title(manifest), style="bold"), table)

    def _say_changes(self, manifest: Manifest, progress: RunProgress) -> None:
        now = time.monotonic()
        for label, (state, holder) in progress.states.items():
            if state == "waiting":
                continue
            key = (manifest.key, label)
            if self._said.get(key) != state:
                self._said[key] = state
                text = detail(label, state, holder, progress)
                self._print(f"{title(manifest)}: {label} {state}" + (f" ({text})" if text else ""))
            elif (
                (label == "train" or label in progress.fetched)
                and state == "running"
                and now - self._said_at > PLAIN_EVERY_SECONDS
            ):
                self._said_at = now
                self._print(f"{title(manifest)}: {label} {detail(label, state, holder, progress)}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
