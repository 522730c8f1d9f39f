"""Each fault befalls those whom its rule names, and nobody else."""

from collections.abc import Callable
from functools import partial

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError
from obstore.store import S3Store
from pyarrow.fs import S3FileSystem

from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server, open_bucket
from tests.s3_faults import CONFLICT, PRECONDITION_FAILED, SLOW_DOWN, Late, Rule

# Longer than a busy machine takes to hand over a request.
IMPATIENT_SECONDS = 1


@pytest.fixture
def store(faulty_s3: FaultyS3, bucket: str) -> S3Store:
    """The bucket as it looks through the proxy."""
    return open_bucket(faulty_s3.environment, bucket)


@pytest.fixture
def impatient(faulty_s3: FaultyS3, bucket: str) -> S3Store:
    """The same for a client that does not wait for long."""
    return open_bucket(faulty_s3.environment, bucket, timeout_seconds=IMPATIENT_SECONDS)


@pytest.fixture
def behind(s3: S3Server, bucket: str) -> S3Store:
    """The bucket as it is."""
    return open_bucket(s3.environment, bucket)


def succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except GenericError:
        return False
    return True


def holds(store: S3Store, key: str) -> bool:
    return key in [found["path"] for found in obstore.list(store).collect()]


def test_without_a_rule_all_is_passed_on(store: S3Store, behind: S3Store) -> None:
    large = bytes(range(256)) * 20_000
    obstore.put(store, "a folder/50 %=\u00e4+b", large)

    assert bytes(obstore.get(store, "a folder/50 %=\u00e4+b").bytes()) == large
    assert (
        bytes(obstore.get_range(store, "a folder/50 %=\u00e4+b", start=250, end=260))
        == large[250:260]
    )
    assert obstore.head(store, "a folder/50 %=\u00e4+b")["size"] == len(large)
    assert holds(store, "a folder/50 %=\u00e4+b")
    assert holds(behind, "a folder/50 %=\u00e4+b")
    obstore.delete(store, "a folder/50 %=\u00e4+b")
    assert not holds(store, "a folder/50 %=\u00e4+b")


def test_what_another_client_streams_is_passed_on(
    faulty_s3: FaultyS3, bucket: str, behind: S3Store
) -> None:
    # It waits for a word of the server's before it sends the body, whose length it does not say.
    told = faulty_s3.environment
    other = S3FileSystem(
        endpoint_override=told["AWS_ENDPOINT_URL"],
        access_key=told["AWS_ACCESS_KEY_ID"],
        secret_key=told["AWS_SECRET_ACCESS_KEY"],
        region=told["AWS_REGION"],
    )
    with other.open_output_stream(f"{bucket}/runs/table") as stream:
        stream.write(b"rows" * 500_000)

    assert bytes(obstore.get(behind, "runs/table").bytes()) == b"rows" * 500_000
    assert faulty_s3.count("PUT", "runs/table") == 1


def test_requests_are_counted_by_method_and_key(faulty_s3: FaultyS3, store: S3Store) -> None:
    faulty_s3.add(Rule(SLOW_DOWN, key="b"))
    obstore.put(store, "runs/a", b"")
    obstore.get(store, "runs/a").bytes()
    assert not succeeds(lambda: obstore.put(store, "b", b""))

    assert faulty_s3.count() == 3
    assert faulty_s3.count("PUT") == 2
    assert faulty_s3.count(key="runs/*") == 2
    assert faulty_s3.count("GET", "b") == 0


def test_each_third_request_is_told_to_slow_down(faulty_s3: FaultyS3, store: S3Store) -> None:
    faulty_s3.add(Rule(SLOW_DOWN, "PUT", every=3))

    done = [succeeds(partial(obstore.put, store, key, b"")) for key in "abcdefg"]

    assert done == [True, True, False, True, True, False, True]
    assert faulty_s3.num_struck == 2
    assert not holds(store, "c")


def test_a_rule_is_over_after_its_times(faulty_s3: FaultyS3, store: S3Store) -> None:
    faulty_s3.add(Rule(PRECONDITION_FAILED, key="claim", times=2))

    for _ in range(2):
        with pytest.raises(AlreadyExistsError):
            obstore.put(store, "claim", b"", mode="create")
    obstore.put(store, "claim", b"", mode="create")

    assert faulty_s3.count("PUT", "claim") == 3


def test_a_conflict_is_told_before_the_server_is_asked(
    faulty_s3: FaultyS3, store: S3Store, behind: S3Store
) -> None:
    faulty_s3.add(Rule(CONFLICT, "PUT", times=1))

    with pytest.raises(obstore.exceptions.BaseError, match="409"):
        obstore.put(store, "claim", b"", mode="create")

    assert not holds(behind, "claim")


def test_a_lost_answer_is_to_work_that_was_done(
    faulty_s3: FaultyS3, store: S3Store, behind: S3Store
) -> None:
    faulty_s3.add(Rule("answer lost", "PUT", times=1))

    with pytest.raises(GenericError):
        obstore.put(store, "claim", b"mine", mode="create")

    assert holds(behind, "claim")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "claim", b"mine", mode="create")


def test_a_cut_answer_ends_in_the_middle(faulty_s3: FaultyS3, store: S3Store) -> None:
    obstore.put(store, "state", bytes(1000))
    faulty_s3.add(Rule("answer cut", "GET", times=1))

    with pytest.raises(GenericError, match="body"):
        obstore.get_range(store, "state", start=0, end=1000)

    assert len(obstore.get_range(store, "state", start=0, end=1000)) == 1000


def test_a_late_answer_comes(faulty_s3: FaultyS3, impatient: S3Store, store: S3Store) -> None:
    obstore.put(store, "state", b"")
    faulty_s3.add(Rule(Late(1.0), "GET", times=2))

    assert not succeeds(lambda: obstore.get(impatient, "state").bytes())
    assert succeeds(lambda: obstore.get(store, "state").bytes())


def test_a_held_answer_comes_after_the_client_has_given_up(
    faulty_s3: FaultyS3, impatient: S3Store, behind: S3Store
) -> None:
    faulty_s3.add(Rule("answer held", "PUT", times=1))

    with pytest.raises(GenericError):
        obstore.put(impatient, "state", b"")

    faulty_s3.wait_until_held()
    assert holds(behind, "state")


def test_a_held_request_does_its_work_after_the_client_has_given_up(
    faulty_s3: FaultyS3, impatient: S3Store, behind: S3Store
) -> None:
    faulty_s3.add(Rule("request held", "PUT", times=1))

    with pytest.raises(GenericError):
        obstore.put(impatient, "state", b"")

    faulty_s3.wait_until_held()
    assert not holds(behind, "state")
    faulty_s3.release()
    assert holds(behind, "state")


def test_a_healed_store_has_no_faults(
    faulty_s3: FaultyS3, impatient: S3Store, behind: S3Store
) -> None:
    faulty_s3.add(Rule("request held", "PUT"))
    assert not succeeds(lambda: obstore.put(impatient, "a", b""))
    faulty_s3.wait_until_held()

    faulty_s3.heal()

    assert holds(behind, "a")
    assert succeeds(lambda: obstore.put(impatient, "b", b""))
