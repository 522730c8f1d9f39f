"""Where checkpoints lie: on a disk or in a bucket; one suite holds for both."""

from pathlib import Path

import pytest

from tests.app.conftest import KEY
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder


@pytest.fixture
def on_disk(tmp_path: Path) -> Disk:
    """An empty folder on a disk, laid out as an attempt's checkpoints are."""
    return Disk(tmp_path / "storage" / KEY)


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
