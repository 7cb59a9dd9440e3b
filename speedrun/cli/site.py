"""``speedrun site``: the leaderboard as a page that needs no network."""

import functools
import http.server
from pathlib import Path

import click

from speedrun.errors import SpeedrunError
from speedrun.project import find_project


@click.command("site")
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write; an older site in it is replaced.")
@click.option("--serve", is_flag=True, help="Show it on this computer until interrupted.")
@click.option("--port", default=8000, show_default=True, help="Where to serve it.")
def command(out: Path | None, serve: bool, port: int) -> None:
    """Write the leaderboard's site: open its index.html, or put the folder on any web server."""
    project = find_project()
    try:
        from speedrun.board.site.build import build_site
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "plotly"):
            raise
        raise SpeedrunError(f"the site needs {error.name}: pip install 'marin-speedrun[site]'") from None
    folder = out or project.work / "site"
    runs = build_site(project, folder)
    click.echo(f"wrote {runs} runs: {folder / 'index.html'}")
    if serve:
        _serve(folder, port)


def _serve(folder: Path, port: int) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    try:
        with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
            click.echo(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)")
            server.serve_forever()
    except OSError as error:
        raise SpeedrunError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from None
