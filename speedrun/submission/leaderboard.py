"""LEADERBOARD.md as the records of a tree make it, for whoever checks or refreshes it."""

from speedrun.project import Project


def leaderboard_text(project: Project) -> str:
    """The text of LEADERBOARD.md, worked out anew: a tree that came with a cache of its own is not believed.

    Raises:
        SpeedrunError: when a record cannot be read.
    """
    from speedrun.board.build import build_board
    from speedrun.board.markdown import board_markdown
    from speedrun.board.records import read_records

    return board_markdown(build_board(project, read_records(project)))
