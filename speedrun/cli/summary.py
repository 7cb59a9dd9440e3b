"""What is printed at the end of a run: the score, what it cost, where it lies, what to try next."""

import statistics
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from speedrun.cli.execution import Published
from speedrun.cli.options import Asked
from speedrun.cli.progress import duration
from speedrun.cli.run import seeds_of, shown_path
from speedrun.ladder import LADDER
from speedrun.project import Project


def print_summary(console: Console, project: Project, ask: Asked, published: Sequence[Published]) -> None:
    """One line a run; per rung the mean over seeds with its spread; then where to go from here."""
    table = Table("rung", "seed", "bits/byte", "Levanter's", "training", "FLOPs (of budget)")
    some_cached = any(item.was_cached for item in published)
    if some_cached:
        table.add_column("")
    for item in published:
        info = item.info
        own = next(
            (
                figure
                for figure in (info.paloma_c4_en_bpb, info.micro_heldout_bpb, info.c4_en_proxy_bpb)
                if figure is not None
            ),
            None,
        )
        table.add_row(
            info.rung,
            str(info.seed),
            f"[bold]{info.bits_per_byte:.4f}[/bold]",
            f"{own:.4f}" if own is not None else "-",
            duration(info.training_time),
            f"{info.model_flops:.3g} ({info.model_flops / info.budget_flops:.1%})",
            *(["cached" if item.was_cached else ""] if some_cached else []),
        )
    console.print(table)
    for rung in dict.fromkeys(item.info.rung for item in published):
        scores = [item.info.bits_per_byte for item in seeds_of(published, rung)]
        if len(scores) > 1:
            deviation = statistics.stdev(scores)
            console.print(
                f"{rung}: {statistics.mean(scores):.4f} bits per byte over {len(scores)} seeds, standard deviation "
                f"{deviation:.4f}, standard error {deviation / len(scores) ** 0.5:.4f}",
                highlight=False,
                soft_wrap=True,
            )
    for file in dict.fromkeys(item.results_file for item in published):
        label = "scratch record" if ask.is_scratch else "record"
        console.print(f"{label}: {shown_path(project, file)}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"next:   {_next_command(ask)}", markup=False, highlight=False, soft_wrap=True)


def _next_command(ask: Asked) -> str:
    if ask.is_off_board:
        return "this was a trial on other data than the rung's: its score compares with no record"
    if ask.is_scratch:
        return "add --record-as NAME to keep such a run in results/"
    if ask.name == "adamw":
        return "speedrun new my_idea        # then edit executor_steps/my_idea.py and run it at the same rung"
    ladder = [name for name, rung in LADDER.items() if rung.ladder == LADDER[ask.rungs[-1]].ladder]
    above = ladder[ladder.index(ask.rungs[-1]) + 1 :]
    if above:
        return f"speedrun run {ask.name} --rung {above[0]}"
    return f"speedrun run {ask.name} --rung {ask.rungs[-1]} --seeds 3"
