"""Where a tool is: on PATH, in the cache, or put there now, by one process at a time."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from hack.tools.pins import Release, release_of
from hack.tools.sources import UnavailableError, build, download

_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+)")


class ToolMissingError(Exception):
    """A tool that is nowhere and cannot be had; the message is one line."""


@cache
def find(tool: str) -> Path:
    """Return the path of a tool, fetching or building it first if need be (minutes, once).

    Raises ToolMissingError when that cannot be done on this machine.
    """
    release = release_of(tool)
    if (path := _on_path(tool, release)) is not None:
        return path
    cached = cache_folder() / f"{tool}-{release.version}"
    if not cached.exists():
        with _locked(release):
            if not cached.exists():  # another process may have been faster
                _provide(tool, release, cached)
    return cached


def cache_folder() -> Path:
    """Return the folder outside of the tree that keeps what was fetched or built."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "trainshed" / "tools"


def _on_path(tool: str, release: Release) -> Path | None:
    path = shutil.which(tool)
    if path is None or release.accepts is None:
        return None
    try:
        answer = subprocess.run(
            [path, *release.ask], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stdout + answer.stderr)
    return Path(path) if found and release.accepts.holds(found[1]) else None


@contextmanager
def _locked(release: Release) -> Iterator[None]:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{release.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _provide(tool: str, release: Release, to: Path) -> None:
    reasons = []
    # A temporary name until it is complete: a killed process leaves no broken tool.
    part = to.with_name(f".{to.name}.part")
    for source in (download, build):
        try:
            source(tool, release, part)
        except UnavailableError as trouble:
            reasons.append(str(trouble))
            part.unlink(missing_ok=True)
            continue
        part.chmod(0o755)
        part.rename(to)
        print(f"{tool} {release.version} is ready", file=sys.stderr)
        return
    raise ToolMissingError(f"{tool} {release.version} is not here: {'; '.join(reasons)}")
