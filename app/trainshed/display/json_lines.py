"""One JSON object a line, for programs and log collectors."""

import os
from typing import TextIO

from trainshed_api.progress import AnyEvent, Finished


class LineDisplay:
    """Writes each event as one line of JSON, at once; the finished event is the last line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._closed = False

    def show(self, event: AnyEvent) -> None:
        """Write one event, unless the finished event was written or nobody reads any more."""
        if self._closed:
            return
        self._closed = isinstance(event, Finished)
        try:
            self._stream.write(event.to_line() + "\n")
            self._stream.flush()
        except BrokenPipeError:
            # `trainshed run FILE | head -1`: the reader has left, and the run goes on without it.
            self._drop_stream()

    def close(self) -> None:
        """Write nothing more; the stream itself belongs to the caller."""
        self._closed = True

    def _drop_stream(self) -> None:
        # Otherwise Python flushes the rest at exit, fails again, and ends with status 120.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        self._closed = True
