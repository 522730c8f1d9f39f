"""A bucket as a file system of pyarrow: for Ray Train, and for reading parquet.

Uses the client of the rest of the run, with its credentials, endpoint and retries. Paths are
`bucket/key`, as pyarrow writes them. Folders are not created: one exists as soon as it has an
object.
"""

from __future__ import annotations

import errno
import io
from typing import TYPE_CHECKING

import obstore
import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem
from typing_extensions import override

from trainshed.storage.bucket import PART_BYTES, PARTS_AT_ONCE, Bucket
from trainshed.storage.ranged_reads import Ranges
from trainshed.storage.store_client import client_of, told

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Sequence

    from _typeshed import ReadableBuffer
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

    from trainshed.storage.folder import Folder

# Buffers small reads, such as reading line by line.
_AHEAD_BYTES = 2**20


def file_system(root: str) -> FileSystem:
    """Return the file system of a bucket; root: `s3://bucket`."""
    return PyFileSystem(_Handler(root))


def as_ray_has_it(folder: Folder) -> tuple[FileSystem | None, str]:
    """Return the file system of a folder (None for disks) and its path there."""
    if not isinstance(folder, Bucket):
        return None, str(folder)
    return file_system(folder.root), f"{folder.root.partition('://')[2]}/{folder.key}"


class _Handler(FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """The methods that pyarrow calls on a file system.

    Args:
        root: address of the bucket.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._name = root.partition("://")[2]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and self.root == other.root

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.root)

    @override
    def get_type_name(self) -> str:
        return "trainshed"

    @override
    def normalize_path(self, path: str) -> str:
        return path.strip("/")

    @override
    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        return [self._info(path) for path in paths]

    @override
    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        folder = self._folder(selector.base_dir)
        tree = folder.tree()
        if not tree and not selector.allow_not_found:
            raise FileNotFoundError(errno.ENOENT, "nothing there", selector.base_dir)
        base = selector.base_dir.strip("/")
        found: dict[str, FileInfo] = {}
        for each in tree:
            parts = each.name.split("/")
            for depth in range(1, len(parts)):
                if selector.recursive or depth == 1:
                    path = f"{base}/{'/'.join(parts[:depth])}"
                    found[path] = FileInfo(path, FileType.Directory)
            if selector.recursive or len(parts) == 1:
                path = f"{base}/{each.name}"
                found[path] = FileInfo(path, FileType.File, size=each.bytes, mtime=each.modified)
        return list(found.values())

    @override
    def create_dir(self, path: str, recursive: bool) -> None:
        pass

    @override
    def delete_dir(self, path: str) -> None:
        self.delete_dir_contents(path, missing_dir_ok=False)

    @override
    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        folder = self._folder(path)
        if not folder.key:
            raise PermissionError(f"{folder}: a whole bucket is not deleted")
        names = folder.names()
        if names:
            folder.remove(first=names[0])
        elif not missing_dir_ok:
            raise FileNotFoundError(errno.ENOENT, "nothing there", path)

    @override
    def delete_root_dir_contents(self) -> None:
        raise PermissionError(f"{self.root}: a whole bucket is not deleted")

    @override
    def delete_file(self, path: str) -> None:
        file = self._folder(path)
        if file.parent.stat(file.name) is None:
            raise FileNotFoundError(errno.ENOENT, "nothing there", path)
        file.parent.delete(file.name)

    @override
    def move(self, src: str, dest: str) -> None:
        self.copy_file(src, dest)
        self.delete_file(src)

    @override
    def copy_file(self, src: str, dest: str) -> None:
        source, target = self._folder(src), self._folder(dest)
        with told(self.root, str(source)):
            obstore.copy(client_of(self.root, is_patient=True), source.key, target.key)

    @override
    def open_input_stream(self, path: str) -> NativeFile:
        return pa.BufferedInputStream(self.open_input_file(path), _AHEAD_BYTES)

    @override
    def open_input_file(self, path: str) -> NativeFile:
        file = self._folder(path)
        found = file.parent.stat(file.name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "nothing there", path)
        return pa.PythonFile(Ranges(file, found.bytes), mode="r")

    @override
    def open_output_stream(self, path: str, metadata: object) -> NativeFile:
        return pa.PythonFile(_Sent(self._folder(path)), mode="w")

    @override
    def open_append_stream(self, path: str, metadata: object) -> NativeFile:
        raise NotImplementedError(f"{path}: nothing can be added to an object")

    def _folder(self, path: str) -> Bucket:
        name, _, key = path.strip("/").partition("/")
        if name != self._name:
            raise ValueError(f"{path}: this is the file system of {self.root}")
        # Ray Train restarts all workers if its controller cannot access an old checkpoint.
        return Bucket(self.root, key, is_patient=True)

    def _info(self, path: str) -> FileInfo:
        place = self._folder(path)
        found = place.parent.stat(place.name) if place.key else None
        if found:
            return FileInfo(path, FileType.File, size=found.bytes, mtime=found.modified)
        return FileInfo(path, FileType.Directory if place.exists() else FileType.NotFound)


class _Sent(io.RawIOBase):
    """An object that is uploaded in parts, and exists once it is closed."""

    def __init__(self, file: Bucket) -> None:
        self._file = file
        with self._told():
            client = client_of(file.root, is_patient=True)
            self._writer = obstore.open_writer(
                client, file.key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    def __del__(self) -> None:
        """Send nothing more: without a close the writer did not finish."""

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        with self._told():
            return self._writer.write(bytes(memoryview(data)))

    def close(self) -> None:
        if not self.closed:
            with self._told():
                self._writer.close()
        super().close()

    def _told(self) -> contextlib.AbstractContextManager[None]:
        return told(self._file.root, str(self._file))
