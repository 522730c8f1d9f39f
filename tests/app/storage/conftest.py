"""The kinds of storage that a run may have."""

import os
import time
from collections.abc import Callable

import pytest

from tests.app.conftest import KEY, set_environment
from tests.faulty_s3 import FaultyS3
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder


@pytest.fixture
def through_faults(faulty_s3: FaultyS3, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A folder in a new bucket, seen through a proxy that a test gives rules."""
    set_environment(monkeypatch, faulty_s3.environment)
    return Bucket(f"s3://{bucket}", KEY)


@pytest.fixture(
    params=[
        "disk",
        pytest.param("bucket", marks=pytest.mark.s3),
        pytest.param("azure", marks=pytest.mark.azure),
    ]
)
def storage(request: pytest.FixtureRequest) -> Folder:
    """A folder of each kind, where nothing lies yet."""
    if request.param == "disk":
        return Disk(request.getfixturevalue("tmp_path") / KEY)
    folder: Bucket = request.getfixturevalue(f"in_{request.param}")
    return folder


@pytest.fixture
def make_old(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Folder, str, float], None]:
    """Let a file look as if nobody had written it for so many seconds."""
    temporary = tmp_path_factory.getbasetemp()

    def make(folder: Folder, name: str, seconds: float) -> None:
        if str(folder).startswith("az:"):
            pytest.skip("Azurite dates its objects itself, and keeps the date in a database")
        written = time.time() - seconds
        bucket, _, key = str(folder).partition("://")[2].partition("/")
        # The server dates objects by the files that it keeps them in.
        kept = folder.path or next(temporary.glob(f"s3*/data/{bucket}")) / key
        os.utime(kept / name, (written, written))

    return make
