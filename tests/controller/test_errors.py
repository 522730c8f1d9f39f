"""What an answer that is no success means for whoever asked."""

import json

import pytest

from trainshed_controller.errors import (
    ApiError,
    BugError,
    ConflictError,
    ExpiredError,
    GoneError,
    RefusedError,
    RetryError,
    error_of,
)

KINDS: dict[int, type[ApiError]] = {
    400: BugError,
    401: RetryError,
    403: RefusedError,
    404: GoneError,
    405: BugError,
    408: RetryError,
    409: ConflictError,
    410: ExpiredError,
    415: BugError,
    422: RefusedError,
    429: RetryError,
    500: RetryError,
    503: RetryError,
    504: RetryError,
}


@pytest.mark.parametrize("status", KINDS)
def test_a_status_says_what_is_to_be_done(status: int) -> None:
    text = json.dumps({"kind": "Status", "message": "exceeded quota: team"}).encode()

    error = error_of("POST /rayjobs", status, text, "")

    assert type(error) is KINDS[status]
    assert "exceeded quota: team" in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"), [("", 0), ("7", 7), ("999999", 60), ("Wed, 21 Oct", 0), ("²", 0)]
)
def test_a_server_may_ask_for_a_pause_that_is_no_hour(header: str, seconds: float) -> None:
    error = error_of("GET /pods", 429, b"", header)

    assert isinstance(error, RetryError)
    assert error.after == seconds


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"[1]", b"{", b"[" * 100_000])
def test_an_answer_that_is_no_status_is_an_error_all_the_same(text: bytes) -> None:
    assert isinstance(error_of("GET /pods", 500, text, ""), RetryError)
