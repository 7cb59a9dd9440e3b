"""Reading files wherever artifacts lie: a local folder or a bucket, through fsspec."""

import fsspec


def read_bytes(path: str, start: int = 0) -> bytes:
    """The content of the file at ``path`` from byte ``start`` on, read anew.

    Raises:
        FileNotFoundError: when there is none.
    """
    fs, plain = fsspec.core.url_to_fs(path, use_listings_cache=False)
    # A bucket refuses a range that begins at the end.
    if start and fs.info(plain)["size"] <= start:
        return b""
    return fs.cat_file(plain, start=start or None)


def list_names(folder: str) -> list[str]:
    """Names of what lies in ``folder``, sorted; none when there is no such folder."""
    fs, plain = fsspec.core.url_to_fs(folder, use_listings_cache=False)
    if not fs.exists(plain):
        return []
    return sorted(str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in fs.ls(plain, detail=False))
