"""The ``speedrun`` command. Each subcommand is a module of its own, imported when it is called."""

import importlib
import os
import sys

import click

from speedrun.errors import SpeedrunError

COMMANDS = {
    "list": "Rungs, candidates and accelerators.",
    "new": "Make a candidate file to edit.",
    "data": "What each rung's data need, whether they are open, and the step that opens them.",
    "dry-run": "Price a candidate: FLOPs by three meters, memory, hours and dollars.",
    "check": "Gate 1: does a candidate build, trace, shard and count at every rung?",
    "plan": "Show the steps of a run, their addresses, and what is cached.",
    "run": "Train, evaluate and record a candidate.",
    "evaluate": "Score finished checkpoints again, and rewrite their records.",
    "sweep": "Tune a field of the recipe, with the search's cost on record.",
    "status": "What runs, how far it is, what it has cost, what failed and why.",
    "cancel": "Stop what runs, and free what it holds.",
    "diff": "What one candidate changes against another, field by field, and in how many lines.",
    "compare": "Gate 2: does it beat its baseline, where, by how much, and how sure is that?",
    "leaderboard": "Who is ahead at each rung and over each ladder; writes LEADERBOARD.md.",
    "site": "Make the leaderboard's page: charts, every run, differences between runs.",
    "import": "Bring in Marin's public results, flagged where they cannot be right.",
    "preregister": "Write down hypothesis, metric and decision rule before anything runs.",
    "validate": "Check records as data, offline: what CI and reviewers run.",
    "reproduce": "Run somebody's record again, apart from your own files and keys.",
    "submit": "Pack a candidate and its records as a pull request.",
    "report": "Post results to the issue that announced them.",
    "export": "Write records as Marin's own repository wants them.",
}
"""Subcommands with their one-line help, so that ``--help`` imports none of them."""


QUIET = {"TRANSFORMERS_VERBOSITY": "error", "TF_CPP_MIN_LOG_LEVEL": "2", "HF_HUB_VERBOSITY": "error"}
"""What keeps libraries from talking to the user on import."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        # A module cannot be called "import".
        module = "import_" if cmd_name == "import" else cmd_name.replace("-", "_")
        return importlib.import_module(f"speedrun.cli.{module}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            from speedrun.errors import UnknownNameError

            raise UnknownNameError("command", args[0], COMMANDS, advice="`speedrun --help` lists them.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="marin-speedrun")
def cli() -> None:
    """Prove that an idea for training language models is better, per unit of compute.

    Start with `speedrun list`, then `speedrun run adamw --rung micro_2`.
    """


def main() -> None:
    """Entry point: a user's mistake is one message and exit code 2, never a traceback."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except SpeedrunError as error:
        click.echo(f"speedrun: {error}", err=True)
        sys.exit(2)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("speedrun: interrupted", err=True)
        sys.exit(130)
