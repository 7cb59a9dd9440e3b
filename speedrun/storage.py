"""Reading files wherever artifacts lie: a local folder or a bucket, through fsspec."""

import ipaddress
import os
from typing import Any
from urllib.parse import urlsplit

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


def find_buckets_by_path() -> None:
    """Make Levanter's arrays ask an S3 server at an IP address for a bucket's path. Call before running steps.

    Levanter asks for the host ``bucket.server``, and an address has no such names below it. What goes through botocore
    minds that by itself.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if not _is_address(urlsplit(endpoint).hostname):
        return
    import levanter.store.jagged_array as arrays
    import levanter.tensorstore_serialization as checkpoints

    by_host = checkpoints.build_kvstore_spec

    def by_path(path: str) -> dict[str, Any]:
        spec = by_host(path)
        if spec["driver"] == "s3":
            spec |= {"endpoint": endpoint, "bucket": urlsplit(path).netloc}
        return spec

    checkpoints.build_kvstore_spec = arrays.build_kvstore_spec = by_path


def _is_address(host: str | None) -> bool:
    try:
        ipaddress.ip_address(host or "")
    except ValueError:
        return False
    return True
