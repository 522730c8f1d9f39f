"""Commands of other programs: what they say goes into a log, and to people when they fail."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.images.failure import ImageError

_NUM_LAST_LINES = 20


@dataclass(frozen=True)
class Commands:
    """Where commands keep temporary files and logs."""

    logs: Path
    # Layers of gigabytes pass through here: not through /tmp, which may be memory.
    temporary: Path

    def run(self, name: str, command: Sequence[str | Path], folder: Path | None = None) -> None:
        """Run a command to its end. Raises ImageError with its last lines when it fails."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.temporary.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        with log.open("wb") as output:
            ended = subprocess.run(
                [str(word) for word in command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(self.temporary)},
                check=False,
            )
        if ended.returncode:
            lines = log.read_text(errors="replace").splitlines()[-_NUM_LAST_LINES:]
            raise ImageError("\n".join([f"{name} failed ({log}):", *lines]))


def succeeds(*command: str) -> bool:
    """Return whether a command that says nothing of interest ends well."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def check_programs(needed: dict[str, str]) -> None:
    """Raise ImageError, naming Debian's packages, for programs that are missing."""
    missing = sorted({needed[name] for name in needed if shutil.which(name) is None})
    if missing:
        raise ImageError(
            f"without a running docker, images need: apt-get install {' '.join(missing)}"
        )
