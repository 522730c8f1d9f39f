"""Which requests to a faulty S3 server meet with which fault, and what came at all."""

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal


@dataclass(frozen=True)
class Refusal:
    """An answer that the server never gave: it is not asked."""

    status: int
    code: str


SLOW_DOWN = Refusal(503, "SlowDown")
CONFLICT = Refusal(409, "ConditionalRequestConflict")
PRECONDITION_FAILED = Refusal(412, "PreconditionFailed")


@dataclass(frozen=True)
class Late:
    """An answer that takes so many seconds."""

    seconds: float


# Lost: the server has done its work, and instead of an answer the connection ends; cut: in the
# middle of its body. Held: the request, or the answer to it, waits for `release`, whatever the
# client does.
Fault = Refusal | Late | Literal["answer lost", "answer cut", "answer held", "request held"]


@dataclass(frozen=True)
class Rule:
    """Which requests meet with a fault.

    Args:
        fault: what befalls them.
        method: which method they have: a pattern, as of the shell.
        key: which key, by another pattern; a request about the bucket has the key "".
        every: of those that fit each second, each third, and so on.
        times: how often at most; None: for as long as the rule stands.
    """

    fault: Fault
    method: str = "*"
    key: str = "*"
    every: int = 1
    times: int | None = None

    def strikes(self, nth: int) -> bool:
        """Return whether the n-th request that fits meets with the fault, counted from 1."""
        is_over = self.times is not None and nth > self.times * self.every
        return nth % self.every == 0 and not is_over


@dataclass
class _Standing:
    rule: Rule
    num_fitting: int = 0

    def strikes_next(self, asked: tuple[str, str]) -> bool:
        if not _fits(asked, self.rule.method, self.rule.key):
            return False
        self.num_fitting += 1
        return self.rule.strikes(self.num_fitting)


class Book:
    """The rules that stand, and every request that came; threads may share it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._asked: list[tuple[str, str]] = []
        self._rules: list[_Standing] = []
        self._num_struck = 0

    @property
    def num_struck(self) -> int:
        """Return how many requests met with a fault."""
        with self._guard:
            return self._num_struck

    def count(self, method: str, key: str) -> int:
        """Return how many requests came that fit the patterns."""
        with self._guard:
            return sum(_fits(asked, method, key) for asked in self._asked)

    def add(self, rule: Rule) -> None:
        """Have a rule stand from the next request on."""
        with self._guard:
            self._rules.append(_Standing(rule))

    def clear(self) -> None:
        """Forget every rule, and no request."""
        with self._guard:
            self._rules.clear()

    def note(self, method: str, key: str) -> Fault | None:
        """Note a request and return what befalls it.

        Each rule that it fits counts it; of several that strike, the first is what befalls it.
        """
        asked = (method, key)
        with self._guard:
            self._asked.append(asked)
            struck = [standing.rule for standing in self._rules if standing.strikes_next(asked)]
            self._num_struck += bool(struck)
        return struck[0].fault if struck else None


def _fits(asked: tuple[str, str], *patterns: str) -> bool:
    return all(map(fnmatchcase, asked, patterns))
