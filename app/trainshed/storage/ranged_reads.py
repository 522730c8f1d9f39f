"""An object of a bucket as a file that fetches only the requested ranges."""

from __future__ import annotations

import errno
import io
import re
import sys
from bisect import bisect_right
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from typing_extensions import override

from trainshed.storage import byte_ranges
from trainshed.storage.bucket import PART_BYTES
from trainshed.storage.folder import Stored
from trainshed.storage.store_client import client_of, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import WriteableBuffer
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore

    from trainshed.storage.bucket import Bucket
    from trainshed.storage.byte_ranges import Span

# The size arrives with the end of the file, where parquet has its footer.
TAIL_BYTES = 2**16
# Small reads are mostly followed by reads of the next bytes.
LEAST_BYTES = 2**16
# The client retries failed requests, but not responses that end early.
_TRIES = 4
# Parts to prefetch at once.
AHEAD_AT_ONCE = 4
# Two contents may share a weak tag, so it is not used as a condition (RFC 9110, 8.8.1).
_WEAK = "W/"
# The response for a range beyond the end: the file is smaller than it was.
_NO_SUCH_BYTES = re.compile(r"status code: 416|Wanted range starting")
# Recent ranges are likely to be read again.
_MOST_HELD = 3


class Ranges(io.RawIOBase):
    """An object whose ranges are read on demand.

    A missing object is reported by the first read, as its size is not requested before. All
    responses have the content of the first one: `stored`, once it is known.

    Args:
        file: the object.
        size: of it, if known; else the first response has it.
        ahead: bytes [start, stop) that will be read: a few parts of them are prefetched.
        check: inspects the content of the first response, and raises if it is the wrong one.
    """

    def __init__(
        self,
        file: Bucket,
        size: int | None = None,
        ahead: Sequence[Span] = (),
        check: Callable[[Stored], None] | None = None,
    ) -> None:
        self.stored: Stored | None = None
        self._file = file
        self._size = size
        self._check = check
        self._place = 0
        self._held: list[tuple[int, bytes]] = []
        self._ahead = _Ahead(self, ahead) if ahead else None

    @override
    def close(self) -> None:
        if self._ahead:
            self._ahead.close()
        super().close()

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_SET:
            self._place = offset
        else:
            self._place = offset + (self._place if whence == io.SEEK_CUR else self.size())
        return self._place

    @override
    def tell(self) -> int:
        return self._place

    def size(self) -> int:
        """Return the size of the object."""
        if self._size is not None:
            return self._size
        if self._ahead:
            self._piece_at(self._ahead.first, self._ahead.first + 1)
        else:
            tail = self._tail()
            self._hold(self._told_size() - len(tail), tail)
        return self._told_size()

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        end = self.size() if size is None or size < 0 else self._place + size
        found = []
        while self._place < end and (piece := self._piece_at(self._place, end)):
            found.append(piece)
            self._place += len(piece)
        return found[0] if len(found) == 1 else b"".join(found)

    @override
    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        found = self.read(len(view))
        view[: len(found)] = found
        return len(found)

    def fetch(self, start: int, stop: int) -> bytes:
        """Return the bytes of one response: fewer at the end of the object, none after it."""
        if self._size is None:
            try:
                return self._get({"range": (start, stop)})
            except (FileNotFoundError, PermissionError):
                raise
            except OSError:  # the object may end before
                self._size = self._asked().bytes
        stop = min(stop, self._size)
        return self._get({"range": (start, stop)}) if start < stop else b""

    def _told_size(self) -> int:
        assert self._size is not None
        return self._size

    def known_size(self) -> int | None:
        """Return the size, once a response has it."""
        return self._size

    def _piece_at(self, place: int, end: int) -> bytes:
        """Return bytes from a position on, at least one unless the object ends there."""
        for start, content in self._held:
            if start <= place < start + len(content):
                return content[place - start : end - start]
        if self._ahead and (part := self._ahead.take(place)):
            self._hold(*part)
            return part[1][place - part[0] : end - part[0]]
        # The client's timeout is per request, whatever its size.
        stop = min(end, place + PART_BYTES)
        content = self.fetch(place, max(stop, place + LEAST_BYTES))
        if len(content) <= LEAST_BYTES:
            self._hold(place, content)
        return content[: stop - place]

    def _hold(self, start: int, content: bytes) -> None:
        self._held = [*self._held[1 - _MOST_HELD :], (start, content)]

    def _tail(self) -> bytes:
        try:
            return self._get({"range": {"suffix": TAIL_BYTES}})
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:  # an empty object, or Azure, which has no suffix ranges
            self._size = self._asked().bytes
            return b""

    def _get(self, options: GetOptions) -> bytes:
        tag = self.stored.tag if self.stored else ""
        if tag and not tag.startswith(_WEAK):
            options["if_match"] = tag
        client, tries_left = (
            client_of(self._file.root, store_options=self._file.store_options),
            _TRIES,
        )
        with told(self._file.root, str(self._file)):
            while True:
                found = self._answer(client, options)
                self._note(found.meta)
                tries_left -= 1
                try:
                    return found.bytes().to_bytes()
                except BaseError:
                    if not tries_left:
                        raise

    def _answer(self, client: ObjectStore, options: GetOptions) -> GetResult:
        try:
            return obstore.get(client, self._file.key, options=options)
        except BaseError as error:
            if self._check and _NO_SUCH_BYTES.search(str(error)):
                self._check(self._asked())
            raise

    def _note(self, meta: ObjectMeta) -> None:
        found = stored_of(self._file, meta)
        if self.stored is None:
            if self._check:
                self._check(found)
            self.stored = found
            self._size = meta["size"]
        elif found != self.stored:  # the tag is missing, or cannot be a condition
            said = "it was overwritten while it was read"
            raise OSError(errno.ESTALE, said, str(self._file))

    def _asked(self) -> Stored:
        with told(self._file.root, str(self._file)):
            client = client_of(self._file.root, store_options=self._file.store_options)
            return stored_of(self._file, obstore.head(client, self._file.key))


def stored_of(file: Bucket, meta: ObjectMeta) -> Stored:
    """Return the content that a response describes."""
    modified, tag = meta["last_modified"].timestamp(), meta["e_tag"] or ""
    return Stored(file.name, meta["size"], modified, tag)


def stored_on_web(file: Bucket) -> Stored | None:
    """Return size and tag of a file on the web; None if it does not exist.

    Raises:
        PermissionError: if it may be neither inspected nor read.
    """
    client = client_of(file.root, store_options=file.store_options)
    try:
        with told(file.root, str(file)):
            return stored_of(file, obstore.head(client, file.key))
    except FileNotFoundError:
        return None
    except PermissionError:
        # A signed address includes the method: a readable file may refuse HEAD.
        first = Ranges(file)
        try:
            first.fetch(0, 1)
        except FileNotFoundError:
            return None
        return first.stored


class _Ahead:
    """Prefetches ranges in parts, a few at once.

    Args:
        file: to read from.
        ahead: the ranges.
    """

    def __init__(self, file: Ranges, ahead: Sequence[Span]) -> None:
        self._file = file
        self._spans = byte_ranges.joined(ahead)
        self.first = self._spans[0][0]
        self._parts: list[Span] = []
        self._coming: dict[int, Future[bytes]] = {}
        self._next = 0
        self._pool: ThreadPoolExecutor | None = None

    def take(self, place: int) -> tuple[int, bytes] | None:
        """Return start and bytes of the part with a position; each part is returned once."""
        if not self._parts:
            self._plan()
        number = bisect_right(self._parts, (place, sys.maxsize)) - 1
        if number < 0 or place >= self._parts[number][1]:
            return None
        if len(self._parts) == 1 and not self._next:
            # Nothing follows: a thread for each small file doubled its cost.
            self._next = 1
            return self._parts[0][0], self._file.fetch(*self._parts[0])
        while self._next < len(self._parts) and (
            self._next <= number or len(self._coming) < AHEAD_AT_ONCE
        ):
            self._send(self._next)
            self._next += 1
        coming = self._coming.pop(number, None)
        return (self._parts[number][0], coming.result()) if coming else None

    def _plan(self) -> None:
        size, endless = self._file.known_size(), self._spans[-1][1] == sys.maxsize
        if size is None and endless:
            # The first part tells how many parts there are.
            first = (self.first, min(self._spans[0][1], self.first + byte_ranges.PART_BYTES))
            found = self._file.fetch(*first)
            size = self._file.known_size()
            self._coming[0] = Future()
            self._coming[0].set_result(found)
            self._next = 1
        self._parts = byte_ranges.cut(self._spans, sys.maxsize if size is None else size)

    def close(self) -> None:
        """Fetch no more."""
        if self._pool:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _send(self, number: int) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AHEAD_AT_ONCE, "ahead")
        self._coming[number] = self._pool.submit(self._file.fetch, *self._parts[number])
