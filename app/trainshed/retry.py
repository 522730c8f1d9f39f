"""Reading once more: what storage or the network did not give may be there a little later."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from trainshed.failures import is_passing

if TYPE_CHECKING:
    from collections.abc import Callable

Read = TypeVar("Read")


@dataclass(frozen=True)
class RetryPolicy:
    """How often something is read again, and how long is waited before.

    Args:
        pauses: seconds before each further try.
        rest: waits for so many seconds.
    """

    pauses: tuple[float, ...] = (1.0, 4.0, 16.0)
    rest: Callable[[float], None] = time.sleep

    def read(self, read: Callable[[], Read]) -> Read:
        """Return what a read returns; its last error where all tries fail, others at once."""
        for pause in self.pauses:
            try:
                return read()
            except FileNotFoundError:
                raise
            except (OSError, RuntimeError) as error:  # torch's reader has only the latter
                if not is_passing(error):
                    raise
            self.rest(pause)
        return read()


READS = RetryPolicy()
