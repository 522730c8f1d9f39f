"""Where checkpoints lie: on a disk or in a bucket; one suite holds for both."""

import tempfile
from pathlib import Path

import pytest

from tests.azure import AzureServer
from tests.s3 import S3Server
from trainshed.records.bucket import Bucket
from trainshed.records.disk import Disk
from trainshed.records.storage import Folder


@pytest.fixture
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's folder for what is temporary, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def in_bucket(s3: S3Server, own_temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty folder in a bucket, laid out as an attempt's checkpoints are."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return Bucket(f"s3://{s3.make_bucket()}", "local/digits/attempts/1/ray")


@pytest.fixture
def on_disk(tmp_path: Path) -> Disk:
    """An empty folder on a disk, laid out as an attempt's checkpoints are."""
    return Disk(tmp_path / "storage/local/digits/attempts/1/ray")


@pytest.fixture
def in_azure(
    azure_server: AzureServer, own_temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    """The same in a container of Azure's kind of store."""
    for name, value in azure_server.environment.items():
        monkeypatch.setenv(name, value)
    return Bucket(f"az://{azure_server.make_container()}", "local/digits/attempts/1/ray")


@pytest.fixture(
    params=[
        "on_disk",
        pytest.param("in_bucket", marks=pytest.mark.s3),
        pytest.param("in_azure", marks=pytest.mark.azure),
    ],
    ids=["disk", "bucket", "azure"],
)
def place(request: pytest.FixtureRequest) -> Folder:
    """An empty folder: on a disk, and in a bucket."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Folder)
    return found
