"""Writes checkpoints beside the training, for rank 0.

A checkpoint is made on a disk of this machine, which frees the memory it was copied into, and put
to the storage after that. So the next one waits for the memory alone, unless the storage is slower
than checkpoints come: no more than two are ever on their way.
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
        manifest: of it, without what it says of data: that is of the size of the data.
        folder: where it lies; None for one that does not.
        error: why not.
        put_seconds: that the storage took for it.
    """

    manifest: Manifest
    folder: Folder | None
    error: BaseException | None
    put_seconds: float = 0.0

    def is_too_slow_for(self, grace_seconds: float) -> bool:
        """Say whether two like it, which may be on their way at a stop, take longer than that.

        The older goes first: what is sent of it would be lost, and the newer might not fit either.
        """
        return 2 * self.put_seconds > grace_seconds


class Writer:
    """Writes one checkpoint after the other.

    Args:
        parent: where they lie.
        trust_objects: whether their state may hold more than plain values.
    """

    def __init__(self, parent: Folder, *, trust_objects: bool) -> None:
        self._parent = parent
        self._trust_objects = trust_objects
        self._thread: threading.Thread | None = None
        self._before: threading.Thread | None = None
        self._made = threading.Event()
        self._done: list[WriteResult] = []

    def begin(self, content: Content, manifest: Manifest) -> None:
        """Start to write; `wait_for_memory` must have been called since the last one."""
        self._before, self._made = self._thread, threading.Event()
        self._thread = threading.Thread(
            target=self._write,
            args=(content, manifest, self._made, self._before),
            name="write-checkpoint",
            daemon=True,
        )
        self._thread.start()

    def wait_for_memory(self) -> None:
        """Wait until what the last one was made of may be written over."""
        if self._thread is not None:
            self._made.wait()
        if self._before is not None:
            self._before.join()

    def wait(self) -> None:
        """Wait until nothing is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def finished(self) -> list[WriteResult]:
        """Return all that were finished since the start, in order."""
        return self._done

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
                if before is not None:  # comes to storage first, as it was written first
                    before.join()
                began = time.monotonic()
                folder = put(self._parent, aside, manifest.position)
        # A thread must not keep it: the ranks judge it together. Nor may a user's sys.exit(): who
        # waits for the memory would do so for ever.
        except BaseException as error:
            failed = error
        put_seconds = time.monotonic() - began
        made.set()
        if before is not None:
            before.join()
        # As long as the run goes on, each of them stays.
        light = manifest.model_copy(update={"data": None})
        self._done.append(WriteResult(light, folder, failed, put_seconds))
