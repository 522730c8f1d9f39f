"""What can be wrong with data once a run has begun; before that it is a SpecError."""

from __future__ import annotations


class DataError(Exception):
    """Data that cannot be read or used; the message names the file, column or function."""


class FunctionError(DataError):
    """A transform or augmentation that raised.

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


class RemoteTracebackError(Exception):
    """Stands in a traceback for what was raised in another process, whose traceback it prints."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def as_data_error(error: BaseException, field: str) -> DataError:
    """Return what went wrong with a dataset, without the layers that Ray puts around it.

    Args:
        error: as it was raised.
        field: of the dataset, for errors that do not name anything of the user's.
    """
    inner: BaseException | None = error
    while inner is not None:
        # Ray's own error for a task has the original as its cause, and a class made of both.
        cause = getattr(inner, "cause", None)
        for found in (cause, inner):
            if isinstance(found, DataError):
                found.__dict__.pop("__notes__", None)  # Ray's, on how often it would try again
                return found
        inner = cause or inner.__cause__ or inner.__context__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return DataError(f"{field}: {type(error).__name__}: {lines[-1] if lines else ''}")
