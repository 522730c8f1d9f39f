"""Folders and buckets that tests of the app share."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.azure import AzureServer
from tests.s3 import S3Server
from trainshed.data.sources.stage_timer import STAGE_TIMER, TELLER
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder

KEY = "local/digits/attempts/1/ray"


@pytest.fixture
def empty_ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have nothing in this process's ledger, and no run that was here before take from it."""
    monkeypatch.setattr(TELLER, "_listen", None)
    STAGE_TIMER.take()
    yield
    STAGE_TIMER.take()


@pytest.fixture
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's folder for what is temporary, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def in_bucket(
    s3: S3Server, bucket: str, own_temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    """An empty folder in a bucket, which this process may use, as an attempt's checkpoints have."""
    set_environment(monkeypatch, s3.environment)
    return Bucket(f"s3://{bucket}", KEY)


@pytest.fixture
def in_azure(
    azure_server: AzureServer, own_temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    """The same in a container of Azure's kind of store."""
    set_environment(monkeypatch, azure_server.environment)
    return Bucket(f"az://{azure_server.make_container()}", KEY)


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """An empty folder: on a disk, and in a bucket."""
    if request.param == "disk":
        return Disk(tmp_path / "home")
    found = request.getfixturevalue("in_bucket")
    assert isinstance(found, Bucket)
    return found


def set_environment(monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    """Let clients that are made from now on ask another server."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
