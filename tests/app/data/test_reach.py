"""A dataset is reached as its spec says: on another store, without credentials, kept by nodes."""

import pickle
from collections.abc import Callable
from pathlib import Path

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
from tests.app.data.builders_formats import FIELD, read_all, write_csv, write_text
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from tests.web import WebServer
from trainshed.data.order.files import Source
from trainshed.data.read.files import open_source
from trainshed.data.read.opening import reach_of
from trainshed.plan.places import locate_source
from trainshed.records.bucket import Bucket
from trainshed.records.disk import Disk
from trainshed_api.rows import ReadSpec

pytestmark = pytest.mark.usefixtures("own_node")


def open_at(path: str, form: str, **read: JsonValue) -> Source:
    """Return a dataset as preflight opens it, and as it comes to another process."""
    spec = ReadSpec.model_validate({"format": form, "path": path, **read})
    at = locate_source(path, Disk(Path("/")), f"{FIELD}.path", reach_of(spec))
    source: Source = pickle.loads(pickle.dumps(open_source(at, spec, FIELD)))
    return source


# ----------------------------------------------------------- another store

WRITE: dict[str, Callable[[Path], None]] = {
    "csv": lambda path: write_csv(path, 0, 100),
    "parquet": lambda path: write_parquet(path, 3),
}


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


def test_a_file_that_changes_after_it_was_listed_is_not_kept_as_it_was(
    s3: S3Server,
    through_proxy: Bucket,
    own_node: Path,
) -> None:
    through_proxy.write("a.txt", b"old 1\nold 2\n")
    source = open_at(str(through_proxy), "text", localCache="1Gi")
    through_proxy.write("a.txt", b"new 1\nnew 2\n")

    assert list(read_all(source)["text"]) == ["new 1", "new 2"]

    kept = next(own_node.glob("trainshed-files-*"))
    assert [path.name for path in kept.iterdir() if "-" in path.name] == []


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
