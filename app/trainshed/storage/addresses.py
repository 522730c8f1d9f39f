"""Parses locations as users write them: a path, file://, or the address of a bucket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainshed.storage.disk import Disk
from trainshed.storage.store_options import AS_USUAL, StoreOptions
from trainshed_api.names import BUCKET_SCHEMES, WEB_SCHEMES

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from trainshed.storage.bucket import Bucket
    from trainshed.storage.folder import Folder


def is_address(text: str) -> bool:
    """Return whether a text is the address of a bucket."""
    return text.partition("://")[0] in BUCKET_SCHEMES and "://" in text


def is_web(text: str) -> bool:
    """Return whether a text is the address of a file on the web."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme in WEB_SCHEMES


def is_remote(where: str) -> bool:
    """Return whether a file is at an address, where every request takes time."""
    return is_address(where) or is_web(where)


def shown(text: str) -> str:
    """Return a path or an address for messages, without parts that may be a key."""
    return text.partition("?")[0] if is_web(text) else text


def open_web(text: str) -> Bucket:
    """Return a file on the web, as a bucket with only this file.

    Raises:
        ValueError: for an address without a file, or with a password.
    """
    found = urlsplit(text)
    if "@" in found.netloc or not found.netloc:
        raise ValueError("an address without a password: what is said is kept where others read it")
    if found.path in ("", "/") or found.path.endswith("/"):
        raise ValueError("the address of one file: folders are not listed at http:// and https://")
    from trainshed.storage.bucket import Bucket  # imported late, as below

    where, _, query = text.partition("#")[0].partition("?")
    return Bucket(where, store_options=StoreOptions(query=query))


def reached(folder: Folder, store_options: StoreOptions) -> Folder:
    """Return the folder of a dataset's address; a disk folder is used as it is."""
    if folder.path or store_options == AS_USUAL:
        return folder
    from trainshed.storage.bucket import Bucket

    assert isinstance(folder, Bucket)
    return replace(folder, store_options=store_options)


def stored_file(where: str, store_options: StoreOptions = AS_USUAL) -> Bucket:
    """Return a file that a listing named, which is not a folder even if it looks like one.

    where: `s3://bucket/key`, or an address on the web, without its query string.
    """
    from trainshed.storage.bucket import Bucket

    if is_web(where):
        return Bucket(where, store_options=store_options)
    scheme, _, rest = where.partition("://")
    bucket, _, key = rest.partition("/")
    return Bucket(f"{scheme}://{bucket}", key, store_options=store_options)


def _has_keys(scheme: str, found: SplitResult) -> bool:
    # container@account is Azure's form; no other address has a user.
    user, at, _ = found.netloc.rpartition("@")
    return bool(at) and (scheme in ("s3", "gs") or ":" in user)


def open_folder(text: str) -> Folder:
    """Return the folder of a path or an address.

    Raises:
        ValueError: for an address without a bucket or with an unknown scheme, and for file://
            without an absolute path.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Disk(Path(text))
    if scheme == "file":
        if not rest.startswith("/"):
            raise ValueError("file:// and an absolute path, such as file:///runs")
        return Disk(Path(rest))
    found = urlsplit(text)
    # As in a path of a disk, empty parts between slashes are ignored.
    parts = [part for part in found.path.split("/") if part]
    is_whole = found.netloc and not found.query and not found.fragment
    if scheme in BUCKET_SCHEMES and _has_keys(scheme, found):
        # Not repeated: others can read where messages are stored.
        raise ValueError("an address without keys. Set them in the environment or in a Secret")
    if scheme not in BUCKET_SCHEMES or not is_whole or {".", ".."} & set(parts):
        kinds = ", ".join(f"{known}://" for known in BUCKET_SCHEMES)
        raise ValueError(f"a path, file://, or a bucket's address with one of {kinds}")
    from trainshed.storage.bucket import Bucket  # imported late: disks do not need it

    return Bucket(f"{scheme}://{found.netloc}", "/".join(parts))
