"""GitHub: addresses to open, and `gh` where it is there, asked without a shell."""

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from speedrun.errors import SpeedrunError
from speedrun.submission import github

GH = """#!{python}
import json, sys
words = sys.argv[1:]
with open({log!r}, "a") as file:
    body = words[words.index("--body-file") + 1] if "--body-file" in words else None
    file.write(json.dumps([words, open(body).read() if body else None]) + "\\n")
if words[:2] == ["pr", "list"]:
    print({prs!r})
if words[:2] == ["pr", "create"]:
    print("https://github.com/up/board/pull/9")
if words[:2] == ["issue", "comment"] and words[2] == "404":
    sys.exit("GraphQL: Could not resolve to an Issue")
sys.exit({auth} if words[:2] == ["auth", "status"] else 0)
"""


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a `gh` on the path that notes what it is asked; returns what reads the notes."""
    import sys

    log = tmp_path / "asked"

    def install(prs: str = "[]", auth: int = 0):
        file = tmp_path / "bin" / "gh"
        file.parent.mkdir(exist_ok=True)
        file.write_text(GH.format(python=sys.executable, log=str(log), prs=prs, auth=auth))
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")
        return lambda: [json.loads(line) for line in log.read_text().splitlines()]

    return install


def test_a_pull_request_is_opened_with_its_whole_text(gh) -> None:
    asked = gh()
    body = "x" * 40_000 + " `$(touch hacked)`"
    address = github.open_pull_request("up/board", "me/board", "speedrun/muonh", "[Speedrun] muonh: 30m", body)
    assert address == "https://github.com/up/board/pull/9"
    words, text = asked()[-1]
    assert text == body
    assert words[:-1] == [
        *["pr", "create", "--repo", "up/board", "--base", "main", "--head", "me:speedrun/muonh"],
        *["--title", "[Speedrun] muonh: 30m", "--body-file"],
    ]


def test_one_that_is_open_already_is_brought_up_to_date(gh) -> None:
    mine = {"url": "https://github.com/up/board/pull/3", "headRepositoryOwner": {"login": "me"}}
    other = {"url": "https://github.com/up/board/pull/2", "headRepositoryOwner": {"login": "somebody"}}
    asked = gh(prs=json.dumps([other, mine]))
    assert github.open_pull_request("up/board", "me/board", "speedrun/muonh", "t", "b") == mine["url"]
    assert asked()[-1][0][:3] == ["pr", "edit", mine["url"]]


def test_without_a_login_gh_is_not_ready(gh, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gh(auth=1)
    assert not github.gh_is_ready()
    gh(auth=0)
    assert github.gh_is_ready()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert not github.gh_is_ready()


def test_a_comment_and_what_gh_says_when_it_fails(gh) -> None:
    asked = gh()
    github.comment_on_issue("up/board", 12, "text")
    assert asked()[-1][1] == "text" and asked()[-1][0][:5] == ["issue", "comment", "12", "--repo", "up/board"]
    with pytest.raises(SpeedrunError, match="gh issue comment: GraphQL: Could not resolve to an Issue"):
        github.comment_on_issue(None, 404, "text")


def test_the_address_carries_title_and_text_as_long_as_it_can() -> None:
    address, whole = github.compare_address("up/board", "me/board", "speedrun/muonh", "[Speedrun] a&b: 30m", "ö & #1\n")
    parts = urlsplit(address)
    assert whole and parts.path == "/up/board/compare/main...me:speedrun/muonh"
    assert parse_qs(parts.query) == {"expand": ["1"], "title": ["[Speedrun] a&b: 30m"], "body": ["ö & #1\n"]}
    address, whole = github.compare_address("up/board", "me/board", "speedrun/muonh", "t", "x" * 10_000)
    assert not whole and len(address) < 200


@pytest.mark.parametrize(
    ("url", "repository"),
    [
        ("git@github.com:me/my.board.git", "me/my.board"),
        ("https://github.com/me/board", "me/board"),
        ("ssh://git@github.com/me/board.git", "me/board"),
        ("../fork.git", None),
        ("https://gitlab.com/me/board.git", None),
    ],
)
def test_whose_a_remote_is(tmp_path: Path, url: str, repository: str | None) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "remote", "add", "origin", url], cwd=tmp_path, check=True)
    assert github.repository_of(tmp_path, "origin") == repository
    assert github.repository_for_issues(tmp_path) == repository
