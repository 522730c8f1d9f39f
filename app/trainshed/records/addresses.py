"""Where something lies, as users write it: a path, file://, or the address of a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainshed.records.disk import Disk
from trainshed_api.names import BUCKET_SCHEMES

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from trainshed.records.storage import Folder


def is_address(text: str) -> bool:
    """Say whether a text is the address of a bucket."""
    return text.partition("://")[0] in BUCKET_SCHEMES and "://" in text


def _has_keys(scheme: str, found: SplitResult) -> bool:
    # container@account is how Azure's are written; nothing else has a user.
    user, at, _ = found.netloc.rpartition("@")
    return bool(at) and (scheme in ("s3", "gs") or ":" in user)


def open_folder(text: str) -> Folder:
    """Return the folder of a path or an address.

    Raises:
        ValueError: for an address without a bucket or of a kind that is not known, and for file://
            without a whole path.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Disk(Path(text))
    if scheme == "file":
        if not rest.startswith("/"):
            raise ValueError("file:// and a whole path, as in file:///runs")
        return Disk(Path(rest))
    found = urlsplit(text)
    # As in a path of a disk, what is between two slashes in a row is nothing.
    parts = [part for part in found.path.split("/") if part]
    is_whole = found.netloc and not found.query and not found.fragment
    if scheme in BUCKET_SCHEMES and _has_keys(scheme, found):
        # Not repeated: what is said is kept where others read it.
        raise ValueError("an address without keys: those are the environment's, or a Secret's")
    if scheme not in BUCKET_SCHEMES or not is_whole or {".", ".."} & set(parts):
        kinds = ", ".join(f"{known}://" for known in BUCKET_SCHEMES)
        raise ValueError(f"a path, file://, or a bucket's address with one of {kinds}")
    from trainshed.records.bucket import Bucket  # not before: who has a disk need not load it

    return Bucket(f"{scheme}://{found.netloc}", "/".join(parts))
