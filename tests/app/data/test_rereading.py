"""A read that fails is tried again; bytes that cannot be decoded twice are the user's at once."""

import errno
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.data.builders_buckets import FORMATS, TABLES
from tests.app.data.builders_formats import FIELD
from tests.app.data.builders_plan import write_rows
from tests.app.data.builders_tables import table_rows, write_iceberg
from tests.app.data.numbered import read_of
from tests.app.data.row_numbers import numbers_of
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sampler.function import Function
from trainshed.data.sources import dataset_files
from trainshed.data.sources.apply_functions import transform
from trainshed.data.sources.column_arrays import Columns, join
from trainshed.data.sources.errors import DataError, FunctionError
from trainshed.data.sources.opener import ACCESS, FileAccess
from trainshed.data.sources.parquet import read_fragment, read_sample
from trainshed.failures import InfrastructureError
from trainshed.retry import RetryPolicy
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec

ROWS = [40, 40, 40]


class Reads:
    """A file whose reads a storage may refuse or garble."""

    def __init__(self, path: str, storage: "Storage") -> None:
        self._file = io.BytesIO(Path(path).read_bytes())
        self._storage = storage
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return bytes as the storage gives them."""
        return self._storage.give(self._file.read(size))

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place."""
        return self._file.seek(place, whence)

    def tell(self) -> int:
        """Return the place."""
        return self._file.tell()

    def seekable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Let go of it."""
        self.closed = True


@dataclass(eq=False)  # what is kept of files is kept by who opens them
class Storage:
    """What fails: so many reads after so many that went well; and how long was waited for it.

    Args:
        error: that a failing read raises; None garbles what it gives, each time otherwise.
        after: reads that go well before.
        times: reads that fail.
    """

    error: OSError | None = None
    after: int = 0
    times: int = 0
    waited: list[float] = field(default_factory=list)
    reads: int = 0

    def open(self, path: str, ahead: Sequence[tuple[int, int]] = (), /) -> pa.NativeFile:  # noqa: ARG002 - an Opener
        """Open a file of it."""
        return pa.PythonFile(Reads(path, self), mode="r")

    def give(self, content: bytes) -> bytes:
        """Return the content, or fail as told."""
        self.reads += 1
        if not self.after < self.reads <= self.after + self.times:
            return content
        if self.error is not None:
            raise self.error
        return bytes((byte + self.reads) % 256 for byte in content)

    @property
    def access(self) -> FileAccess:
        """Return it with three retries, whose pauses are only noted."""
        return FileAccess(RetryPolicy((1.0, 4.0, 16.0), self.waited.append), self.open)


def failed(number: int) -> OSError:
    """Return what the operating system raises."""
    return OSError(number, os.strerror(number))


def open_parquet(folder: Disk, field: str, access: FileAccess = ACCESS) -> Source:
    """Read the footers of the parquet files of a folder."""
    read = ReadSpec.model_validate({"format": "parquet", "path": str(folder)})
    return dataset_files.open_source(folder, read, field, access)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """Return a file of three row groups, which are one fragment."""
    folder = Disk(write_rows(tmp_path / "rows", [ROWS]))
    return open_parquet(folder, "spec.data.datasets.train.read")


def rows_of(fragment: Fragment, storage: Storage, chunk_rows: int) -> Columns:
    """Return a fragment's rows as they come through a storage."""
    chunks = read_fragment(fragment, ["id"], chunk_rows, storage.access)
    return join(list(chunks))


@pytest.mark.parametrize("chunk_rows", [17, 1000], ids=["in chunks", "as a whole"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOENT, errno.EACCES])
def test_rows_come_whole_and_once_however_often_reads_fail(
    source: Source, number: int, chunk_rows: int
) -> None:
    clean = Storage()
    rows_of(source.fragments[0], clean, chunk_rows)
    for after in range(clean.reads):
        storage = Storage(failed(number), after, times=2)
        got = rows_of(source.fragments[0], storage, chunk_rows)
        assert np.array_equal(got["id"], np.arange(sum(ROWS)))
        assert storage.waited in ([1.0], [1.0, 4.0])


# Lance opens its files by itself.
@pytest.mark.parametrize("form", [*FORMATS, "delta", "iceberg"])
def test_rows_of_each_format_come_whole_and_once_however_often_reads_fail(
    tmp_path: Path, form: str
) -> None:
    source, rows = written(tmp_path, form)
    clean = Storage()
    assert sorted(numbers_of(read_through(clean, source))) == list(range(rows))
    for after in range(clean.reads):
        storage = Storage(failed(errno.EIO), after, times=2)

        found = read_through(storage, source)

        assert sorted(numbers_of(found)) == list(range(rows))
        assert storage.waited in ([1.0], [1.0, 4.0])


def written(folder: Path, form: str) -> tuple[Source, int]:
    """Return numbered rows of a format on a disk, and how many there are."""
    if form == "iceberg":
        write_iceberg(folder, table_rows(0, 60))
        read = ReadSpec.model_validate(read_of(form, folder))
        return dataset_files.open_source(Disk(folder), read, FIELD), 60
    made = {**FORMATS, **TABLES}[form]
    made.write(folder)
    return dataset_files.open_source(Disk(folder), made.spec(), FIELD), made.rows


def read_through(storage: Storage, source: Source) -> Columns:
    """Return all rows as they come through a storage."""
    read = partial(
        dataset_files.read_fragment, source.scan, columns=(), chunk_rows=17, access=storage.access
    )
    return join(list(chain.from_iterable(map(read, source.fragments))))


def test_storage_that_stays_away_is_no_fault_of_the_users(source: Source) -> None:
    storage = Storage(failed(errno.EIO), after=1, times=10**9)
    with pytest.raises(
        InfrastructureError, match=r"part-000.parquet: row groups \[0, 1, 2\] "
    ) as caught:
        rows_of(source.fragments[0], storage, 17)

    assert caught.value.kind == "storage"
    assert storage.waited == [1.0, 4.0, 16.0]


def test_no_more_files_for_this_process_is_neither(source: Source) -> None:
    storage = Storage(failed(errno.EMFILE), times=1)
    with pytest.raises(OSError, match="Too many open files"):
        rows_of(source.fragments[0], storage, 17)


def damage(path: str, group: int) -> None:
    """Overwrite a row group's column `id`; the footer stays as it was."""
    column = pq.read_metadata(path).row_group(group).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(Path(path).read_bytes())
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    Path(path).write_bytes(content)


def cut(path: str, group: int) -> None:
    """Leave the file as somebody who copies it anew does for a while, for ever."""
    Path(path).write_bytes(Path(path).read_bytes()[: 100 * group])


READERS: dict[str, Callable[[Fragment, Storage], object]] = {
    "a fragment": lambda fragment, storage: rows_of(fragment, storage, 17),
    "a sample": lambda fragment, storage: read_sample(fragment, ["id"], 100, storage.access),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(("harm", "want"), [(damage, r"\[1\]"), (cut, r"\[0, 1, 2\]")])
def test_what_cannot_be_decoded_twice_is_the_users_at_once(
    source: Source,
    harm: Callable[[str, int], None],
    want: str,
    read: Callable[[Fragment, Storage], object],
) -> None:
    fragment, storage = source.fragments[0], Storage()
    harm(fragment.path, 1)
    with pytest.raises(DataError, match=rf"part-000.parquet: row groups {want} cannot be read: "):
        read(fragment, storage)

    assert storage.waited == []


def test_bytes_that_differ_each_time_are_no_damage(source: Source) -> None:
    clean = Storage()
    rows_of(source.fragments[0], clean, 1000)
    storage = Storage(after=0, times=clean.reads)
    got = rows_of(source.fragments[0], storage, 1000)
    assert np.array_equal(got["id"], np.arange(sum(ROWS)))

    storage = Storage(after=0, times=10**9)
    with pytest.raises(InfrastructureError, match="row groups"):
        rows_of(source.fragments[0], storage, 1000)
    assert storage.waited == [1.0, 4.0, 16.0]


def test_a_footer_is_read_again_before_a_run_is_refused(tmp_path: Path) -> None:
    folder = Disk(write_rows(tmp_path / "rows", [ROWS]))
    name, storage = "spec.data.datasets.train.read", Storage(failed(errno.EIO), times=2)
    assert open_parquet(folder, name, storage.access).rows == sum(ROWS)
    assert storage.waited == [1.0, 4.0]

    away = Storage(failed(errno.ESTALE), times=10**9)
    with pytest.raises(
        InfrastructureError, match=r"spec\.data\.datasets\.train\.read\.path: .*part-000"
    ):
        open_parquet(folder, name, away.access)

    cut(f"{folder}/part-000.parquet", 1)
    with pytest.raises(SpecError, match="a parquet file"):
        open_parquet(folder, name, storage.access)


def lose_storage(_: Columns) -> Columns:
    """Read a picture, and fail as the storage does."""
    raise failed(errno.ESTALE)


def miss_a_file(_: Columns) -> Columns:
    """Read a picture that nobody has written."""
    raise failed(errno.ENOENT)


@pytest.mark.parametrize(
    ("name", "want"), [("lose_storage", InfrastructureError), ("miss_a_file", FunctionError)]
)
def test_what_a_transform_reads_is_told_apart_too(name: str, want: type[Exception]) -> None:
    function = Function(f"{__name__}:{name}", "spec.data.datasets.train.transforms[0]")
    with pytest.raises(want, match=rf"transforms\[0\]: .*{name} raised "):
        transform({"id": np.arange(3)}, [function])
