"""Time that passes when a test says so."""


class Clock:
    """Gives seconds when called; `pass_` lets some go by."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def pass_(self, seconds: float) -> None:
        """Let seconds go by."""
        self.now += seconds
