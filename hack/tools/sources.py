"""The two ways to get a tool that is not here: the official file, or a build from its sources."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from hack.tools.pins import Release, this_platform

# No answer within this is no internet; the download itself may take longer.
_CONNECT_SECONDS = 10
_PIECE_BYTES = 1 << 20


class UnavailableError(Exception):
    """This way does not lead to the tool here; the message says why in half a sentence."""


def download(tool: str, release: Release, to: Path) -> None:
    """Write the official file of a tool, after its checksum matched."""
    expected = release.checksum(tool)
    if expected is None:
        raise UnavailableError(f"no checksum of an official file is known for {this_platform()}")
    url = release.fill(release.url, tool)
    fetched = to.with_suffix(".fetched")
    try:
        found = _fetch(url, fetched)
        if found != expected:
            raise UnavailableError(f"{url} has sha256 {found}; expected {expected}")
        if release.member:
            _extract(fetched, release.fill(release.member, tool), to)
        else:
            fetched.rename(to)
    finally:
        fetched.unlink(missing_ok=True)


def _fetch(url: str, to: Path) -> str:
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=_CONNECT_SECONDS) as answer, to.open("wb") as file:
            while piece := answer.read(_PIECE_BYTES):
                digest.update(piece)
                file.write(piece)
    except OSError as trouble:  # what urllib raises derives from it
        reason = getattr(trouble, "reason", trouble)
        raise UnavailableError(f"{urlsplit(url).hostname} does not answer ({reason})") from trouble
    return digest.hexdigest()


def _extract(archive: Path, member: str, to: Path) -> None:
    with tarfile.open(archive) as tar:
        try:
            source = tar.extractfile(member)
        except KeyError:
            source = None
        if source is None:
            raise UnavailableError(f"the official archive has no {member}")
        with source, to.open("wb") as file:
            shutil.copyfileobj(source, file)


def build(tool: str, release: Release, to: Path) -> None:
    """Compile a tool from the modules that go.sum pins."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise UnavailableError("Go is not installed (https://go.dev/doc/install)")
    stamps = " ".join(f"-X {release.fill(stamp, tool)}" for stamp in release.stamp)
    print(f"Building {tool} {release.version} (minutes, the first time)", file=sys.stderr)
    outcome = subprocess.run(
        [
            *(go, "build", "-trimpath", "-buildvcs=false", f"-ldflags=-s -w {stamps}"),
            *("-o", str(to), release.packages[tool]),
        ],
        cwd=release.module_folder,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        last = outcome.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UnavailableError(f"go build failed: {last[0]}")
