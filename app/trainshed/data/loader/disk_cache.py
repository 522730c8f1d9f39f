"""Caches a dataset as parquet on the run's storage: one file per fragment, in order.

Rows of files are made once for all attempts with the same code, and an attempt that was stopped
while it made them leaves those that it has to the next. Rows of functions and groups are reused by
attempts that resume from a checkpoint only, as a function may return others. Other code makes the
rows again, except in the middle of an epoch, whose rows must not change.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

from trainshed.data.loader import ray_datasets
from trainshed.data.loader.grouped import made_whole
from trainshed.data.loader.object_store_cache import CachedBlocks
from trainshed.data.sampler.fragments import Fragment
from trainshed.storage.run_folder import ROWS_LIST
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.storage.folder import Folder

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DiskCache:
    """The cache of an attempt on the run's storage, one folder per dataset.

    Args:
        folder: of the attempt.
        earlier: folders of the attempts that this one goes on with, newest first.
        code: identity of the code that makes the rows, from `spec.code`.
        is_resumed: whether the attempt resumes from a checkpoint.
        of_same_code: those of `earlier` that ran the same files of the user's code.
    """

    folder: Folder
    earlier: tuple[Folder, ...] = ()
    code: str = ""
    is_resumed: bool = True
    of_same_code: tuple[Folder, ...] = ()

    def folders(self, plan: DatasetPlan) -> tuple[Folder, ...]:
        """Return the folders in which all rows of a dataset may be."""
        if self.is_resumed:
            return (self.folder, *self.earlier)
        return (self.folder, *(() if plan.is_made_whole else self.of_same_code))


class KeptFile(Record):
    """A file of rows: its folder below the dataset's, its rows, row groups and bytes."""

    name: str
    rows: int
    groups: int
    bytes: int


class KeptFiles(Record):
    """All files in order, and the identity of their source."""

    identity: str
    code: str = ""  # unknown for caches of earlier releases
    files: tuple[KeptFile, ...]


def kept_on(disk_cache: DiskCache, plan: DatasetPlan, warn: Callable[[str], None]) -> CachedBlocks:
    """Return the files of a dataset, making them if they do not exist.

    Args:
        disk_cache: the cache.
        plan: of the dataset.
        warn: reports problems that do not end the run.
    """
    identity = _identity(plan)
    for folder in disk_cache.folders(plan):
        found = _found(folder / plan.name, identity)
        if found and found.code != disk_cache.code:
            if not (plan.kept and plan.kept.under_way):
                continue
            warn(
                f"{plan.field}.cache: rows that were cached with other code ({found.code}) stay, "
                "because an epoch of them is in progress; an attempt that resumes from the end of "
                "an epoch makes them again"
            )
        if found:
            return _as_blocks(folder / plan.name, found)
    started = time.perf_counter()
    digest = hashlib.sha256(f"{identity} {disk_cache.code}".encode()).hexdigest()
    parents = [each / plan.name for each in (disk_cache.folder, *disk_cache.of_same_code)]
    folder, files = _made(plan, parents, f"part-{digest[:16]}-")
    made = KeptFiles(identity=identity, code=disk_cache.code, files=files)
    folder.delete(ROWS_LIST)  # the files are damaged
    folder.create(ROWS_LIST, made.to_line().encode())
    rows, seconds = sum(file.rows for file in made.files), time.perf_counter() - started
    logger.info("%s: %d rows kept in %s in %.2f s", plan.name, rows, folder, seconds)
    return _as_blocks(folder, made)


def _as_blocks(folder: Folder, found: KeptFiles) -> CachedBlocks:
    fragments = [
        Fragment(
            f"{folder}/{file.name}/{ray_datasets.ROWS_FILE}",
            number,
            tuple(range(file.groups)),
            file.rows,
            file.bytes,
        )
        for number, file in enumerate(found.files)
    ]
    counts = np.asarray([file.rows for file in found.files], dtype=np.int64)
    return CachedBlocks((), counts, files=tuple(fragments))


def _identity(plan: DatasetPlan) -> str:
    """Return a digest of the sources of the rows, as far as names identify them."""
    source = plan.source
    made_of = [
        source.fingerprint if source else repr(plan.use),
        repr(source.scan if source else None),
        repr(plan.spec.read.columns),
        repr(plan.transforms),
    ]
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()


def _found(folder: Folder, identity: str) -> KeptFiles | None:
    try:
        found = KeptFiles.model_validate_json(folder.read(ROWS_LIST))
    except (FileNotFoundError, ValidationError):
        return None
    return found if found.identity == identity and _are_whole(folder, found.files) else None


def _are_whole(folder: Folder, files: Sequence[KeptFile]) -> bool:
    there = {each.name: each.bytes for each in folder.tree()}
    for file in files:
        name = f"{file.name}/{ray_datasets.ROWS_FILE}"
        if there.get(name) != file.bytes:
            has = there.get(name, "none")
            logger.warning("%s/%s has %s bytes of %d", folder, name, has, file.bytes)
            return False
    return True


def _made(
    plan: DatasetPlan, folders: Sequence[Folder], prefix: str
) -> tuple[Folder, tuple[KeptFile, ...]]:
    """Make the files in the first folder, or those that an earlier attempt lacks in its own."""
    folder, written, made = folders[0], dict[int, str](), None
    if plan.is_made_whole:
        made = made_whole(plan)
    else:
        for each in folders:
            for name in each.names():
                if name.startswith(prefix):
                    written[int(name.removeprefix(prefix).split("-")[0])] = name
            if written:
                folder = each
                break
    dataset = ray_datasets.kept_dataset(plan, made, folder, prefix, written)
    return folder, tuple(
        KeptFile(**{**row, "name": str(row["name"])}) for row in dataset.iter_rows()
    )
