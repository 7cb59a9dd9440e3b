"""The hub: what it refuses is said with the step that opens it, and what it gives is whole. Against a local one."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from speedrun import hub
from speedrun.hub import HubError
from speedrun.sources import HubSource
from tests.hub import OTHER_TOKEN, TOKEN, LocalHub, serve

SOURCE = HubSource("texts", "raw/texts", "owner/texts", files=("part/*.bin",))
GATED = HubSource("secret", "raw/secret", "owner/secret", revision="abc1234", files=("a.bin",), gated=True)
CONTENT = bytes(range(256)) * 100


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalHub]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    # It writes by 10 MB: a connection that breaks loses that much at most.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 500)
    with serve() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def fetched(source: HubSource, folder: Path) -> dict[str, bytes]:
    commit = hub.resolve(source)
    said: list[int] = []

    def keep(file: hub.HubFile, whole: Path) -> None:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        whole.replace(target)

    hub.fetch(source, commit, hub.list_files(source, commit), folder / "partial", keep, said.append)
    files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert said[-1] == sum(map(len, files.values()))
    return files


def test_public_files_are_fetched_by_their_patterns(server: LocalHub, tmp_path: Path) -> None:
    files = {"part/a.bin": CONTENT, "part/b.bin": b"small", "part/notes.txt": b"no", "other/c.bin": b"no"}
    commit = server.dataset("owner/texts").commit(files)
    assert hub.resolve(SOURCE) == commit
    hub.check_access(SOURCE)
    a, b = hub.list_files(SOURCE, commit)
    assert (a.path, a.size, a.digest) == ("part/a.bin", 25_600, hashlib.sha256(CONTENT).hexdigest())
    # As `printf small | git hash-object --stdin` says.
    assert (b.path, b.size, b.digest) == ("part/b.bin", 5, "64c3ecd7abb014643a372e0155b41cfca014c01f")
    assert fetched(SOURCE, tmp_path) == {"part/a.bin": CONTENT, "part/b.bin": b"small"}


def test_gated_data_say_what_opens_them(server: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = server.dataset("owner/secret", gated=True).commit({"a.bin": b"x"}, "abc1234")
    assert hub.resolve(GATED) == commit
    with pytest.raises(HubError, match="is gated") as raised:
        hub.check_access(GATED)
    for step in ("https://huggingface.co/datasets/owner/secret", "/settings/tokens", "HF_TOKEN", "hf auth login"):
        assert step in str(raised.value)
    monkeypatch.setenv("HF_TOKEN", OTHER_TOKEN)
    with pytest.raises(HubError, match="has not accepted the licence. Open https://huggingface.co/datasets/owner/"):
        hub.check_access(GATED)
    with pytest.raises(HubError, match="has not accepted"):
        hub.list_files(GATED, commit)
    monkeypatch.setenv("HF_TOKEN", "hf_mistyped")
    with pytest.raises(HubError, match=r"refuses the token \(401\)") as raised:
        hub.check_access(GATED)
    assert "hf_mistyped" not in str(raised.value)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.check_access(GATED)
    assert [file.path for file in hub.list_files(GATED, commit)] == ["a.bin"]


def test_what_is_missing_is_named(server: LocalHub) -> None:
    with pytest.raises(HubError, match=r"texts \(owner/texts\)"):
        hub.resolve(SOURCE)
    commit = server.dataset("owner/texts").commit({"part/a.txt": b"x"})
    with pytest.raises(HubError, match=r"has no file part/\*\.bin"):
        hub.list_files(SOURCE, commit)
    server.dataset("owner/secret").commit({"a.bin": b"x"})
    with pytest.raises(HubError, match="has no revision 'abc1234'"):
        hub.resolve(GATED)


def test_a_hub_that_cannot_be_reached_is_named(server: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match="http://127.0.0.1:9 cannot be reached"):
        hub.resolve(SOURCE)


def test_a_connection_that_breaks_is_taken_up_where_it_broke(server: LocalHub, tmp_path: Path) -> None:
    server.dataset("owner/texts").commit({"part/a.bin": CONTENT})
    server.break_after["part/a.bin"] = [1000, 2000]
    assert fetched(SOURCE, tmp_path)["part/a.bin"] == CONTENT
    assert server.downloads("a.bin") == ["", "bytes=1000-", "bytes=3000-"]


def test_a_later_attempt_goes_on_with_what_is_here(server: LocalHub, tmp_path: Path) -> None:
    server.dataset("owner/texts").commit({"part/a.bin": CONTENT})
    partial = tmp_path / "partial" / f"{hashlib.sha256(CONTENT).hexdigest()}.incomplete"
    partial.parent.mkdir()
    partial.write_bytes(CONTENT[:7000])
    assert fetched(SOURCE, tmp_path)["part/a.bin"] == CONTENT
    assert server.downloads("a.bin") == ["bytes=7000-"]


@pytest.mark.parametrize("before", [b"not the start of it", CONTENT + b"and more"])
def test_a_damaged_beginning_is_found_out_and_fetched_anew(server: LocalHub, tmp_path: Path, before: bytes) -> None:
    server.dataset("owner/texts").commit({"part/a.bin": CONTENT})
    partial = tmp_path / "partial" / f"{hashlib.sha256(CONTENT).hexdigest()}.incomplete"
    partial.parent.mkdir()
    partial.write_bytes(before)
    assert fetched(SOURCE, tmp_path)["part/a.bin"] == CONTENT


@pytest.mark.parametrize("content", [CONTENT, b"small"], ids=["sha256", "git"])
def test_a_file_that_is_changed_on_the_way_is_never_kept(server: LocalHub, tmp_path: Path, content: bytes) -> None:
    server.dataset("owner/texts").commit({"part/a.bin": content})
    wrong = content[:-1] + b"?"
    server.instead["part/a.bin"] = [wrong]
    assert fetched(SOURCE, tmp_path / "once")["part/a.bin"] == content
    server.instead["part/a.bin"] = [wrong, wrong]
    with pytest.raises(HubError, match=r"part/a\.bin has the digest .* damaged on the way, twice"):
        fetched(SOURCE, tmp_path / "twice")
    assert not (tmp_path / "twice" / "part").exists()


def test_a_file_that_is_too_short_on_the_hub_is_an_error(server: LocalHub, tmp_path: Path) -> None:
    server.dataset("owner/texts").commit({"part/a.bin": CONTENT})
    server.instead["part/a.bin"] = [CONTENT[:100]] * 10
    with pytest.raises(HubError, match="keeps ending too early"):
        fetched(SOURCE, tmp_path)


def test_a_limited_rate_is_waited_out_as_long_as_the_hub_asks(
    server: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    server.dataset("owner/texts").commit({"part/a.bin": CONTENT})
    server.limited = ["7", "11"]
    assert fetched(SOURCE, tmp_path)["part/a.bin"] == CONTENT
    # huggingface_hub waits one second more, since the header is rounded.
    assert [seconds for seconds in slept if seconds >= 1] == [8, 12]
    server.limited = ["7"] * 50
    with pytest.raises(HubError, match="still limits the rate after waiting as long as it asked"):
        fetched(SOURCE, tmp_path / "limited")


def test_a_path_that_leads_out_of_the_folder_is_refused(server: LocalHub) -> None:
    source = HubSource("texts", "raw/texts", "owner/texts")
    commit = server.dataset("owner/texts").commit({"../../outside.txt": b"x"})
    with pytest.raises(HubError, match="leads out of its folder"):
        hub.list_files(source, commit)
