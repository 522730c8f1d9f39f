"""Keeps standard output for the display: all that is printed goes to stderr and the log."""

from __future__ import annotations

import contextlib
import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from trainshed.retry import READS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.storage.folder import Appender

# Ray says at every start that its token authentication is on; it is its default.
NOISY = ("ray._private.authentication.authentication_token_setup",)


@dataclass(frozen=True)
class Tee:
    """Writes what it is given to a stream and to a log."""

    stream: TextIO
    log: Appender

    def write(self, text: str) -> int:
        """Write to both."""
        with contextlib.suppress(OSError):  # a full disk keeps no log, and nobody from reading on
            self.log.write(text)
        return self.stream.write(text)

    def flush(self) -> None:
        """Flush both."""
        with contextlib.suppress(OSError):
            self.log.flush()
        self.stream.flush()

    def isatty(self) -> bool:
        """Say whether the stream is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Return the stream's file number."""
        return self.stream.fileno()


@contextlib.contextmanager
def kept(log: Appender) -> Iterator[None]:
    """Send all that is printed inside the block to stderr and a log, which is closed then."""
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.ERROR)
    tee = Tee(sys.stderr, log)
    try:
        with contextlib.redirect_stdout(tee), contextlib.redirect_stderr(tee):
            yield
    finally:
        with contextlib.suppress(OSError):
            READS.read(log.close)
