"""Texts that grow where nothing can be added to what is there: a piece each few seconds.

While it grows a text is the objects NAME.parts/000000 and so on, of which the last is sent anew
until it is large; its end makes one of them. Where the whole is there it counts, and pieces that a
kill left beside it are nothing.
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
# Storage that is away so long that this is full loses what was first: a run does not end for it.
_MOST_WAITING = 32 * 2**20
# Whoever reads it asks for each piece: a day of lines, each few seconds, is few of them.
PIECE_BYTES = 256 * 2**10
# Twice as much memory is what the end of a text takes; a longer one stays in pieces.
_MOST_JOINED = 64 * 2**20
# What is not there was looked for as often; what moves so often in a moment is not known.
_MOST_LOOKS = 3


class SegmentedWriter(io.TextIOBase):
    """A text that one process adds to.

    Args:
        folder: where it lies.
        name: of it.
        seconds: between pieces.
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
        """Add to it; what does not reach the storage is sent again with the next piece."""
        with self._guard:
            self._waiting += text.encode("utf-8", "replace")
            surplus = max(0, len(self._waiting) - _MOST_WAITING)
            del self._waiting[:surplus]
            self._lost += surplus
        return len(text)

    def flush(self) -> None:
        """Do nothing: a request a line is what this is here against."""

    def close(self) -> None:
        """Send the rest, and make one object of all.

        Raises:
            OSError: when the storage does not take it; what it took before stays, and it may be
                tried again.
        """
        if self.closed:
            return
        self._ended.set()
        self._thread.join()
        self._send()
        self._join()
        super().close()

    def _join(self) -> None:
        # Tried again it may find some of the pieces alone: the whole has them all by then.
        if not self._is_joined:
            pieces = [each for each in self._parts.tree() if each.name.isdecimal()]
            if sum(piece.bytes for piece in pieces) > _MOST_JOINED:
                return
            whole = b"".join(self._parts.read(piece.name) for piece in pieces)
            self._folder.write(self._name, whole)
            self._is_joined = True
        _clear(self._parts)

    def _begin(self) -> int:
        """Return the number of the next piece; what there is becomes the first ones."""
        whole = _whole(self._folder, self._name)
        if whole is not None:
            _clear(self._parts)  # of an end that a kill cut short
            self._parts.write(_piece(0), whole)
            self._folder.delete(self._name)
            return 1
        return max((int(name) for name in _numbers(self._parts)), default=-1) + 1

    def _send_on(self) -> None:
        while not self._ended.wait(self._seconds):
            with contextlib.suppress(OSError):  # it is sent with the next piece
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
    """Yield the lines of a text, also of one that still grows; none where it is not there."""
    rest = b""
    for content in _contents(folder, name):
        *whole, rest = (rest + content).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace") + "\n"
    if rest:
        yield rest.decode("utf-8", "replace")


def _contents(folder: Folder, name: str) -> Iterator[bytes]:
    parts, given = folder / f"{name}{PARTS}", 0
    # It may be joined or opened anew while it is looked at: what was in one place is in the other.
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
    """Yield the pieces; None where one is not there, or all are not."""
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
