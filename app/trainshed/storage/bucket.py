"""A folder in an object store: S3 and compatible stores, Google's, Azure's.

A file is one object, put atomically. The last object of a folder marks it as complete; until
then, and while it is deleted, another object marks it as unfinished.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import obstore
from typing_extensions import override

from trainshed.storage import scratch, segmented_log
from trainshed.storage.folder import UNDERWAY, Appender, Folder, Stored
from trainshed.storage.object_listing import list_objects
from trainshed.storage.store_client import client_of, told
from trainshed.storage.store_options import AS_USUAL, StoreOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from _typeshed import ReadableBuffer
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

# Four parts of a file are uploaded at once: 64 MB; with 10,000 parts 160 GB per file.
PART_BYTES, PARTS_AT_ONCE = 16 * 2**20, 4
# A copy is one request, which must finish before the client's retry timeout; larger files are
# copied through this machine.
MOST_COPIED = 2**28
# Two writers or deleters of a name at the same moment may both be refused (S3,
# OperationAborted and ConditionalRequestConflict).
_TRIES = 4


@dataclass(frozen=True)
class Bucket(Folder):
    """A folder in a bucket.

    Args:
        root: address of the bucket, `s3://bucket`.
        key: of the folder, without surrounding slashes; empty for the bucket itself.
        is_patient: whether to wait for a server that is unavailable.
        store_options: options of a store that differ from the environment.
    """

    root: str
    key: str = ""
    is_patient: bool = field(default=False, compare=False)
    store_options: StoreOptions = AS_USUAL

    @property
    @override
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    @override
    def parent(self) -> Bucket:
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    @override
    def path(self) -> None:
        return None

    @override
    def __truediv__(self, name: str) -> Bucket:
        return replace(self, key=self._key(name.strip("/")))

    @override
    def __str__(self) -> str:
        return f"{self.root}/{self.key}".rstrip("/")

    @override
    def names(self) -> list[str]:
        with self._told():
            found = obstore.list_with_delimiter(self._client(), self.key or None)
        keys = {*found["common_prefixes"], *(each["path"] for each in found["objects"])}
        # Other tools mark a folder by an object of its name.
        return sorted(key.rpartition("/")[2] for key in keys if key != self.key)

    @override
    def tree(self) -> list[Stored]:
        with self._told():
            found = list_objects(self._client(), self.key)
        return sorted(self._stored(each) for each in found if each["path"] != self.key)

    @override
    def stat(self, name: str) -> Stored | None:
        try:
            with self._told(name):
                return self._stored(obstore.head(self._client(), self._key(name)))
        except FileNotFoundError:
            return None
        except PermissionError:
            if self._is_hidden(name):
                return None
            raise

    @override
    def read(self, name: str) -> bytes:
        try:
            with self._told(name):
                found = obstore.get(self._client(), self._key(name))
                if found.meta["size"] <= PART_BYTES:
                    return found.bytes().to_bytes()
        except PermissionError as error:
            if self._is_hidden(name):
                raise FileNotFoundError(errno.ENOENT, "nothing there", str(self / name)) from error
            raise
        return b"".join(self._pieces(name))

    def _is_hidden(self, name: str) -> bool:
        """Return whether a refusal means that the object does not exist: S3 answers so to clients
        that may list only a part of the bucket."""
        return name not in self.names()

    @override
    def write(self, name: str, content: bytes) -> None:
        if len(content) > PART_BYTES:
            self._send(name, content)
            return
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._told(name):
                    obstore.put(self._client(), self._key(name), content, use_multipart=False)
            except FileExistsError:  # a conflict: this replaces any existing object
                if not tries_left:
                    raise
            else:
                return

    @override
    def create(self, name: str, content: bytes) -> None:
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._told(name):
                    obstore.put(self._client(), self._key(name), content, mode="create")
            except OSError as error:
                # The response to a successful request may be lost, and the retry is then refused:
                # the
                # content of the object tells whose it is.
                with contextlib.suppress(FileNotFoundError):
                    if self.read(name) == content:
                        return
                    raise
                if not (tries_left and isinstance(error, FileExistsError)):
                    raise
            else:
                return

    @override
    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._told(name):
            obstore.delete(self._client(), self._key(name))

    @override
    def remove(self, first: str) -> None:
        self.write(UNDERWAY, b"")
        self.delete(first)
        self.clear(but=UNDERWAY)
        self.delete(UNDERWAY)

    def clear(self, but: str = "") -> None:
        """Delete all objects below it except one."""
        names = [each.name for each in self.tree() if each.name != but]
        if not names:
            return
        try:
            with self._told():
                obstore.delete(self._client(), [self._key(name) for name in names])
        except FileNotFoundError:
            # Where each object is deleted by one request, a missing one fails the whole call.
            for name in names:
                self.delete(name)

    @override
    def append(self, name: str) -> Appender:
        return segmented_log.SegmentedWriter(self, name)

    @override
    def lines(self, name: str) -> Iterator[str]:
        return segmented_log.lines(self, name)

    @override
    @contextlib.contextmanager
    def aside(self, what: str = "a checkpoint") -> Iterator[Path]:
        with scratch.made_aside(what) as made:
            yield made

    @override
    def adopt(self, made: Path, name: str, last: str) -> Bucket:
        # Beyond its storage limit the Pod may be evicted.
        scratch.check_room(str(self / name))
        mark = uuid.uuid4().bytes
        taken = replace(self, is_patient=True)._take(name, mark)
        files = sorted(str(file.relative_to(made)) for file in made.rglob("*") if file.is_file())
        with contextlib.ExitStack() as undo:
            folder = replace(taken, is_patient=self.is_patient)
            undo.callback(folder._forget, last)
            for file in files:
                if file != last:
                    taken._send(file, made / file)
            taken._check_ours(mark)
            if last in files:
                taken._send(last, made / last)
            taken._check_whole({file: (made / file).stat().st_size for file in files})
            taken.delete(UNDERWAY)
            undo.pop_all()
        return folder

    @override
    def take(self, other: Folder, name: str) -> None:
        taken = replace(self, is_patient=True) / name
        files = other.tree()
        taken.write(UNDERWAY, b"")
        for each in files:
            if not isinstance(other, Bucket):
                assert other.path
                taken._send(each.name, other.path / each.name)
                continue
            if each.bytes > MOST_COPIED or other.root != self.root:
                taken._pour(each.name, other._pieces(each.name))
                continue
            with other._told(each.name):
                source, target = other._key(each.name), taken._key(each.name)
                obstore.copy(taken._client(), source, target)
        taken.delete(UNDERWAY)

    @override
    def is_same(self, other: Folder) -> bool:
        return self == other

    @override
    def fetch(self, name: str, to: Path) -> None:
        with to.open("wb") as file:
            for piece in self._pieces(name):
                file.write(piece)

    def _pieces(self, name: str) -> Iterator[ReadableBuffer]:
        """Yield a file's content in order, with several parts in flight.

        The client resumes a broken connection, but gives up after its timeout however much it
        has read; a part is small enough for that.
        """
        client, key = client_of(self.root, is_patient=True), self._key(name)

        def get(start: int) -> ReadableBuffer:
            span = (start, min(start + PART_BYTES, found["size"]))
            return obstore.get(client, key, options={"range": span, "if_match": tag}).bytes()

        with self._told(name), ThreadPoolExecutor(PARTS_AT_ONCE) as pool:
            found = obstore.head(client, key)
            tag = found["e_tag"]  # all parts of the same content
            waiting: deque[Future[ReadableBuffer]] = deque()
            for start in range(0, found["size"], PART_BYTES):
                if len(waiting) == PARTS_AT_ONCE:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(get, start))
            while waiting:
                yield waiting.popleft().result()

    def _pour(self, name: str, pieces: Iterator[ReadableBuffer]) -> None:
        # An iterator that is passed to the client must not call the client.
        client, key = client_of(self.root, is_patient=True), self._key(name)
        with self._told(name):
            writer = obstore.open_writer(
                client, key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )
            for piece in pieces:
                writer.write(piece)
            writer.close()  # an object exists only after close

    def _send(self, name: str, content: bytes | Path) -> None:
        with self._told(name):
            obstore.put(
                client_of(self.root, is_patient=True),
                self._key(name),
                content,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )

    def _forget(self, last: str) -> None:
        with contextlib.suppress(OSError):  # then it stays marked as unfinished
            self.remove(last)

    def _check_ours(self, mark: bytes) -> None:
        """Refuse to finish a folder that was deleted, fully or in part, while it was written."""
        try:
            if self.read(UNDERWAY) == mark:
                return
        except FileNotFoundError:
            pass
        raise OSError(errno.ESTALE, "deleted while it was written", str(self))

    def _check_whole(self, sizes: Mapping[str, int]) -> None:
        there = {each.name: each.bytes for each in self.tree()}
        if wrong := [name for name, size in sizes.items() if there.get(name) != size]:
            raise OSError(errno.ESTALE, f"{min(wrong)} was deleted while it was written", str(self))

    def _take(self, name: str, mark: bytes) -> Bucket:
        """Return a folder with a free name, numbered if the name is taken."""
        number, free = 1, self / name
        while not free._is_taken(mark):
            number += 1
            free = self / f"{name}-{number}"
        return free

    def _is_taken(self, mark: bytes) -> bool:
        """Mark this folder as ours; return False if another writer has it, complete or not."""
        if self.exists():
            return False
        try:
            self.create(UNDERWAY, mark)
        except FileExistsError:
            return False
        if self.names() == [UNDERWAY]:
            return True
        # Another writer finished it since it was checked.
        self.delete(UNDERWAY)
        return False

    def _client(self) -> ObjectStore:
        return client_of(self.root, is_patient=self.is_patient, store_options=self.store_options)

    def _key(self, name: str) -> str:
        return f"{self.key}/{name}" if self.key else name

    def _stored(self, found: ObjectMeta) -> Stored:
        name = found["path"].removeprefix(f"{self.key}/") if self.key else found["path"]
        modified = found["last_modified"].timestamp()
        return Stored(name, found["size"], modified, found["e_tag"] or "")

    def _told(self, name: str = "") -> contextlib.AbstractContextManager[None]:
        return told(self.root, str(self / name) if name else str(self))
