"""Opens files of a dataset on a disk, in a bucket or on the web, cached on this node or not."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from trainshed.data.sampler.fragments import FileVersion
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.local_cache import kept_here
from trainshed.retry import READS, RetryPolicy
from trainshed.storage.addresses import is_remote, is_web, stored_file
from trainshed.storage.byte_ranges import PART_BYTES, WHOLE
from trainshed.storage.folder import Stored
from trainshed.storage.region import region_of
from trainshed.storage.scratch import NoRoomError
from trainshed.storage.store_options import AS_USUAL, StoreOptions
from trainshed_api.names import ENV_SCRATCH
from trainshed_api.quantity import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyarrow import NativeFile

    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.storage.bucket import Bucket
    from trainshed.storage.byte_ranges import Span
    from trainshed_api.rows import ReadSpec

# Maximum bytes of files whose server supports no ranges: each is fetched whole.
WEB_BYTES = 10 * 2**30
# Maximum bytes of such a file in memory, if the node does not cache it.
HELD_BYTES = 64 * 2**20
_S3 = "s3://"
# Environment variables of the S3 endpoint.
_ENDPOINTS = frozenset({"AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"})
_REGIONS = frozenset({"AWS_REGION", "AWS_DEFAULT_REGION"})
# Ray's notation of anonymous access to a bucket.
ANONYMOUS = "anonymous@"


class Opener(Protocol):
    """Opens a file.

    `ahead` has the ranges that will be read, if known: from an address they are
    prefetched.
    """

    def __call__(self, where: str, ahead: Sequence[Span] = (), /) -> NativeFile:
        """Return a file with random access."""
        ...

    def __hash__(self) -> int:
        """Allow caching of file metadata by the caller."""
        ...


@dataclass(frozen=True)
class FileOpener:
    """Opens the files of a dataset.

    Args:
        store_options: connection options of their store.
        cache_bytes: of the node's cache; 0 for none.
        stamps: expected content by path or address; any content for missing entries.
        nonce: of a plan: cached files without a version belong to one plan only.
        is_brief: whether only a few first rows are read: without prefetching or caching.
    """

    store_options: StoreOptions = AS_USUAL
    cache_bytes: int = 0
    stamps: Mapping[str, FileVersion] = field(default_factory=dict, compare=False)
    nonce: str = ""
    is_brief: bool = False

    def __call__(self, where: str, ahead: Sequence[Span] = (), /) -> NativeFile:
        """Return a file with random access.

        Args:
            where: a path, or an address, whose ranges are fetched on demand.
            ahead: ranges that will be read.

        Raises:
            DataError: if it was overwritten since it was listed, now or during a read.
        """
        if not is_remote(where):
            local = pa.OSFile(where)
            try:
                self.check_again([where])  # after opening, so that the check covers the content
            except BaseException:
                local.close()
                raise
            return local
        from trainshed.storage.ranged_reads import Ranges

        file, stamp = stored_file(where, self.store_options), self.stamps.get(where)
        if is_web(where) and not _gives_ranges(where, self.store_options):
            return self._whole(file)
        check = functools.partial(check_same, where, stamp) if stamp else None
        if stamp and check and self.cache_bytes and not self.is_brief:
            kept = kept_here(self.cache_bytes)
            if found := kept.open(
                self._key(where, stamp), stamp.bytes, lambda: _ranges(file, stamp.bytes, check)
            ):
                return found
        coming = () if self.is_brief else ahead
        # Content of one response: a Python file object, whose ranges are requested as they are
        # read, costs a third more CPU per picture than the response.
        if stamp and coming == WHOLE and stamp.bytes <= PART_BYTES:
            return pa.BufferReader(Ranges(file, stamp.bytes, check=check).fetch(0, stamp.bytes))
        return pa.PythonFile(Ranges(file, stamp and stamp.bytes, coming, check), mode="r")

    def check_again(self, paths: Sequence[str]) -> None:
        """Refuse files of a disk that differ from the listing.

        All responses for an address have the same content; a disk returns its current one.

        Raises:
            DataError: naming the first one.
        """
        for path in paths:
            if not is_remote(path) and (stamp := self.stamps.get(path)):
                with suppress(OSError):  # reported by the reader
                    found = Path(path).stat()
                    check_same(path, stamp, Stored(path, found.st_size, found.st_mtime))

    def _whole(self, file: Bucket) -> NativeFile:
        from trainshed.storage.ranged_reads import stored_on_web

        stored = stored_on_web(file)
        if stored is None:
            raise FileNotFoundError(errno.ENOENT, "nothing there", str(file))
        if stamp := self.stamps.get(str(file)):
            check_same(str(file), stamp, stored)
        most = max(self.cache_bytes, _most_whole_bytes())
        if stored.bytes > most:
            raise DataError(
                f"{file}: {stored.bytes} bytes of a server that gives no ranges, where a node "
                f"keeps {most} of such files: put it into a bucket or on a volume, or cut it"
            )
        kept = kept_here(most)
        key = self._key(str(file), stamp_of(stored.bytes, stored.version))
        if found := kept.open(key, stored.bytes, lambda: _streamed(file, stored)):
            return found
        if stored.bytes > HELD_BYTES:
            raise NoRoomError(
                f"{tempfile.gettempdir()} has too little space for {file}, {stored.bytes} "
                "bytes of a server that gives no ranges: give it more, in a cluster by scratch.tmp "
                "of the chart, or put the file into a bucket or on a volume"
            )
        return pa.BufferReader(b"".join(_streamed(file, stored)))

    def _key(self, where: str, stamp: FileVersion) -> str:
        version = str(stamp.version) if stamp.version else self.nonce
        text = f"{self.store_options.endpoint} {where} {self.store_options.query} {version}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class FileAccess:
    """Access to files.

    Args:
        retry_policy: retries of the storage.
        opened: opens a file.
    """

    retry_policy: RetryPolicy = READS
    opened: Opener = field(default_factory=FileOpener)

    def of(
        self, scan: Scan, fragment: Fragment | None = None, *, is_brief: bool = False
    ) -> FileAccess:
        """Return the access to the files of a dataset, optionally caching those of a fragment.

        is_brief: read only a few first rows.
        """
        if not isinstance(self.opened, FileOpener):
            return self
        stamps = dict(zip(fragment.paths, fragment.stamps, strict=False)) if fragment else {}
        files = replace(
            self.opened,
            store_options=scan.store_options,
            cache_bytes=scan.cache_bytes,
            stamps=stamps,
            nonce=scan.nonce,
            is_brief=is_brief or self.opened.is_brief,
        )
        return replace(self, opened=files)

    def check_again(self, fragment: Fragment) -> None:
        """Refuse a file of a disk that changed during the read; many small ones are read at once.

        Raises:
            DataError: naming it.
        """
        if isinstance(self.opened, FileOpener) and not fragment.more:
            self.opened.check_again(fragment.paths)


ACCESS = FileAccess()
open_file: Opener = FileOpener()


def store_options_of(read: ReadSpec) -> StoreOptions:
    """Return the connection options of a dataset's store; may ask Amazon for the region."""
    path = read.path or ""
    address = without_anonymous(path)
    is_anonymous = read.anonymous or address != path
    query = path.partition("#")[0].partition("?")[2] if is_web(path) else ""
    endpoint, region = read.endpoint or "", read.region or ""
    if path.startswith(_S3) and not (region or endpoint) and _asks_region(is_anonymous):
        bucket = address.removeprefix(_S3).partition("/")[0]
        region = region_of(bucket) or ""
    return StoreOptions(is_anonymous, read.requester_pays, endpoint, region, query)


def _asks_region(is_anonymous: bool) -> bool:
    """Return whether the environment has no region, or one that is not the bucket's.

    An anonymous bucket is rarely in the region of the storage.
    """
    named = os.environ.keys()
    return named.isdisjoint(_ENDPOINTS) and (is_anonymous or named.isdisjoint(_REGIONS))


def without_anonymous(path: str) -> str:
    """Return a path's address without Ray's notation of anonymous access; other paths as given."""
    is_anonymous = path.startswith((f"s3://{ANONYMOUS}", f"gs://{ANONYMOUS}"))
    return path.replace(ANONYMOUS, "", 1) if is_anonymous else path


def stamp_of(num_bytes: int, version: str, modified: float = 0) -> FileVersion:
    """Return the identity of a file's content.

    Args:
        num_bytes: its size.
        version: of it; empty if its store has none; then only the size counts.
        modified: seconds since 1970, in a store, where contents may share a tag.
    """
    digest = hashlib.blake2b(version.encode(), digest_size=7).digest() if version else b""
    return FileVersion(num_bytes, int.from_bytes(digest), int(modified))


def check_same(where: str, stamp: FileVersion, found: Stored) -> None:
    """Refuse a content that differs from the listed one.

    Raises:
        DataError: naming the file.
    """
    versions = {stamp.version, stamp_of(found.bytes, found.version).version} - {0}
    # A store may format tags differently in listings and other responses.
    is_of_one_date = stamp.modified and stamp.modified == int(found.modified)
    if found.bytes != stamp.bytes or (len(versions) > 1 and not is_of_one_date):
        raise DataError(
            f"{where}: it was overwritten since the run was planned: files, and on disks their "
            "dates, must not change while a run reads them, and must be the same on every node"
        )


def _ranges(file: Bucket, size: int, check: Callable[[Stored], None]) -> Iterator[bytes]:
    from trainshed.storage.ranged_reads import Ranges

    if size <= PART_BYTES:
        yield Ranges(file, size, check=check).fetch(0, size)
        return
    with Ranges(file, size, WHOLE, check) as raw:
        while piece := raw.read(PART_BYTES):
            yield piece


def _streamed(file: Bucket, wanted: Stored) -> Iterator[bytes]:
    import obstore

    from trainshed.storage.ranged_reads import stored_of
    from trainshed.storage.store_client import client_of, told

    with told(file.root, str(file)):
        found = obstore.get(client_of(file.root, store_options=file.store_options), file.key)
        stored = stored_of(file, found.meta)
        versions = {stored.version, wanted.version} - {""}  # responses to HEAD may have none
        if stored.bytes != wanted.bytes or len(versions) > 1:
            raise OSError(errno.ESTALE, "it was overwritten while it was read", str(file))
        for piece in found.stream():
            yield bytes(piece)


def _most_whole_bytes() -> int:
    """Return the cache size for files that are fetched whole: Ray spills to the same disk."""
    limit = os.environ.get(ENV_SCRATCH)
    return min(WEB_BYTES, parse_bytes(limit) // 2) if limit else WEB_BYTES


@functools.lru_cache(maxsize=64)
def _gives_ranges(where: str, store_options: StoreOptions) -> bool:
    """Return whether a server supports ranges for a file."""
    from trainshed.storage.ranged_reads import Ranges

    try:
        Ranges(stored_file(where, store_options)).fetch(0, 1)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return False
    return True
