"""Fixtures of datasets that lie at addresses."""

from pathlib import Path

import pytest

from tests.app.conftest import set_environment
from tests.faulty_s3 import FaultyS3
from trainshed.data.sources.local_cache import kept_here
from trainshed.storage.bucket import Bucket
from trainshed.storage.store_client import client_of


@pytest.fixture
def through_proxy(faulty_s3: FaultyS3, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A folder of a new bucket, seen through a proxy that a test gives rules."""
    set_environment(monkeypatch, faulty_s3.environment)
    return Bucket(f"s3://{bucket}", "rows")


@pytest.fixture
def own_node(own_temporary: Path) -> Path:
    """Where this machine keeps files for the time of a test; nothing is there from before."""
    kept_here.cache_clear()
    client_of.cache_clear()
    return own_temporary
