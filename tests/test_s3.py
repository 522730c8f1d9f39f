"""The S3 server keeps what it was given, and refuses what a condition forbids."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from obstore.exceptions import (
    AlreadyExistsError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
)
from obstore.store import S3Store

from tests.s3 import S3Server, open_bucket


@pytest.fixture
def store(s3: S3Server, bucket: str) -> S3Store:
    return open_bucket(s3.environment, bucket)


def keys_of(store: S3Store) -> list[str]:
    return sorted(str(found["path"]) for found in obstore.list(store).collect())


def test_what_was_put_is_there(store: S3Store) -> None:
    obstore.put(store, "runs/one/state", b"here")

    assert bytes(obstore.get(store, "runs/one/state").bytes()) == b"here"
    assert keys_of(store) == ["runs/one/state"]


def test_what_was_never_put_is_not_found(store: S3Store) -> None:
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "nothing")


def test_an_object_is_created_once(store: S3Store) -> None:
    obstore.put(store, "claim", b"first", mode="create")

    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "claim", b"second", mode="create")
    assert bytes(obstore.get(store, "claim").bytes()) == b"first"


def test_of_many_who_create_an_object_at_once_one_does(store: S3Store) -> None:
    def create(who: int) -> bool:
        try:
            obstore.put(store, "claim", str(who).encode(), mode="create")
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        has_created = list(threads.map(create, range(24)))

    assert has_created.count(True) == 1
    assert int(bytes(obstore.get(store, "claim").bytes())) == has_created.index(True)


def test_only_the_version_that_was_read_is_replaced(store: S3Store) -> None:
    read = obstore.put(store, "state", b"1")
    obstore.put(store, "state", b"2", mode={"e_tag": read["e_tag"]})

    with pytest.raises(PreconditionError):
        obstore.put(store, "state", b"3", mode={"e_tag": read["e_tag"]})
    assert bytes(obstore.get(store, "state").bytes()) == b"2"


def test_a_bucket_holds_nothing_of_another(s3: S3Server, store: S3Store) -> None:
    obstore.put(store, "state", b"here")

    assert keys_of(open_bucket(s3.environment, s3.make_bucket())) == []


def test_a_stranger_is_refused(s3: S3Server, bucket: str) -> None:
    stranger = {**s3.environment, "AWS_SECRET_ACCESS_KEY": "another"}

    with pytest.raises(PermissionDeniedError):
        obstore.put(open_bucket(stranger, bucket), "state", b"")


def test_the_environment_is_all_that_a_client_needs(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)

    obstore.put(S3Store(bucket), "state", b"here")

    assert keys_of(open_bucket(s3.environment, bucket)) == ["state"]


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
