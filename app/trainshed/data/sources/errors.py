"""What can be wrong with data once a run has begun; before that it is a SpecError."""

from __future__ import annotations

import re
from typing import NoReturn

from trainshed.failures import RULES, InfrastructureError, causes, classify
from trainshed_api.names import APPLICATION

# What Ray Data 2.60 adds to a message (_annotate_exception_with_retry_context).
_OF_RAY = re.compile(r"\n?Failed to [^\n]* after \d+/\d+ attempts \(total backoff.*", re.DOTALL)


class DataError(Exception):
    """Data that cannot be read or used; the message names the file, column or function."""


class UsersError(DataError):
    """What code of the user's raised.

    Args:
        message: the field, the function and what it raised, on one line.
        trace: the user's own traceback, as text: it comes from another process.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        # Both are arguments of the exception, or the trace would be lost on the way to the worker.
        super().__init__(message, trace)

    @property
    def trace(self) -> str:
        """Return the user's own traceback."""
        return str(self.args[1])

    def __str__(self) -> str:
        return str(self.args[0])


class FunctionError(UsersError):
    """A transform or augmentation that raised on the rows that it was given."""


class LoadError(UsersError):
    """A function that cannot be imported, or made where it is a class: no row is to blame."""


class RemoteTracebackError(Exception):
    """Stands in a traceback for what was raised in another process, whose traceback it prints."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def as_fault(error: BaseException, field: str) -> DataError | InfrastructureError:
    """Return what went wrong with a dataset, without the layers that Ray puts around it.

    Args:
        error: as it was raised.
        field: of the dataset, for errors that do not name anything of the user's.
    """
    for found in causes(error):
        if isinstance(found, (DataError, InfrastructureError)):
            _take_off_what_ray_added(found)
            return found
    first = next(causes(error))
    _take_off_what_ray_added(first)
    said = _OF_RAY.sub("", str(first))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    message = f"{field}: {type(first).__name__}: {lines[-1] if lines else ''}"
    kind = classify(error)
    if kind and RULES[kind].cause != APPLICATION:
        return InfrastructureError(message, kind)
    return DataError(message)


def _take_off_what_ray_added(error: BaseException) -> None:
    """Take off how often Ray would try again: a note, the end of a message, or an argument."""
    error.__dict__.pop("__notes__", None)
    kept = [_OF_RAY.sub("", each) if isinstance(each, str) else each for each in error.args]
    if kept and kept[-1] == "" != error.args[-1]:
        kept.pop()
    error.args = tuple(kept)


def raise_again(error: DataError | InfrastructureError) -> NoReturn:
    """Raise an error that came from another process, with the user's own traceback if it has one.

    Raises:
        DataError: that it is.
        InfrastructureError: that it is.
    """
    if isinstance(error, UsersError) and error.trace:
        raise error from RemoteTracebackError(error.trace)
    raise error from None
