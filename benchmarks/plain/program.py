"""How a side runs as a program: it takes its options and leaves what it found as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def start(main: Callable[..., object]) -> None:
    """Call main with the options of the command line, and write what it returns to a file."""
    options, out = sys.argv[1:]
    Path(out).write_text(json.dumps(main(**json.loads(options))), encoding="utf-8")
