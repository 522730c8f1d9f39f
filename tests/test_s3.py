"""The S3 server keeps what it was given, and refuses what a condition forbids."""

from collections.abc import Callable

import obstore
import pytest
from obstore.exceptions import (
    GenericError,
)
from obstore.store import S3Store

from tests.s3 import S3Server, open_bucket


@pytest.fixture
def store(s3: S3Server, bucket: str) -> S3Store:
    return open_bucket(s3.environment, bucket)


@pytest.mark.parametrize("end", [S3Server.stop, S3Server.kill], ids=["stopped", "killed"])
def test_a_server_that_was_away_comes_back_with_what_it_held(
    end: Callable[[S3Server], None], s3: S3Server, store: S3Store
) -> None:
    obstore.put(store, "state", b"here")

    end(s3)
    with pytest.raises(GenericError):
        obstore.get(store, "state")

    s3.start()
    assert bytes(obstore.get(store, "state").bytes()) == b"here"


@pytest.mark.s3
def test_a_test_that_ended_the_server_leaves_it_running(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_ends_it(s3): s3.kill()
        def test_finds_it(s3): assert s3.is_running
        """
    )
    pytester.makeini("[pytest]\nmarkers = s3\nasyncio_default_fixture_loop_scope = function")

    pytester.runpytest_inprocess("-p", "tests.s3").assert_outcomes(passed=2)
