"""What went wrong with a dataset is said in a sentence, whatever Ray has put around it."""

import pytest
from ray.data._internal.util import iterate_with_retry
from ray.exceptions import RayTaskError

from trainshed.data.sources.errors import DataError, as_fault
from trainshed.failures import InfrastructureError

FIELD = "spec.data.datasets.train"


def as_ray_raises(error: Exception) -> Exception:
    """Return an error that was raised in one of Ray Data's tasks, as it arrives."""

    def fail() -> list[int]:
        raise error

    with pytest.raises(type(error)) as caught:
        list(iterate_with_retry(fail, "apply UDF transform", match=[]))
    return RayTaskError("read", "Traceback:\n  line 1\n", caught.value).as_instanceof_cause()  # type: ignore[no-any-return, no-untyped-call]


ERRORS: dict[str, tuple[Exception, DataError | InfrastructureError]] = {
    "a message": (
        ValueError("no such table: digits"),
        DataError(f"{FIELD}: ValueError: no such table: digits"),
    ),
    "a key": (KeyError("PASSWORD"), DataError(f"{FIELD}: KeyError: 'PASSWORD'")),
    "a number and a message": (
        LookupError(1146, "no such table"),
        DataError(f"{FIELD}: LookupError: (1146, 'no such table')"),
    ),
    "a number alone": (LookupError(7), DataError(f"{FIELD}: LookupError: 7")),
    "nothing": (LookupError(), DataError(f"{FIELD}: LookupError: ")),
    "a call of the system": (
        ConnectionRefusedError(111, "Connection refused"),
        InfrastructureError(
            f"{FIELD}: ConnectionRefusedError: [Errno 111] Connection refused", "network"
        ),
    ),
    "one of ours": (DataError("a.parquet: damaged"), DataError("a.parquet: damaged")),
}


@pytest.mark.parametrize(("error", "want"), ERRORS.values(), ids=ERRORS)
def test_what_was_raised_in_a_task_is_said_and_not_how_ray_would_try_again(
    error: Exception, want: DataError | InfrastructureError
) -> None:
    found = as_fault(as_ray_raises(error), FIELD)

    assert (type(found), found.args) == (type(want), want.args)
