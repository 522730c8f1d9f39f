"""What a worker raises for the user's function; Ray Train's controller knows it by its name."""


class UserFailureError(Exception):
    """The user's function failed: never tried again. The message has its error's type and text."""
