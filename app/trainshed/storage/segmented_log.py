"""Growing texts on storage without append: a new segment every few seconds.

A growing text is the objects NAME.parts/000000 and so on. The last one is replaced until it is
large, and closing joins all to one object. If the whole exists it counts, and segments that a kill
left are ignored.
"""

from __future__ import annotations

import contextlib
import io
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.storage.folder import Folder

SECONDS_BETWEEN = 5.0
PARTS = ".parts"
# If the storage is away until this is full, the oldest bytes are lost; the run continues.
_MOST_WAITING = 32 * 2**20
# A reader fetches every segment: a day of lines, every few seconds, gives few of them.
PIECE_BYTES = 256 * 2**10
# Closing a text takes twice as much memory; a longer text stays in segments.
_MOST_JOINED = 64 * 2**20
# A missing text is looked up again this often; one that changes faster is reported as unknown.
_MOST_LOOKS = 3


class SegmentedWriter(io.TextIOBase):
    """A text that one process appends to.

    Args:
        folder: that contains it.
        name: of it.
        seconds: between segments.
    """

    def __init__(self, folder: Folder, name: str, seconds: float = SECONDS_BETWEEN) -> None:
        self._folder = folder
        self._name = name
        self._parts = folder / f"{name}{PARTS}"
        self._seconds = seconds
        self._piece = b""
        self._waiting = bytearray()
        self._lost = 0
        self._is_joined = False
        self._guard = threading.Lock()
        self._ended = threading.Event()
        self._next = self._begin()
        self._thread = threading.Thread(target=self._send_on, name=f"grow-{name}", daemon=True)
        self._thread.start()

    def write(self, text: str, /) -> int:
        """Append; data that does not reach the storage is sent again with the next segment."""
        with self._guard:
            self._waiting += text.encode("utf-8", "replace")
            surplus = max(0, len(self._waiting) - _MOST_WAITING)
            del self._waiting[:surplus]
            self._lost += surplus
        return len(text)

    def flush(self) -> None:
        """Do nothing: this class exists to avoid a request per line."""

    def close(self) -> None:
        """Send the rest, and join all segments to one object.

        Raises:
            OSError: if the storage refuses it; earlier segments stay, and the call may be
                repeated.
        """
        if self.closed:
            return
        self._ended.set()
        self._thread.join()
        self._send()
        self._join()
        super().close()

    def _join(self) -> None:
        # A repeated call may find only some of the segments: the whole has them all by then.
        if not self._is_joined:
            pieces = [each for each in self._parts.tree() if each.name.isdecimal()]
            if sum(piece.bytes for piece in pieces) > _MOST_JOINED:
                return
            whole = b"".join(self._parts.read(piece.name) for piece in pieces)
            self._folder.write(self._name, whole)
            self._is_joined = True
        _clear(self._parts)

    def _begin(self) -> int:
        """Return the number of the next segment; an existing text becomes the first ones."""
        whole = _whole(self._folder, self._name)
        if whole is not None:
            _clear(self._parts)  # of a close that a kill interrupted
            self._parts.write(_piece(0), whole)
            self._folder.delete(self._name)
            return 1
        return max((int(name) for name in _numbers(self._parts)), default=-1) + 1

    def _send_on(self) -> None:
        while not self._ended.wait(self._seconds):
            with contextlib.suppress(OSError):  # it is sent with the next segment
                self._send()

    def _send(self) -> None:
        with self._guard:
            sent, self._waiting = self._waiting, bytearray()
            lost, self._lost = self._lost, 0
        if not sent:
            return
        said = f"({lost} bytes were lost here)\n".encode() if lost else b""
        piece = self._piece + said + sent
        try:
            self._parts.write(_piece(self._next), piece)
        except OSError:
            with self._guard:
                self._waiting = sent + self._waiting
                self._lost += lost
            raise
        is_large = len(piece) >= PIECE_BYTES
        self._piece = b"" if is_large else piece
        self._next += is_large


def lines(folder: Folder, name: str) -> Iterator[str]:
    """Yield the lines of a text, also of a growing one; none if it does not exist."""
    rest = b""
    for content in _contents(folder, name):
        *whole, rest = (rest + content).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace") + "\n"
    if rest:
        yield rest.decode("utf-8", "replace")


def _contents(folder: Folder, name: str) -> Iterator[bytes]:
    parts, given = folder / f"{name}{PARTS}", 0
    # It may be joined or opened again during the lookup, and so move between the two forms.
    for _ in range(_MOST_LOOKS):
        whole = _whole(folder, name)
        if whole is not None:
            yield whole[given:]
            return
        end = 0
        for piece in _pieces(parts):
            if piece is None:
                break
            yield piece[max(0, given - end) :]
            end += len(piece)
            given = max(given, end)
        else:
            return


def _pieces(parts: Folder) -> Iterator[bytes | None]:
    """Yield the segments; None if one of them, or all, do not exist."""
    numbers = _numbers(parts)
    for number, name in enumerate(numbers):
        try:
            yield parts.read(name) if number == int(name) else None
        except FileNotFoundError:
            yield None
    if not numbers:
        yield None


def _numbers(parts: Folder) -> list[str]:
    return [name for name in parts.names() if name.isdecimal()]


def _whole(folder: Folder, name: str) -> bytes | None:
    try:
        return folder.read(name)
    except FileNotFoundError:
        return None


def _clear(parts: Folder) -> None:
    if pieces := parts.names():
        parts.remove(first=pieces[0])


def _piece(number: int) -> str:
    return f"{number:06d}"
