"""The exception for failures of the user's function, which Ray Train's controller knows by name."""


class UserFailureError(Exception):
    """The user's function failed: not retried. The message has its error's type and text."""
