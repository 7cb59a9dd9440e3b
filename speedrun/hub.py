"""The model hub: which commit, which files, may this token read them, and how they get here.

Everything goes through huggingface_hub, so that HF_ENDPOINT, HF_TOKEN and `hf auth login` work as its users know
them. Nothing here imports jax or marin.
"""

import fnmatch
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from speedrun.errors import SpeedrunError
from speedrun.sources import HUB_PAGES, HubSource

if TYPE_CHECKING:
    from huggingface_hub import HfApi

AT_ONCE = 8
"""Files that are fetched at the same time."""
ANSWER_SECONDS = 10
"""How long the hub may take to say which commit a revision is."""


class HubError(SpeedrunError):
    """The hub does not give what is needed; the message says how to open it."""


@dataclass(frozen=True)
class HubFile:
    """One file of a commit."""

    path: str
    size: int
    """Bytes."""
    digest: str
    """SHA-256 of a large file, else git's SHA-1 of the blob: 64 or 40 hex digits."""


def endpoint() -> str | None:
    """Where the hub is asked; None for the public one. Read anew, unlike huggingface_hub's own constant."""
    return os.environ.get("HF_ENDPOINT") or None


def resolve(source: HubSource) -> str:
    """The full commit that ``source``'s revision is today.

    Raises:
        HubError: when it cannot be told.
    """
    with _explained(source):
        info = _api().repo_info(
            source.repo_id, repo_type=source.kind, revision=source.revision or None, timeout=ANSWER_SECONDS
        )
    commit = info.sha or ""
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit) or (
        re.fullmatch(r"[0-9a-f]{7,64}", source.revision) and not commit.startswith(source.revision)
    ):
        raise HubError(f"{_what(source)}: the hub answers with the commit {commit!r}, which is not what was asked for")
    return commit


def check_access(source: HubSource) -> None:
    """Find out whether the present token may read ``source``.

    Raises:
        HubError: saying what opens it.
    """
    with _explained(source):
        _api().auth_check(source.repo_id, repo_type=source.kind)


def list_files(source: HubSource, commit: str) -> list[HubFile]:
    """The files of ``source`` at ``commit``, in sorted order.

    Raises:
        HubError: when there are none, or the hub does not say.
    """
    from huggingface_hub.hf_api import RepoFile

    with _explained(source):
        tree = _api().list_repo_tree(
            source.repo_id, source.folder or None, recursive=True, revision=commit, repo_type=source.kind
        )
        found = [entry for entry in tree if isinstance(entry, RepoFile)]
    wanted = [
        entry for entry in found if not source.files or any(fnmatch.fnmatchcase(entry.path, p) for p in source.files)
    ]
    if not wanted:
        raise HubError(f"{_what(source)}: commit {commit[:12]} has no file {' or '.join(source.files) or 'at all'}")
    for entry in wanted:
        if entry.path.startswith("/") or ".." in entry.path.split("/"):
            raise HubError(f"{_what(source)}: it lists {entry.path!r}, which leads out of its folder")
    files = [HubFile(entry.path, entry.size, entry.lfs.sha256 if entry.lfs else entry.blob_id) for entry in wanted]
    return sorted(files, key=lambda file: file.path)


def fetch(
    source: HubSource,
    commit: str,
    files: Sequence[HubFile],
    partials: Path,
    keep: Callable[[HubFile, Path], None],
    on_progress: Callable[[int], None],
) -> None:
    """Download ``files`` and hand each, verified, to ``keep``. What was begun earlier is gone on with.

    Args:
        partials: folder for files that are not whole yet.
        keep: moves a whole file from the given path to where it belongs.
        on_progress: told about once a second how many bytes are here.

    Raises:
        HubError: naming the file, and saying what to do.
    """
    partials.mkdir(parents=True, exist_ok=True)
    kept: list[int] = []

    def one(file: HubFile) -> None:
        partial = partials / f"{file.digest}.incomplete"
        _fetch_file(source, commit, file, partial)
        keep(file, partial)
        kept.append(file.size)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        pending = {pool.submit(one, file) for file in files}
        while pending:
            done, pending = wait(pending, timeout=1, return_when=FIRST_EXCEPTION)
            for future in done:
                if (error := future.exception()) is not None:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise error
            on_progress(sum(kept) + sum(_size(path) for path in partials.glob("*.incomplete")))


def digest_of(path: Path, like: str) -> str:
    """The digest of a file, of the kind that ``like`` is of (see ``HubFile.digest``)."""
    if len(like) == 64:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _fetch_file(source: HubSource, commit: str, file: HubFile, partial: Path) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    url = hf_hub_url(source.repo_id, file.path, repo_type=source.kind, revision=commit, endpoint=endpoint())
    for _ in range(2):
        if _size(partial) > file.size:
            partial.unlink()
        with _explained(source, file.path), partial.open("ab") as out:
            # The hub's own client waits as long as a 429 asks, and takes up a connection that breaks.
            http_get(
                url,
                out,
                resume_size=out.tell(),
                headers=build_hf_headers(),
                expected_size=file.size,
                displayed_filename=file.path,
            )
        digest = digest_of(partial, file.digest)
        if digest == file.digest:
            return
        # An older part may have been damaged: once more, from the start.
        partial.unlink()
    raise HubError(
        f"{_what(source)}: {file.path} has the digest {digest}, and the hub says {file.digest}: it is damaged on the "
        "way, twice. Run the same command again; what is whole is kept."
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _api() -> "HfApi":
    from huggingface_hub import HfApi

    return HfApi(endpoint=endpoint(), library_name="marin-speedrun")


def _what(source: HubSource, file: str = "") -> str:
    return f"{source.name} ({source.repo_id}{f', {file}' if file else ''})"


@contextmanager
def _explained(source: HubSource, file: str = "") -> Iterator[None]:
    """Turn what huggingface_hub raises into one message that says what opens the data."""
    import httpx
    from huggingface_hub import errors, get_token

    what, has_token = _what(source, file), get_token() is not None
    try:
        yield
    except errors.GatedRepoError as error:
        if error.response.status_code == 403 or has_token:
            raise HubError(
                f"{what}: the account of the token has not accepted the licence. Open {source.page} signed in to that "
                "account, accept it, and run the same command again"
            ) from None
        raise HubError(f"{what} is gated. {how_to_open(source)}") from None
    except errors.RevisionNotFoundError:
        raise HubError(
            f"{what} has no revision {source.revision!r} at {_place()}: it was removed, or the mirror is incomplete"
        ) from None
    except errors.RepositoryNotFoundError as error:
        if error.response.status_code in (401, 403):
            raise HubError(f"{what} cannot be read without a token. {how_to_open(source)}") from None
        raise HubError(f"{what}: there is no such repository at {_place()}") from None
    except errors.EntryNotFoundError:
        raise HubError(f"{what}: the file is not at {_place()}") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise HubError(
                f"{what}: {_place()} refuses the token ({status}). Make a new one that may read at "
                f"{HUB_PAGES}/settings/tokens and set HF_TOKEN to it, or `hf auth login`"
            ) from None
        if status == 429:
            raise HubError(
                f"{what}: {_place()} still limits the rate after waiting as long as it asked. Run the same command "
                "later (with a token more is allowed); what is here is kept"
            ) from None
        raise HubError(f"{what}: {_place()} answers with {status}. Run the same command again later") from None
    except (httpx.HTTPError, errors.OfflineModeIsEnabled) as error:
        raise HubError(
            f"{what}: {_place()} cannot be reached ({type(error).__name__}: {str(error).splitlines()[0][:120]}). Set "
            "HF_ENDPOINT to a mirror that can, or see docs/data.md for a machine without a way out"
            + (f". It is gated besides. {how_to_open(source)}" if source.gated else "")
        ) from None
    except OSError as error:
        if "Consistency check failed" not in str(error):
            raise
        raise HubError(
            f"{what}: the download keeps ending too early. Run the same command again: it goes on where it stopped"
        ) from None


def how_to_open(source: HubSource) -> str:
    """The steps that open gated data."""
    return (
        f"To open it: (1) accept the licence at {source.page}; (2) make a token that may read at "
        f"{HUB_PAGES}/settings/tokens; (3) set HF_TOKEN to it, or `hf auth login`"
    )


def _place() -> str:
    return endpoint() or HUB_PAGES
