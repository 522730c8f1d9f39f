"""What a cluster may answer instead of doing what it is asked."""

from __future__ import annotations


class ClusterError(Exception):
    """A cluster that cannot be used, or does not know a job; one line for the user.

    Args:
        message: the line.
        exit_code: of the command that asked.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
