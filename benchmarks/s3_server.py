"""Runs an S3 server on this machine."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def run_s3_server() -> Iterator[S3Server]:
    """Run an S3 server whose objects are in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        server = S3Server(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
