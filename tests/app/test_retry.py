"""What is read again, and what is not."""

import errno

import pytest

from trainshed.failures import NoBucketError
from trainshed.retry import RetryPolicy


@pytest.mark.parametrize(
    ("error", "want_waited"),
    [
        (OSError(errno.EREMOTEIO, "the server is busy"), [1.0, 4.0]),
        (NoBucketError(errno.EREMOTEIO, "s3://bucket: no such bucket"), []),
    ],
    ids=["a server that is busy", "a bucket that does not exist"],
)
def test_only_an_error_that_may_pass_is_waited_for(
    error: OSError, want_waited: list[float]
) -> None:
    waited: list[float] = []

    def read() -> None:
        raise error

    with pytest.raises(OSError, match=str(error.strerror)) as caught:
        RetryPolicy((1.0, 4.0), waited.append).read(read)

    assert caught.value is error
    assert waited == want_waited
