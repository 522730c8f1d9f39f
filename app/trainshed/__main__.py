"""The command `trainshed`, also as `python -m trainshed` where no script need be on the PATH.

Importing a command takes up to a second. A signal before that ends the process in one line.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from trainshed.attempt.signals import REASONS

if TYPE_CHECKING:
    from types import FrameType


def main() -> None:
    """Run the command line and exit."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    for number in REASONS:
        signal.signal(number, _end)
    from trainshed.cli.main import main as run_command

    # Once it is imported, a command cleans up after Ctrl-C.
    run_command(lambda: signal.signal(signal.SIGINT, on_interrupt))


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - Python's signature
    os.write(2, f"{REASONS[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


if __name__ == "__main__":
    main()
