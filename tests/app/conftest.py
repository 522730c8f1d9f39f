"""The Ray that tests of the app share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.builders_rows import write_rows
from tests.app.ray_head import Head, start_cluster
from tests.s3 import S3Server
from trainshed.digits import write_digits
from trainshed.records.bucket import Bucket
from trainshed.records.disk import Disk
from trainshed.records.storage import Folder


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """Run a cluster with a group of nodes for each kind of work; its home holds digits and rows.

    A driver that joins it costs half of one that starts a Ray: variants of runs are made here.
    """
    home = tmp_path_factory.mktemp("home")
    write_digits(Disk(home))
    write_rows(home / "rows", 240)
    with start_cluster(home, {"gpu": 2, "cpu": 2}) as running:
        yield running


@pytest.fixture
def in_bucket(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty folder in a bucket, which this process may use; what it fetches is this test's."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(fetched))
    return Bucket(f"s3://{s3.make_bucket()}", "home")


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """An empty folder: on a disk, and in a bucket."""
    if request.param == "disk":
        return Disk(tmp_path / "home")
    found = request.getfixturevalue("in_bucket")
    assert isinstance(found, Bucket)
    return found
