"""Reads files for pyiceberg with the client of the rest of the run.

So a table's files use the run's credentials and retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.typedef import EMPTY_DICT
from typing_extensions import override

from trainshed.data.sources.opener import open_file

if TYPE_CHECKING:
    from pyiceberg.typedef import Properties

    from trainshed.data.sources.opener import Opener

# The schemes of Hadoop and Java for s3:// and file:///.
_SCHEMES = {"s3a://": "s3://", "s3n://": "s3://", "file://": "", "file:": ""}


def where_of(location: str) -> str:
    """Return the path or address of a table's file."""
    for scheme, ours in _SCHEMES.items():
        if location.startswith(scheme):
            return ours + location.removeprefix(scheme)
    return location


class IcebergFileIO(FileIO):
    """Read-only files.

    Args:
        properties: of a catalog; ignored.
        opened: opens a file.
    """

    def __init__(self, properties: Properties = EMPTY_DICT, opened: Opener = open_file) -> None:
        super().__init__(properties)
        self._opened = opened

    @override
    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._opened)

    @override
    def new_output(self, location: str) -> OutputFile:
        raise PermissionError(f"{location}: tables are only read here")

    @override
    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise PermissionError(f"{location}: tables are only read here")


class _Input(InputFile):
    """A file that is opened when it is read."""

    def __init__(self, location: str, opened: Opener) -> None:
        super().__init__(location)
        self._opened = opened

    @override
    def __len__(self) -> int:
        with self._opened(where_of(self.location)) as raw:
            return int(raw.size())

    @override
    def exists(self) -> bool:
        try:
            with self._opened(where_of(self.location)) as raw:
                raw.size()  # the first request to a bucket
                return True
        except FileNotFoundError:
            return False

    @override
    def open(self, seekable: bool = True) -> InputStream:
        found: InputStream = self._opened(where_of(self.location))
        return found
