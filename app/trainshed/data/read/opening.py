"""Opens a file of a dataset: on a disk, in a bucket or on the web, kept on this node or not."""

from __future__ import annotations

import errno
import functools
import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from trainshed.data.order.files import Stamp
from trainshed.data.read.kept import ChangedError, kept_here
from trainshed.patience import READS, Patience
from trainshed.records.addresses import is_address, is_web, stored_file
from trainshed.records.reach import AS_USUAL, Reach
from trainshed.records.spans import PART_BYTES, WHOLE
from trainshed_api.quantity import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyarrow import NativeFile

    from trainshed.data.order.files import Fragment, Scan
    from trainshed.records.bucket import Bucket
    from trainshed.records.spans import Span
    from trainshed_api.rows import ReadSpec

# Of files whose server gives no ranges: each is fetched whole, whatever is read of it.
WEB_BYTES = 10 * 2**30
# How Ray writes that a bucket is read without credentials.
ANONYMOUS = "anonymous@"


class Opener(Protocol):
    """Opens a file.

    `ahead` says which bytes of it will be read, where it is known: from an address they are fetched
    while others are still looked at.
    """

    def __call__(self, where: str, ahead: Sequence[Span] = (), /) -> NativeFile:
        """Return a file that can be read at any place."""
        ...

    def __hash__(self) -> int:
        """Let what was read of files be kept by who opens them."""
        ...


@dataclass(frozen=True)
class Files:
    """Opens the files of a dataset.

    Args:
        reach: of their store.
        cache_bytes: of files that this node keeps; 0 for none.
        stamps: of those that may be kept, by their addresses.
        is_brief: whether only a few first rows are read: nothing is fetched ahead or kept for them.
    """

    reach: Reach = AS_USUAL
    cache_bytes: int = 0
    stamps: Mapping[str, Stamp] = field(default_factory=dict, compare=False)
    is_brief: bool = False

    def __call__(self, where: str, ahead: Sequence[Span] = (), /) -> NativeFile:
        """Return a file that can be read at any place.

        Args:
            where: a path, or an address, of which only the ranges that are asked for are fetched.
            ahead: what will be read of it.
        """
        if not is_remote(where):
            return pa.OSFile(where)
        from trainshed.records.ranges import Ranges

        file, stamp = stored_file(where, self.reach), self.stamps.get(where)
        if is_web(where) and not _gives_ranges(where):
            return self._whole(file)
        if stamp and self.cache_bytes and not self.is_brief:
            kept = kept_here(self.cache_bytes)
            if found := kept.open(
                self._key(where, stamp), stamp.bytes, lambda: _ranges(file, stamp)
            ):
                return found
        coming = () if self.is_brief else ahead
        return pa.PythonFile(Ranges(file, stamp and stamp.bytes, coming), mode="r")

    def _whole(self, file: Bucket) -> NativeFile:
        stored = file.stat("")
        if stored is None:
            raise FileNotFoundError(errno.ENOENT, "nothing there", str(file))
        kept = kept_here(max(self.cache_bytes, WEB_BYTES))
        key = self._key(str(file), stamp_of(stored.bytes, stored.version))
        return kept.open(key, stored.bytes, lambda: _streamed(file)) or pa.BufferReader(
            b"".join(_streamed(file))
        )

    def _key(self, where: str, stamp: Stamp) -> str:
        text = f"{self.reach.endpoint} {where} {stamp.version}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Access:
    """How files are got at.

    Args:
        patience: with the storage.
        opened: opens a file.
    """

    patience: Patience = READS
    opened: Opener = field(default_factory=Files)

    def of(self, scan: Scan, fragment: Fragment | None = None) -> Access:
        """Return how the files of a dataset are got at; those of a fragment may be kept."""
        if not isinstance(self.opened, Files):
            return self
        stamps = dict(zip(fragment.paths, fragment.stamps, strict=False)) if fragment else {}
        files = replace(self.opened, reach=scan.reach, cache_bytes=scan.cache_bytes, stamps=stamps)
        return replace(self, opened=files)

    def briefly(self) -> Access:
        """Return how files are got at of which a few first rows are read."""
        if not isinstance(self.opened, Files):
            return self
        return replace(self, opened=replace(self.opened, is_brief=True))


ACCESS = Access()
open_file: Opener = Files()


def is_remote(where: str) -> bool:
    """Say whether a file lies at an address, where each answer has to be waited for."""
    return is_address(where) or is_web(where)


def reach_of(read: ReadSpec) -> Reach:
    """Return how the store of a dataset is reached."""
    is_anonymous = read.anonymous or is_rays_anonymous(read.path or "")
    return Reach(is_anonymous, read.requester_pays, read.endpoint or "", read.region or "")


def is_rays_anonymous(path: str) -> bool:
    """Say whether a path is written as Ray does where there are no credentials."""
    return path.startswith((f"s3://{ANONYMOUS}", f"gs://{ANONYMOUS}"))


def cache_bytes_of(read: ReadSpec) -> int:
    """Return how much of a dataset a node keeps."""
    return parse_bytes(read.local_cache) if read.local_cache else 0


def stamp_of(num_bytes: int, version: str) -> Stamp:
    """Return what tells a content of a file from one that is written there later."""
    digest = hashlib.blake2b(version.encode(), digest_size=7).digest()
    return Stamp(num_bytes, int.from_bytes(digest))


def _ranges(file: Bucket, stamp: Stamp) -> Iterator[bytes]:
    from trainshed.records.ranges import Ranges

    with Ranges(file, stamp.bytes, WHOLE) as raw:
        while piece := raw.read(PART_BYTES):
            yield piece
        found = raw.stored
        if found and stamp_of(found.bytes, found.version) != stamp:
            raise ChangedError


def _streamed(file: Bucket) -> Iterator[bytes]:
    import obstore

    from trainshed.records.client import client_of, told

    with told(file.root, str(file)):
        for piece in obstore.get(client_of(file.root), file.key).stream():
            yield bytes(piece)


@functools.lru_cache(maxsize=64)
def _gives_ranges(where: str) -> bool:
    """Ask a server whether it gives a part of a file."""
    from trainshed.records.ranges import Ranges

    try:
        Ranges(stored_file(where)).fetch(0, 1)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return False
    return True
