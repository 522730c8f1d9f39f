"""Writes checkpoints in the background of training, for rank 0.

A checkpoint is written to this machine's disk, which frees its memory buffers, and then uploaded.
So the next one waits for the buffers only, unless the storage is slower than checkpoints are made:
at most two are in flight.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.checkpoint.store import Content, make, put

if TYPE_CHECKING:
    from trainshed.checkpoint.manifest import Manifest
    from trainshed.storage.folder import Folder


@dataclass(frozen=True)
class WriteResult:
    """A checkpoint that is on storage, or why it is not.

    Args:
        manifest: of it, without its data part, which is as large as the data's listing.
        folder: of it; None if writing failed.
        error: why it failed.
        put_seconds: duration of the upload.
    """

    manifest: Manifest
    folder: Folder | None
    error: BaseException | None
    put_seconds: float = 0.0

    def is_too_slow_for(self, grace_seconds: float) -> bool:
        """Return whether two uploads like it, which may be in flight at a stop, exceed a time.

        The older one is sent first: a partial upload would be lost, and the newer might not fit
        either.
        """
        return 2 * self.put_seconds > grace_seconds


class Writer:
    """Writes checkpoints one after the other.

    Args:
        parent: folder of the checkpoints.
        trust_objects: whether the state may hold more than plain values.
    """

    def __init__(self, parent: Folder, *, trust_objects: bool) -> None:
        self._parent = parent
        self._trust_objects = trust_objects
        self._thread: threading.Thread | None = None
        self._before: threading.Thread | None = None
        self._made = threading.Event()
        # All that have finished since the start, in order.
        self.finished: list[WriteResult] = []

    def begin(self, content: Content, manifest: Manifest) -> None:
        """Start to write; requires `wait_for_memory` since the previous call."""
        self._before, self._made = self._thread, threading.Event()
        self._thread = threading.Thread(
            target=self._write,
            args=(content, manifest, self._made, self._before),
            name="write-checkpoint",
            daemon=True,
        )
        self._thread.start()

    def wait_for_memory(self) -> None:
        """Wait until the buffers of the previous checkpoint may be overwritten."""
        if self._thread is not None:
            self._made.wait()
        if self._before is not None:
            self._before.join()

    def wait(self) -> None:
        """Wait until nothing is in flight."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(
        self,
        content: Content,
        manifest: Manifest,
        made: threading.Event,
        before: threading.Thread | None,
    ) -> None:
        folder: Folder | None = None
        failed: BaseException | None = None
        began = time.monotonic()
        try:
            with self._parent.aside() as aside:
                make(aside, content, manifest, trust_objects=self._trust_objects)
                made.set()
                if before is not None:  # uploaded first, as it was written first
                    before.join()
                began = time.monotonic()
                folder = put(self._parent, aside, manifest.position)
        # The thread must not raise: the ranks handle the error together. Neither may a user's
        # sys.exit(), or `wait_for_memory` would block forever.
        except BaseException as error:
            failed = error
        put_seconds = time.monotonic() - began
        made.set()
        if before is not None:
            before.join()
        # Entries accumulate until the run ends.
        light = manifest.model_copy(update={"data": None})
        self.finished.append(WriteResult(light, folder, failed, put_seconds))
