"""A dataset is reached as its spec says: on another store, without credentials, kept by nodes."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.conftest import set_environment
from tests.app.data.builders_buckets import (
    FORMATS,
    assert_same,
    files_behind,
    on_disk,
    write_parquet,
)
from tests.app.data.builders_formats import FIELD, read_all, write_csv, write_npy, write_text
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from tests.web import WebServer
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources.dataset_files import open_source, read_fragment
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import npy
from trainshed.data.sources.opener import store_options_of
from trainshed.planning.paths import locate_source
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec

pytestmark = pytest.mark.usefixtures("own_node")


def open_at(path: str, form: str, **read: JsonValue) -> Source:
    """Return a dataset as preflight opens it, and as it comes to another process."""
    spec = ReadSpec.model_validate({"format": form, "path": path, **read})
    at = locate_source(path, Disk(Path("/")), f"{FIELD}.path", store_options_of(spec))
    source: Source = pickle.loads(pickle.dumps(open_source(at, spec, FIELD)))
    return source


# ----------------------------------------------------------- another store

WRITE: dict[str, Callable[[Path], None]] = {
    "csv": lambda path: write_csv(path, 0, 100),
    "parquet": lambda path: write_parquet(path, 3),
}


def write_table(path: Path, rows: int, first: int = 0) -> None:
    """Write numbers from one on, of five digits each, by the ending of the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": np.arange(10_000 + first, 10_000 + first + rows)})
    (pacsv.write_csv if path.suffix == ".csv" else pq.write_table)(table, path)


@pytest.fixture
def store(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    """A server that gives the objects of a bucket; the environment's store is elsewhere."""
    elsewhere = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "here",
    }
    set_environment(monkeypatch, elsewhere)
    return web


@pytest.mark.parametrize("form", WRITE)
def test_a_source_is_on_another_store_than_the_environment_says(
    store: WebServer, tmp_path: Path, form: str
) -> None:
    WRITE[form](tmp_path / "rows")
    store.files[f"/data/a.{form}"] = (tmp_path / "rows").read_bytes()

    source = open_at(f"s3://data/a.{form}", form, endpoint=store.url, region="there")

    assert_same(read_all(source), read_all(open_at(str(tmp_path / "rows"), form)))
    assert all("/there/s3/" in each.headers["authorization"] for each in store.asked)


@pytest.mark.parametrize("path", ["s3://data/a.csv", "s3://anonymous@data/a.csv"])
def test_who_is_anonymous_shows_no_credentials(store: WebServer, tmp_path: Path, path: str) -> None:
    write_csv(tmp_path / "rows", 0, 100)
    store.files["/data/a.csv"] = (tmp_path / "rows").read_bytes()
    says_so: JsonValue = "anonymous@" not in path

    source = open_at(path, "csv", endpoint=store.url, anonymous=says_so)

    assert len(read_all(source)["id"]) == 100
    assert store.asked
    assert not any("authorization" in each.headers for each in store.asked)


@pytest.mark.parametrize("form", WRITE)
def test_who_asks_pays(store: WebServer, tmp_path: Path, form: str) -> None:
    WRITE[form](tmp_path / "rows")
    store.files[f"/data/a.{form}"] = (tmp_path / "rows").read_bytes()

    read_all(open_at(f"s3://data/a.{form}", form, endpoint=store.url, requesterPays=True))

    assert store.asked
    assert all(each.headers["x-amz-request-payer"] == "requester" for each in store.asked)


# ----------------------------------------------------------- what listings have


def listing_of(*keys: str, size: int = 0) -> bytes:
    """Return what S3 says of objects of one size, written when the year 2026 began."""
    entry = (
        "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        '<ETag>"{}"</ETag><Size>{}</Size></Contents>'
    )
    entries = "".join(entry.format(key, number, size) for number, key in enumerate(keys))
    return f"<ListBucketResult>{entries}</ListBucketResult>".encode()


@pytest.mark.parametrize(
    "tells",
    [
        {"ETag": '"0"', "Last-Modified": "Thu, 01 Jan 2026 00:00:07 GMT"},
        {"ETag": "0"},
        {"ETag": '"as-lists-have-it-not"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"},
        {},
    ],
)
def test_a_list_need_not_write_tags_as_other_answers_do(
    store: WebServer, tells: dict[str, str]
) -> None:
    store.files["/data"], store.files["/data/rows/x"] = listing_of("rows/x", size=3), b"abc"
    source = open_at("s3://data/rows", "binary", endpoint=store.url)
    store.tells = tells

    assert list(read_all(source, ["bytes"])["bytes"]) == [b"abc"]


def test_what_marks_a_folder_is_no_file(store: WebServer) -> None:
    store.files["/data"] = listing_of("rows/of/", "rows/of/ab", "rows/alone/", "rows/x")
    store.files["/data/rows/x"] = store.files["/data/rows/of/ab"] = b""

    source = open_at("s3://data/rows", "binary", endpoint=store.url, columns=["path"])

    assert [file.path for file in source.files] == ["of/ab", "x"]
    assert list(read_all(source, ["path"])["path"]) == ["of/ab", "x"]


def test_a_name_that_no_client_reads_is_said(store: WebServer) -> None:
    store.files["/data"] = listing_of("rows//ab")

    with pytest.raises(SpecError, match=r"whose name has an empty part \(//\), a part that is"):
        open_at("s3://data/rows", "binary", endpoint=store.url)


# ----------------------------------------------------------- kept by the node


@pytest.mark.parametrize("form", FORMATS)
def test_the_second_epoch_asks_for_nothing(
    s3: S3Server,
    faulty_s3: FaultyS3,
    through_proxy: Bucket,
    form: str,
) -> None:
    files, folder = FORMATS[form], files_behind(s3, through_proxy)
    files.write(folder)
    options: JsonValue = dict(files.options)
    source = open_at(str(through_proxy), files.form, options=options, localCache="1Gi")
    want = on_disk(folder, files)
    assert_same(read_all(source), want)
    asked = faulty_s3.count()

    assert_same(read_all(source), want)

    assert faulty_s3.count() == asked


def test_a_file_that_was_written_anew_is_fetched_anew(
    s3: S3Server,
    through_proxy: Bucket,
) -> None:
    folder = files_behind(s3, through_proxy)
    write_text(folder / "a.txt", 100, 100)

    def read() -> list[str]:
        source = open_at(str(through_proxy), "text", localCache="1Gi")
        return [str(each) for each in read_all(source)["text"]]

    first = read()
    through_proxy.write("a.txt", "".join(f"LINE {n} \u00e4\n" for n in range(100, 200)).encode())

    assert read() == [line.replace("line", "LINE") for line in first]


@pytest.mark.parametrize("local_cache", [None, "1Gi"])
@pytest.mark.parametrize("rows", [90, 100, 110])
@pytest.mark.parametrize("form", WRITE)
def test_a_file_that_changes_after_it_was_listed_is_refused(  # noqa: PLR0917 - fixtures
    s3: S3Server,
    through_proxy: Bucket,
    own_node: Path,
    form: str,
    rows: int,
    local_cache: str | None,
) -> None:
    path = files_behind(s3, through_proxy) / f"a.{form}"
    write_table(path, 100)
    source = open_at(str(through_proxy), form, localCache=local_cache)
    later = path.stat().st_mtime + 10  # by which the server dates it
    write_table(path, rows, first=1)
    through_proxy.write(path.name, path.read_bytes())  # which gives it another tag
    os.utime(path, (later, later))

    with pytest.raises(DataError, match=rf"a\.{form}: it was overwritten since the run was plan"):
        read_all(source)

    kept = [path.name for path in own_node.glob("trainshed-files-*/*") if "-" in path.name]
    assert kept == []


def test_a_part_that_a_smaller_file_does_not_have_is_no_storage_that_is_away(
    s3: S3Server, through_proxy: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npy, "FRAGMENT_BYTES", 1000)
    write_npy(files_behind(s3, through_proxy) / "a.npy", 0, 1000)
    source = open_at(str(through_proxy), "numpy")
    through_proxy.write("a.npy", b"nothing")

    with pytest.raises(DataError, match=r"a\.npy: it was overwritten since the run was planned"):
        list(read_fragment(source.scan, source.fragments[-1], [], 10))


def test_many_datasets_share_what_a_node_keeps(
    s3: S3Server,
    through_proxy: Bucket,
    own_node: Path,
) -> None:
    for number in range(20):
        write_text(files_behind(s3, through_proxy) / f"{number}" / "a.txt", 0, 100)

    for number in range(20):
        rows = read_all(open_at(f"{through_proxy}/{number}", "text", localCache="8Ki"))
        assert len(rows["text"]) == 100

    kept = next(own_node.glob("trainshed-files-*"))
    assert 4096 < sum(path.stat().st_size for path in kept.iterdir()) < 8192 + 32


def test_a_disk_is_read_where_it_lies(tmp_path: Path, own_node: Path) -> None:
    write_text(tmp_path / "rows" / "a.txt", 0, 100)

    rows = read_all(open_at(str(tmp_path / "rows"), "text", localCache="1Gi"))

    assert len(rows["text"]) == 100
    assert list(own_node.iterdir()) == []
