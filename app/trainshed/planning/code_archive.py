"""Packs a folder of code into one archive, named by a hash of its content."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIELD = "spec.code.workingDir"
# Ray, which sends it to the nodes, refuses more than 500 MiB (packaging.py, GCS_STORAGE_MAX_SIZE).
MOST_BYTES = 200 * 2**20
_NEVER = {".git", "__pycache__", ".venv", ".trainshed", ".mypy_cache", ".pytest_cache"}
# What is mostly a key or a password; who needs one in a run has a Secret for it.
_KEYS = (".env*", "*.pem", "*.key", "id_*", ".ssh", ".aws", ".kube", ".netrc")
_NAMED = re.compile(r"[0-9a-f]{64}\.zip")
# The first that zip can write: when a file was changed says nothing about what is in it.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class CodeArchive:
    """An archive.

    Args:
        name: of it, by its content.
        content: the .zip.
        files: how many are in it.
    """

    name: str
    content: bytes
    files: int


def pack(folder: Path) -> CodeArchive:
    """Return a folder as an archive; what git ignores and what looks like a key is left out.

    Raises:
        SpecError: when there is nothing to pack, more than is sent, or a link out of the folder.
    """
    files = sorted(_files(folder))
    size = sum(file.stat().st_size for file in files)
    if not files:
        raise SpecError([Problem(FIELD, str(folder), "a folder with files")])
    if size > MOST_BYTES:
        largest = max(files, key=lambda file: file.stat().st_size).relative_to(folder)
        expected = (
            f"at most {MOST_BYTES >> 20} MiB of code, it has {size >> 20} (the largest file is "
            f"{largest}); .gitignore leaves files out"
        )
        raise SpecError([Problem(FIELD, str(folder), expected)])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _DATE)
            entry.external_attr = 0o755 << 16
            packed.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    content = archive.getvalue()
    return CodeArchive(f"{hashlib.sha256(content).hexdigest()}.zip", content, len(files))


def check_name(name: str, archive: Path) -> None:
    """Refuse an archive that is not the one of its name: somebody has put another there.

    Raises:
        ValueError: saying so; one of a name that tells nothing is taken.
    """
    if _NAMED.fullmatch(name):
        with archive.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if name != f"{found}.zip":
            raise ValueError("its content is another than `trainshed apply` has put there")


def _files(folder: Path) -> Iterator[Path]:
    named = _known_to_git(folder)
    for file in folder.rglob("*"):
        parts = file.relative_to(folder).parts
        if not file.is_file() or _NEVER & set(parts) or not (named is None or file in named):
            continue
        if any(fnmatch(part, pattern) for part in parts for pattern in _KEYS):
            continue
        if not file.resolve().is_relative_to(folder.resolve()):
            expected = f"no links out of the folder: {file.relative_to(folder)} is one"
            raise SpecError([Problem(FIELD, str(folder), expected)])
        yield file


def _known_to_git(folder: Path) -> set[Path] | None:
    """Return the files that git does not ignore; None where it is no repository of git's.

    Raises:
        SpecError: where it is one and git does not say: what it ignores may be keys.
    """
    around = (folder.resolve(), *folder.resolve().parents)
    if not any((place / ".git").exists() for place in around):
        return None
    command = ["git", "-C", str(folder), "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        expected = "git here, which says what of a repository is not to be sent"
        raise SpecError([Problem(FIELD, str(folder), expected)]) from error
    except subprocess.CalledProcessError as error:
        expected = f"a repository that git reads: {error.stderr.decode(errors='replace').strip()}"
        raise SpecError([Problem(FIELD, str(folder), expected)]) from error
    return {folder / name for name in listed.decode().split("\0") if name}
