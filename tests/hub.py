"""A small model hub on this machine: as much of the real one's interface as huggingface_hub uses here."""

import gzip
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = 1000
"""Files from this size on are "LFS" files, known by their SHA-256; smaller ones by git's SHA-1."""
TOKEN = "hf_of_somebody_who_accepted"
OTHER_TOKEN = "hf_of_somebody_who_did_not"


def jsonl_gz(texts: list[str]) -> bytes:
    """A file as Paloma's are."""
    return gzip.compress(
        "".join(json.dumps({"text": text, "id": str(n)}) + "\n" for n, text in enumerate(texts)).encode()
    )


@dataclass
class Repository:
    """One repository: its commits, newest last, and who may read it."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: bool = False

    def commit(self, files: Mapping[str, bytes], name: str = "") -> str:
        """Add a commit; ``name`` is a prefix of its hash. Returns the hash."""
        content = json.dumps({path: hashlib.sha1(data).hexdigest() for path, data in files.items()}, sort_keys=True)
        hash_ = name + hashlib.sha1(content.encode()).hexdigest()[len(name) :]
        self.commits[hash_] = dict(files)
        return hash_

    def find(self, revision: str) -> str | None:
        if revision == "main":
            return list(self.commits)[-1]
        return next((hash_ for hash_ in self.commits if hash_.startswith(revision)), None)


@dataclass
class LocalHub:
    """The hub's state; tests change it and read what was asked."""

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    """By "datasets/owner/name" or "models/owner/name"."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """(method, path, Range header) of every request."""
    break_after: dict[str, list[int]] = field(default_factory=dict)
    """By file: for each coming request, after how many bytes the connection breaks; none left means never."""
    instead: dict[str, list[bytes]] = field(default_factory=dict)
    """By file: contents that are served in place of the true one, one a request."""
    limited: list[str] = field(default_factory=list)
    """Retry-After headers: each coming request for a file takes one and is answered with 429."""

    def dataset(self, repo_id: str, *, gated: bool = False) -> Repository:
        return self.repositories.setdefault(f"datasets/{repo_id}", Repository(gated=gated))

    def model(self, repo_id: str) -> Repository:
        return self.repositories.setdefault(f"models/{repo_id}", Repository())

    def downloads(self, file: str) -> list[str]:
        """Range header of each GET of ``file``."""
        return [span for method, path, span in self.asked if method == "GET" and path.endswith(f"/{file}")]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LocalHub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path, self.headers.get("Range", "")))
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            name, rest = "/".join(parts[1:4]), parts[4:]
        elif parts[0] == "datasets":
            name, rest = "/".join(parts[:3]), parts[3:]
        else:
            name, rest = "models/" + "/".join(parts[:2]), parts[2:]
        repository = self.hub.repositories.get(name)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in ("", TOKEN, OTHER_TOKEN):
            return self._refuse(401, "", "Invalid credentials in Authorization header")
        if repository is None:
            return self._refuse(404 if token else 401, "RepoNotFound")
        is_metadata = parts[0] == "api" and rest[:1] in ([], ["revision"])
        if repository.gated and token != TOKEN and not is_metadata:
            return self._refuse(403 if token else 401, "GatedRepo")
        if rest == ["auth-check"]:
            return self._send(b"{}")
        commit = repository.find(rest[1] if len(rest) > 1 else "main")
        if commit is None:
            return self._refuse(404, "RevisionNotFound")
        files = repository.commits[commit]
        if is_metadata:
            about = {"id": name.partition("/")[2], "sha": commit, "gated": "auto" if repository.gated else False}
            return self._send(json.dumps({**about, "private": False, "siblings": [], "tags": []}).encode())
        if parts[0] == "api" and rest[0] == "tree":
            return self._tree(files, "/".join(rest[2:]))
        return self._file(files, commit, "/".join(rest[2:]))

    def _tree(self, files: dict[str, bytes], folder: str) -> None:
        entries = []
        for path, data in files.items():
            if folder and not path.startswith(f"{folder}/"):
                continue
            entry = {"type": "file", "path": path, "size": len(data), "oid": _git_sha1(data)}
            if len(data) >= LARGE:
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            entries.append(entry)
        if folder and not entries:
            return self._refuse(404, "EntryNotFound")
        self._send(json.dumps(entries).encode())

    def _file(self, files: dict[str, bytes], commit: str, path: str) -> None:
        if path not in files:
            return self._refuse(404, "EntryNotFound")
        if self.hub.limited:
            return self._refuse(429, "", "", {"Retry-After": self.hub.limited.pop(0)})
        data = files[path]
        etag = hashlib.sha256(data).hexdigest() if len(data) >= LARGE else _git_sha1(data)
        if self.hub.instead.get(path):
            data = self.hub.instead[path].pop(0)
        span = self.headers.get("Range", "")
        start = int(span.removeprefix("bytes=").partition("-")[0]) if span else 0
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if span:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        broken = self.hub.break_after.get(path)
        self._send(data[start:], 206 if span else 200, headers, broken.pop(0) if broken else None)

    def _refuse(self, status: int, code: str, message: str = "", more: Mapping[str, str] | None = None) -> None:
        named = {"X-Error-Code": code, "X-Error-Message": message}
        self._send(b"", status, {**{key: value for key, value in named.items() if value}, **(more or {})})

    def _send(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, break_after: int | None = None
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body if break_after is None else body[:break_after])
        if break_after is not None:
            self.close_connection = True


def _git_sha1(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


@contextmanager
def serve() -> Iterator[LocalHub]:
    """A hub that answers until the block is left."""
    hub = LocalHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
