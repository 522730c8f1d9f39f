"""What a request may come to besides an answer, by what is to be done about it."""

from __future__ import annotations

import json
from http import HTTPStatus
from zlib import crc32

from trainshed_api.json_object import as_object

_FIRST_OF_SERVER = 500
_PASSING = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
)
_LONGEST_MESSAGE, _LONGEST_PAUSE_SECONDS = 1000, 60.0


class ApiError(Exception):
    """A request that did not succeed."""


class ConflictError(ApiError):
    """The object changed since it was read, or another one has its name: read it again."""


class GoneError(ApiError):
    """There is no such object."""


class RetryError(ApiError):
    """Nobody answered, or not now: the same request may succeed later.

    Args:
        after: seconds that the server wants to be left alone for; 0 where it did not say.
    """

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class ExpiredError(RetryError):
    """A version that a watch cannot begin at, or go on from: list again."""


class RefusedError(ApiError):
    """The server will not have it until somebody changes something: a quota, a policy, a right.

    Args:
        message: the server's own, for people.
    """

    def __init__(self, request: str, message: str) -> None:
        super().__init__(f"{request}: {message}")
        self.message = message


class BugError(ApiError):
    """The server does not know the request, or we do not know its answer."""


def backoff(failures: int, error: Exception | None, first: float, longest: float) -> float:
    """Return the seconds after so many failures before this one; they double.

    A server that says for how long it wants to be left alone is left alone.
    """
    wanted = error.after if isinstance(error, RetryError) else 0.0
    return max(wanted, min(first * 2.0 ** min(failures, 20), longest))


def share_of(name: str) -> float:
    """Return a number from 0 to 1 that a name always has: who acts together is spread by it."""
    return (crc32(name.encode()) % 997) / 997


def error_of(wanted: str, status: int, text: bytes, retry_after: str) -> ApiError:
    """Return what an answer that is no success means.

    Args:
        wanted: method and path.
        text: the answer's body.
        retry_after: the header of that name, empty where there is none.
    """
    message = _message(text)
    said = f"{wanted}: {status} {message}"
    match status:
        case HTTPStatus.NOT_FOUND:
            return GoneError(said)
        case HTTPStatus.CONFLICT:
            return ConflictError(said)
        case HTTPStatus.FORBIDDEN | HTTPStatus.UNPROCESSABLE_ENTITY:
            return RefusedError(wanted, message)
        case HTTPStatus.GONE:  # about the version of a list, not about an object
            return ExpiredError(said)
        case _ if status in _PASSING or status >= _FIRST_OF_SERVER:
            return RetryError(said, requested_pause(retry_after))
        case _:
            return BugError(said)


def requested_pause(retry_after: str) -> float:
    """Return the seconds that the header Retry-After asks for; 0 for none and for a date."""
    return min(float(retry_after), _LONGEST_PAUSE_SECONDS) if retry_after.isdecimal() else 0.0


def _message(text: bytes) -> str:
    try:
        return str(as_object(json.loads(text)).get("message", ""))[:_LONGEST_MESSAGE]
    except (ValueError, RecursionError):
        return text[:200].decode(errors="replace")
