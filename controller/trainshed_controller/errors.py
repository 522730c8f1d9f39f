"""What a request may come to besides an answer, by what is to be done about it."""

from __future__ import annotations


class ApiError(Exception):
    """A request that did not succeed."""


class ConflictError(ApiError):
    """Somebody changed the object meanwhile, or there is another one of that name: look again."""


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


class RefusedError(ApiError):
    """The server will not have it until somebody changes something: a quota, a policy, a right.

    Args:
        message: the server's own, for people.
    """

    def __init__(self, request: str, message: str) -> None:
        super().__init__(f"{request}: {message}")
        self.message = message


class BugError(ApiError):
    """What was asked is no request that the server knows, or its answer is none that we know."""
