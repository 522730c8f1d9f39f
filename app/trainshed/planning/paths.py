"""Where the paths and addresses of a spec lead to."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.data.sources.opener import without_anonymous
from trainshed.failures import InfrastructureError
from trainshed.retry import READS
from trainshed.storage.addresses import (
    is_web,
    open_folder,
    open_web,
    reached,
    shown,
)
from trainshed.storage.disk import Disk
from trainshed.storage.store_options import AS_USUAL, StoreOptions
from trainshed_api.errors import Problem, SpecError
from trainshed_api.names import ENV_HOME, ENV_SCRATCH
from trainshed_api.quantity import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.storage.folder import Folder
    from trainshed_api.rows import ReadSpec

# How the variables begin that the clients of S3, GCS and Azure obey.
_OF_CLIENTS = ("AWS_", "GOOGLE_", "AZURE_")


# Datasets that `trainshed data sample` writes, which the manifests name.
SAMPLES = (
    "animals",
    "books",
    "cifar10",
    "clicks",
    "digits",
    "flights",
    "flights-of-may",
    "letters",
    "messages",
    "orders",
    "shards",
    "vectors",
    "visits",
    "web",
    "words",
)


def home_of(file: Path) -> Folder:
    """Return what relative paths of a file lie under: TRAINSHED_HOME, or the file's folder.

    Raises:
        SpecError: for a TRAINSHED_HOME that is neither a path nor a bucket's address.
    """
    home = os.environ.get(ENV_HOME)
    return locate(home, Disk(Path.cwd()), ENV_HOME) if home else Disk(file.absolute().parent)


def locate(text: str, home: Folder, field: str) -> Folder:
    """Return the folder that a spec means: an address, a path, or one below `home`.

    Raises:
        SpecError: for an address of a kind that is not known.
    """
    if "://" not in text:
        path = Path(text)
        if home.path or path.is_absolute():
            return Disk((home.path or path) / path)
        if ".." in path.parts:
            raise SpecError([Problem(field, text, "a path below the address of TRAINSHED_HOME")])
        return home / path.as_posix() if path.parts else home
    try:
        return open_folder(text)
    except ValueError as error:
        got = None if "@" in text else text  # it may be a key
        raise SpecError([Problem(field, got, str(error))]) from error


def locate_source(
    text: str, home: Folder, field: str, store_options: StoreOptions = AS_USUAL
) -> Folder:
    """Return where a dataset lies: as `locate` does, or a file on the web.

    Args:
        text: a path or an address.
        home: what a relative path lies under.
        field: the spec's field of the path.
        store_options: of its store.

    Raises:
        SpecError: for an address of a kind that is not known.
    """
    if is_web(text):
        try:
            return open_web(text)
        except ValueError as error:
            got = None if "@" in text else shown(text)
            raise SpecError([Problem(field, got, str(error))]) from error
    address = without_anonymous(text)
    if address != text:
        store_options = replace(store_options, is_anonymous=True)
    return reached(locate(address, home, field), store_options)


def check_sample(text: str, home: Folder, field: str) -> None:
    """Refuse the path of a sample dataset that nobody has written.

    Raises:
        SpecError: naming the command that writes it.
    """
    name = Path(text).parts[0] if text else ""
    if name in SAMPLES and not (home / name).exists():
        expected = (
            f"a sample dataset that exists. Write it: trainshed data sample {name} --to {home}"
        )
        raise SpecError([Problem(field, text, expected)])


def check_cache(read: ReadSpec, field: str) -> None:
    """Refuse a file cache that fills the disk limit of a Pod.

    Raises:
        SpecError: naming the most that it may be.
    """
    limit = os.environ.get(ENV_SCRATCH)
    if not (read.local_cache and limit):
        return
    most = parse_bytes(limit) // 2
    if parse_bytes(read.local_cache) > most:
        expected = f"at most {most // 2**20}Mi, half of scratch.tmp, where Ray also spills"
        raise SpecError([Problem(f"{field}.localCache", read.local_cache, expected)])


def check_environment(folder: Folder, env: Mapping[str, str]) -> None:
    """Refuse variables of a run that its workers' client of a bucket would obey, and no other.

    Raises:
        SpecError: naming them.
    """
    if folder.path:
        return
    expected = (
        "no value: set it for the Pods or on this machine, because the driver does not read "
        f"spec.env and would not find {folder}"
    )
    problems = [
        Problem(f"spec.env.{name}", "a variable of the bucket's client", expected)
        for name in env
        if name.startswith(_OF_CLIENTS)
    ]
    if problems:
        raise SpecError(problems)


def check_storage(folder: Folder) -> None:
    """Refuse storage that a run could not write to, without leaving anything there.

    Raises:
        SpecError: naming what stands in the way.
        InfrastructureError: when a bucket does not answer, or not to these credentials: it may
            later.
    """
    if folder.path:
        there = _there(folder.path)
        if not there.is_dir():
            raise SpecError([Problem("spec.storage", str(there), "a folder; this is a file")])
        if not os.access(there, os.W_OK | os.X_OK):
            raise SpecError([Problem("spec.storage", str(there), "a folder that you may write to")])
        return
    from trainshed.storage.store_client import NoBucketError  # not before: a disk needs no client

    try:
        fences = READS.read(lambda: _fences(folder))
    except NoBucketError as error:
        expected = f"an existing bucket ({error})"
        raise SpecError([Problem("spec.storage", str(folder), expected)]) from error
    except OSError as error:
        raise InfrastructureError(
            f"spec.storage: {folder}: {error.strerror or error}", "storage"
        ) from error
    if not fences:
        expected = (
            "a store that supports If-None-Match, as S3 does since 2024. Without it two "
            "drivers could run one attempt"
        )
        raise SpecError([Problem("spec.storage", str(folder), expected)])


def num_free(folder: Folder) -> int | None:
    """Return the bytes that are free where a folder is or will be; None in a bucket."""
    return shutil.disk_usage(_there(folder.path)).free if folder.path else None


def _there(path: Path) -> Path:
    """Return the part of a path that exists."""
    while not path.exists():
        path = path.parent
    return path


def _fences(folder: Folder) -> bool:
    """Say whether an existing file is refused, not overwritten."""
    probe = f".probe-{uuid.uuid4().hex}"
    folder.create(probe, b"one")
    try:
        folder.create(probe, b"another")
    except FileExistsError:
        return True
    finally:
        folder.delete(probe)
    return False
