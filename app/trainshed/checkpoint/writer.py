"""Writes checkpoints in a thread of rank 0, one at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.checkpoint.files import Content, Manifest, write

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Written:
    """A checkpoint that is on storage, or why it is not."""

    manifest: Manifest
    folder: Path | None
    error: Exception | None


class Writer:
    """At most one checkpoint is under way; the next waits for it, because it reuses its memory."""

    def __init__(self, parent: Path, *, trust_objects: bool) -> None:
        self._parent = parent
        self._trust_objects = trust_objects
        self._thread: threading.Thread | None = None
        self._done: list[Written] = []

    def begin(self, content: Content, manifest: Manifest) -> None:
        """Start to write; `wait` must have been called since the last one."""
        self._thread = threading.Thread(
            target=self._write, args=(content, manifest), name="write-checkpoint", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def finished(self) -> list[Written]:
        """Return all that were finished since the start, in order."""
        return self._done

    def _write(self, content: Content, manifest: Manifest) -> None:
        try:
            folder = write(self._parent, content, manifest, trust_objects=self._trust_objects)
            written = Written(manifest, folder, None)
        except Exception as error:  # a thread must not keep it: the ranks judge it together
            written = Written(manifest, None, error)
        self._done.append(written)
