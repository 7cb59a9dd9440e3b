"""``speedrun new NAME``: a candidate file to edit."""

import getpass
import subprocess
from importlib import resources

import click

from speedrun.candidate import check_name
from speedrun.errors import SpeedrunError
from speedrun.project import find_project


@click.command("new")
@click.argument("name")
def command(name: str) -> None:
    """Make executor_steps/NAME.py, a working candidate to edit."""
    project = find_project()
    path = project.candidates / f"{check_name(name)}.py"
    template = resources.files("speedrun").joinpath("templates/candidate.py.txt").read_text(encoding="utf-8")
    text = template.replace("{name}", name).replace("{author}", _author())
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SpeedrunError(f"{path} is there already: choose another name, or edit it") from None
    shown = path.relative_to(project.root)
    click.echo(f"{shown} is yours to edit. Then:\n  speedrun run {name} --rung micro_1     # a minute on a laptop")


def _author() -> str:
    """The user's name as git knows it, without what would end a Python string."""
    try:
        done = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, timeout=5)
        name = done.stdout.strip() or getpass.getuser()
    except (OSError, subprocess.TimeoutExpired):
        name = getpass.getuser()
    return "".join(character for character in name if character.isprintable() and character not in '"\\{}')
