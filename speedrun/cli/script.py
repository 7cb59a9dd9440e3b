"""Running a candidate's own file: prints the plan, and builds it with ``--run``, as Marin's experiments do."""

import sys

from speedrun.cli import cli
from speedrun.cli import main as run_command


def main(name: str) -> None:
    """``python executor_steps/NAME.py --rung R [--run] [...]``."""
    words = sys.argv[1:]
    verb = "plan"
    if "--run" in words:
        verb = "run"
        words.remove("--run")
    sys.argv = [cli.name or "speedrun", verb, name, *words]
    run_command()
