"""`spec.code` on this machine: its folder becomes the working one, its packages must be there.

In a Ray job Ray has brought both before the driver started, but for what lies in a bucket: that the
driver fetches itself, with the client and the credentials of its storage.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

import trainshed_api
from trainshed.failures import InfrastructureError
from trainshed.planning.code_archive import FIELD, MOST_BYTES, check_name
from trainshed.retry import READS
from trainshed.storage.addresses import open_folder
from trainshed_api.errors import Problem, SpecError, show_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed_api.code import CodeSpec

# Our own code has a version, and installed packages have theirs.
_NOT_THE_USERS = (Path(__file__).parents[1], Path(trainshed_api.__file__).parent)
_INSTALLED = {"site-packages", "dist-packages"}
# Code that is ten times as large unpacked is none.
MOST_UNPACKED = 10 * MOST_BYTES


def enter(code: CodeSpec, beside: Path) -> None:
    """Go to the run's working directory, where its modules are imported from.

    Args:
        code: of the spec.
        beside: the folder of the TrainingRun file.

    Raises:
        SpecError: when it is not here, or packages are missing.
    """
    problems = _find_missing(code.pip)
    folder = local_folder(code, beside)
    if code.is_remote:
        expected = "a local folder; an address is for a run in a cluster"
        problems.append(Problem(FIELD, show_value(code.working_dir), expected))
    if problems:
        raise SpecError(problems)
    if folder:
        os.chdir(folder)


def local_folder(code: CodeSpec, beside: Path) -> Path | None:
    """Return the working directory that is on this machine; None where none is named.

    Raises:
        SpecError: when it is no folder.
    """
    if code.working_dir is None or code.is_remote:
        return None
    folder = beside / code.working_dir
    if not folder.is_dir():
        expected = f"a folder: {folder} is none"
        raise SpecError([Problem(FIELD, show_value(code.working_dir), expected)])
    return folder


def fetch(code: CodeSpec) -> Path | None:
    """Download code from a bucket and enter its folder; None if it is not in a bucket.

    Raises:
        SpecError: when it is not there, or no archive.
    """
    if not code.is_in_bucket:
        return None
    where, _, name = str(code.working_dir).rpartition("/")
    folder = Path(tempfile.mkdtemp(prefix="trainshed-code-"))
    archive = folder.with_suffix(".zip")
    try:
        READS.read(lambda: open_folder(where).fetch(name, archive))
        check_name(name, archive)
        with zipfile.ZipFile(archive) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > MOST_UNPACKED:
                raise ValueError(f"it unpacks to more than {MOST_UNPACKED >> 20} MiB")
            packed.extractall(folder)
            for entry in packed.infolist():
                if mode := (entry.external_attr >> 16) & 0o777:  # left out by zipfile
                    (folder / entry.filename).chmod(mode | 0o600)
    except PermissionError as error:  # what ends may be renewed
        raise InfrastructureError(f"{FIELD}: {error}", "storage") from error
    except (FileNotFoundError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        expected = f"a .zip that this cluster can read ({error})"
        raise SpecError([Problem(FIELD, show_value(code.working_dir), expected)]) from error
    finally:
        archive.unlink(missing_ok=True)
    # An archive of a repository has one folder around all, which Ray leaves out, too.
    inside = list(folder.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        folder = inside[0]
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    return folder


def digests(folder: Path, command: Sequence[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of each file of the user's code, by its path below a folder.

    That is what this process has imported from there, and what the words of a command name. What
    only a worker imports is not known here.
    """
    names = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = [Path(name) for name in names if name and name.startswith(f"{folder}{os.sep}")]
    files += [file for word in command if (file := folder / word).is_relative_to(folder)]
    found: dict[str, str] = {}
    for file in sorted(set(files)):
        is_ours = any(file.is_relative_to(package) for package in _NOT_THE_USERS)
        is_installed = file == Path(sys.executable) or _INSTALLED & set(file.parts)
        if not (is_ours or is_installed) and (digest := _digest(file)):
            found[file.relative_to(folder).as_posix()] = digest
    return found


def changed(before: Mapping[str, str], folder: Path) -> list[str]:
    """Return the files below a folder that are not what they were.

    Files that are not there are left out: the command may run in another folder.
    """
    return [name for name, digest in before.items() if _digest(folder / name) not in (None, digest)]


def _digest(file: Path) -> str | None:
    """Return the SHA-256 of a file; None where there is none that can be read."""
    try:
        if not file.is_file():
            return None
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except (OSError, ValueError):  # a word of a command may be no path at all
        return None


def _find_missing(requirements: Sequence[str]) -> list[Problem]:
    problems = []
    for index, text in enumerate(requirements):
        field = f"spec.code.pip[{index}]"
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            problems.append(Problem(field, show_value(text), "a requirement such as einops==0.8"))
            continue
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            there = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            there = None
        if there is None or not requirement.specifier.contains(there, prereleases=True):
            has = f"version {there} is" if there else "it is not"
            expected = f"it on this machine, where {has} installed: pip install '{text}'"
            problems.append(Problem(field, show_value(text), expected))
    return problems
