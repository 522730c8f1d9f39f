"""How an attempt ended, in a few words, and whose fault that was."""

from __future__ import annotations

from dataclasses import dataclass

from trainshed.failures import RULES, as_world_error, classify, most_telling, told
from trainshed_api.names import FAILED, FailureCause, Outcome


@dataclass(frozen=True)
class AttemptResult:
    """How it ended; if it failed, whose fault that was, and the user's traceback if theirs."""

    outcome: Outcome
    message: str
    traceback: str | None = None
    cause: FailureCause | None = None

    @staticmethod
    def crashed(error: Exception) -> AttemptResult:
        """Return the verdict on an error that no worker told as its function's."""
        # What is known of nothing came from our own driver, or from Ray: not from the program.
        kind = classify(error) or "node"
        first = most_telling(error)
        lines = [line.strip() for line in str(first).splitlines() if line.strip()]
        said = f"{type(first).__name__}: {lines[0] if lines else ''}"
        if world := as_world_error(first):
            said = told(world.kind, str(world))
        elif kind == "start":
            said = told(kind, said)
        return AttemptResult(FAILED, said, str(error), RULES[kind].cause)
