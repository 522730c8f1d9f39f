"""Files in a bucket give the rows that they give on a disk, whatever the network does meanwhile."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.data.builders_buckets import (
    FORMATS,
    TABLES,
    assert_same,
    files_behind,
    on_disk,
)
from tests.app.data.builders_formats import FIELD, read_all, write_csv, write_text
from tests.app.data.builders_tables import TABLE, table_rows, write_iceberg_into
from tests.app.data.row_numbers import numbers_of
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from tests.s3_faults import SLOW_DOWN, Late, Rule
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources.dataset_files import open_source, read_fragment, read_sample
from trainshed.data.sources.formats import line_files
from trainshed.data.sources.formats.whole_files import FILES_AT_ONCE
from trainshed.data.sources.opener import FileAccess
from trainshed.retry import RetryPolicy
from trainshed.storage import byte_ranges
from trainshed.storage.bucket import Bucket
from trainshed.storage.byte_ranges import PART_BYTES
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into many fragments, in the middle of lines, and these into many requests."""
    monkeypatch.setattr(line_files, "SPAN_BYTES", 20_011)
    monkeypatch.setattr(byte_ranges, "PART_BYTES", 24_989)


def counted(
    faulty_s3: FaultyS3, read: Callable[[], object], method: str = "GET", key: str = "*"
) -> int:
    """Return how many requests a reading takes."""
    before = faulty_s3.count(method, key)
    read()
    return faulty_s3.count(method, key) - before


# The client of Delta's log does not ask again where an answer is cut: all of it is looked at again.
OFTEN = FileAccess(RetryPolicy(pauses=(0.01,) * 8))
FAULTS: dict[str, Rule] = {
    "each third answer is 503": Rule(SLOW_DOWN, every=3),
    "each second body is cut": Rule("answer cut", "GET", every=2, times=8),
    "each second answer is late": Rule(Late(0.05), "GET", every=2, times=10),
    "each fourth answer is lost": Rule("answer lost", every=4),
}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", [*FORMATS, *TABLES])
def test_nothing_is_lost_and_nothing_comes_twice(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket, form: str, fault: str
) -> None:
    files, folder = {**FORMATS, **TABLES}[form], files_behind(s3, through_proxy)
    files.write(folder)
    want = on_disk(folder, files)
    assert sorted(numbers_of(want)) == list(range(files.rows))

    faulty_s3.add(FAULTS[fault])
    found = read_all(open_source(through_proxy, files.spec(), FIELD, OFTEN))

    assert_same(found, want)
    assert faulty_s3.num_struck > 0


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_of_an_iceberg_table_is_lost_and_nothing_comes_twice(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket, tmp_path: Path, fault: str
) -> None:
    parts = [table_rows(0, 300), table_rows(300, 200)]
    options = {"catalog": write_iceberg_into(through_proxy, s3, tmp_path, *parts)}
    read = ReadSpec.model_validate({"format": "iceberg", "path": TABLE, "options": options})

    faulty_s3.add(FAULTS[fault])
    found = read_all(open_source(Disk(tmp_path), read, FIELD, OFTEN))

    rows = sorted(zip(*(found[name].tolist() for name in ("id", "x", "part")), strict=True))
    assert rows == [tuple(row.values()) for part in parts for row in part.to_pylist()]
    assert faulty_s3.num_struck > 0


def source_of(s3: S3Server, at: Bucket, form: str) -> Source:
    """Return the files of a format, written into the bucket."""
    files = FORMATS[form]
    files.write(files_behind(s3, at))
    return open_source(at, files.spec(), FIELD)


def test_a_file_that_is_a_row_is_one_request(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket
) -> None:
    source = source_of(s3, through_proxy, "images")

    assert counted(faulty_s3, lambda: read_all(source), key="*.png") == 40
    assert faulty_s3.count("HEAD", "*.png") == 0


@pytest.mark.parametrize(("form", "heads"), [("text", 0), ("json", 0), ("csv", 1)])
def test_a_fragment_of_lines_is_a_request_for_each_part(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket, form: str, heads: int
) -> None:
    source = source_of(s3, through_proxy, form)
    [fragment] = source.fragments

    def read() -> None:
        list(read_fragment(source.scan, fragment, (), 100))

    assert counted(faulty_s3, read) == heads + 1  # of csv the header says the order of columns
    assert counted(faulty_s3, read, "HEAD") == 0


def test_a_fragment_of_parquet_is_its_footer_and_what_lies_together(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket
) -> None:
    source = source_of(s3, through_proxy, "parquet")
    [fragment] = source.fragments

    def read(*columns: str) -> Callable[[], object]:
        return lambda: list(read_fragment(source.scan, fragment, columns, 100))

    # Six row groups of five columns.
    assert counted(faulty_s3, read()) == 2
    assert counted(faulty_s3, read("c1", "c4")) == 2
    assert faulty_s3.count("HEAD", "*.parquet") == 0


def test_of_a_few_rows_no_whole_fragment_is_fetched(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket
) -> None:
    write_csv(files_behind(s3, through_proxy) / "a.csv", 0, 800_000)
    source = open_source(through_proxy, FORMATS["csv"].spec(), FIELD)
    fragment = source.fragments[0]
    assert fragment.num_bytes > 2 * PART_BYTES - 1

    def read() -> None:
        assert len(read_sample(source.scan, fragment, (), 32)["id"]) == 32

    # The header, the end of the last line, and a block of 4 MB.
    assert counted(faulty_s3, read) == 3


def test_a_dataset_is_listed_once(s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket) -> None:
    source = source_of(s3, through_proxy, "images")
    read_all(source)

    assert faulty_s3.count("GET", "") == 1


def test_whole_files_come_many_at_once(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket
) -> None:
    source = source_of(s3, through_proxy, "images")
    faulty_s3.add(Rule(Late(0.25), "GET", "*.png"))

    start = time.monotonic()
    assert len(read_all(source)["image"]) == 40

    assert time.monotonic() - start < 40 * 0.25 / 2
    assert FILES_AT_ONCE >= 8


def test_the_next_files_come_while_the_first_ones_are_looked_at(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket
) -> None:
    source = source_of(s3, through_proxy, "images")
    [fragment] = source.fragments
    tables = read_fragment(source.scan, fragment, (), 4)

    next(tables)

    deadline = time.monotonic() + 30
    while faulty_s3.count("GET", "*.png") < 40:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_reading_that_is_left_off_fetches_no_more(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket
) -> None:
    source = source_of(s3, through_proxy, "images")
    [fragment] = source.fragments
    faulty_s3.add(Rule(Late(0.2), "GET", "*.png"))
    tables = read_fragment(source.scan, fragment, (), 4)
    next(tables)

    tables.close()  # type: ignore[attr-defined]  # it is a generator

    assert faulty_s3.count("GET", "*.png") <= 4 + 2 * FILES_AT_ONCE


def test_an_empty_file_has_no_rows(
    s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket
) -> None:
    folder = files_behind(s3, through_proxy)
    write_text(folder / "a.txt", 0, 3)
    (folder / "b.txt").write_bytes(b"")

    source = open_source(through_proxy, FORMATS["text"].spec(), FIELD)

    assert len(read_all(source)["text"]) == 3


def test_a_near_name_is_offered_for_a_folder(s3: S3Server, through_proxy: Bucket) -> None:
    write_text(files_behind(s3, through_proxy) / "training_rows" / "a.txt", 0, 3)

    with pytest.raises(SpecError, match=r"that exists\. Did you mean \S+/training_rows\?"):
        open_source(through_proxy / "training-row", FORMATS["text"].spec(), FIELD)


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_azure_are_those_of_a_disk(in_azure: Bucket, tmp_path: Path, form: str) -> None:
    files, folder = FORMATS[form], tmp_path / "rows"
    files.write(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            in_azure.write(str(path.relative_to(folder)), path.read_bytes())

    assert_same(read_all(open_source(in_azure, files.spec(), FIELD)), on_disk(folder, files))
