"""LEADERBOARD.md and its like as the records of a tree make them, for whoever checks or refreshes them."""

from speedrun.project import Project


def generated_pages(project: Project) -> dict[str, str]:
    """The text of each page by its path, worked out anew: a tree that came with a cache of its own is not believed.

    Raises:
        SpeedrunError: when a record cannot be read.
    """
    from speedrun.board.build import build_board
    from speedrun.board.markdown import pages
    from speedrun.board.records import read_records

    return pages(project, build_board(project, read_records(project)))
