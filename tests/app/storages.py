"""Where a run's home lies: on a disk or in a bucket; what it leaves is read as files either way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.s3 import S3Server

# Runs take minutes: a test has one kind of storage in `make test` and both in `make e2e`.
ON_DISK = ("disk", pytest.param("bucket", marks=[pytest.mark.e2e, pytest.mark.s3]))
IN_BUCKET = (
    pytest.param("disk", marks=pytest.mark.e2e),
    pytest.param("bucket", marks=pytest.mark.s3),
)


@dataclass(frozen=True)
class Home:
    """A home of runs.

    Args:
        address: by which runs know it.
        path: where its files are, an S3 server's for a bucket.
        environment: in which it can be reached.
    """

    address: str
    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def file(self, written: str) -> Path:
        """Return where something lies that a run names."""
        assert written.startswith(self.address), written
        return self.path / written.removeprefix(self.address).lstrip("/")


def make_home(kind: str, request: pytest.FixtureRequest, folder: Path) -> Home:
    """Return an empty home; a folder of tests for a disk."""
    if kind == "disk":
        return Home(str(folder), folder)
    server = request.getfixturevalue("s3_server")
    assert isinstance(server, S3Server)
    bucket = server.make_bucket()
    return Home(f"s3://{bucket}", server.folder_of(bucket), server.environment)


def make_runs(kind: str, request: pytest.FixtureRequest, beside: Path) -> Home:
    """Return an empty storage of runs, seen as the folder `runs` of files beside it."""
    home = make_home(kind, request, beside / "runs")
    if home.path != beside / "runs":
        (beside / "runs").symlink_to(home.path)
    return home
