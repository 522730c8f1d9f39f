"""Errors in data after a run has begun; before that they are SpecErrors."""

from __future__ import annotations

import re
from typing import NoReturn

from trainshed.failures import RULES, InfrastructureError, causes, classify
from trainshed_api.names import APPLICATION

# Ray Data 2.60 adds this to messages (_annotate_exception_with_retry_context).
_OF_RAY = re.compile(r"\n?Failed to [^\n]* after \d+/\d+ attempts \(total backoff.*", re.DOTALL)


def on_one_line(error: BaseException) -> str:
    """Return what an error says, with single spaces for line feeds and other spaces."""
    return " ".join(str(error).split())


class DataError(Exception):
    """Data that cannot be read or used; the message names the file, column or function."""


class UsersError(DataError):
    """An exception of the user's code.

    Args:
        message: the field, the function and the exception, on one line.
        trace: the user's part of the traceback, as text from another process.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        # Both are arguments of the exception, or pickling would lose the trace.
        super().__init__(message, trace)

    @property
    def trace(self) -> str:
        """Return the user's part of the traceback."""
        return str(self.args[1])

    def __str__(self) -> str:
        return str(self.args[0])


class FunctionError(UsersError):
    """A transform or augmentation that raised on its rows."""


class LoadError(UsersError):
    """A function that cannot be imported, or a class that cannot be constructed."""


class RemoteTracebackError(Exception):
    """Represents an exception of another process in a traceback, by its printed traceback."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def as_fault(error: BaseException, field: str) -> DataError | InfrastructureError:
    """Return the error of a dataset without the exceptions that Ray wraps around it.

    Args:
        error: as it was raised.
        field: of the dataset, for errors that name nothing of the user's.
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
    """Remove Ray's retry count: a note, the end of a message, or an argument."""
    error.__dict__.pop("__notes__", None)
    kept = [_OF_RAY.sub("", each) if isinstance(each, str) else each for each in error.args]
    if kept and kept[-1] == "" != error.args[-1]:
        kept.pop()
    error.args = tuple(kept)


def raise_again(error: DataError | InfrastructureError) -> NoReturn:
    """Raise an error of another process, with the user's traceback if it has one.

    Raises:
        DataError: if it is one.
        InfrastructureError: if it is one.
    """
    if isinstance(error, UsersError) and error.trace:
        raise error from RemoteTracebackError(error.trace)
    raise error from None
