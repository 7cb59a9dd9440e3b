"""LEADERBOARD.md, and all pages made from records. Written by ``speedrun leaderboard --write``, never by hand."""

from speedrun.board.build import board
from speedrun.board.candidates import FILE as CANDIDATES_FILE
from speedrun.board.candidates import candidates_markdown
from speedrun.board.model import Board
from speedrun.board.sheets import badge_notes, ladder_sheets, public_sheets
from speedrun.board.text import markdown
from speedrun.project import Project

FILE = "LEADERBOARD.md"

_HEAD = """# Leaderboard

Written by `speedrun leaderboard --write` from the records in `results/`; don't edit it by hand. `speedrun site` makes
a page of it, with charts and every run.

Lower bits per byte are better. **Speedup** is by how many times less compute a candidate reaches its loss than the
baseline would; **realised**, by how many times less time on the same hardware. Brackets and ± are intervals at 90 %.
Ranks follow the lower end of the speedup's interval, and a tier holds those who cannot be told apart. What each figure
means: [docs/scoring.md](docs/scoring.md); how to read this page: [docs/leaderboard.md](docs/leaderboard.md).
"""


def pages(project: Project, shown: Board) -> dict[str, str]:
    """The text of each page by its path; the candidates' only in a project that has documentation."""
    made = {FILE: board_markdown(shown)}
    if (project.root / CANDIDATES_FILE).parent.is_dir():
        made[CANDIDATES_FILE] = candidates_markdown(project, shown)
    return made


def leaderboard_markdown(project: Project) -> str:
    """The text of LEADERBOARD.md for ``project``.

    Raises:
        SpeedrunError: for a record that cannot be read.
    """
    return board_markdown(board(project))


def board_markdown(shown: Board) -> str:
    """The board as Markdown. The same records give the same text on any day."""
    parts = [_HEAD]
    if not shown.ladders:
        parts.append("There are no records yet.\n")
    parts += [markdown(sheet, 2 if "ladder, against" in sheet.title else 3) for sheet in ladder_sheets(shown)]
    badges = badge_notes(shown)
    if badges:
        parts.append("## Badges\n\n" + "\n".join(f"- {note}" for note in badges) + "\n")
    if shown.public is not None:
        parts += [markdown(sheet, 2 if "scored anew" in sheet.title else 3) for sheet in public_sheets(shown.public)]
    return "\n".join(parts)
