"""A dataset kept as parquet on the run's storage: a file for each fragment, in its order.

What was kept is read again by an attempt that goes on from a checkpoint: a function may return
other rows the next time. One that begins anew makes it anew, and so does one with other code, but
in the middle of an epoch, whose rows must stay what they are.
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
    """Where an attempt keeps rows on the run's storage, a folder for each dataset.

    Args:
        folder: of the attempt.
        earlier: those of attempts before it, the last one first, where it goes on with their rows.
        code: with which it makes rows, as `spec.code` names it.
    """

    folder: Folder
    earlier: tuple[Folder, ...] = ()
    code: str = ""


class KeptFile(Record):
    """A file of rows: its folder below the dataset's, its rows, its row groups, its bytes."""

    name: str
    rows: int
    groups: int
    bytes: int


class KeptFiles(Record):
    """All of them in their order, and what they were made of."""

    identity: str
    code: str = ""  # of what an earlier release kept nobody knows it
    files: tuple[KeptFile, ...]


def kept_on(shelf: DiskCache, plan: DatasetPlan, warn: Callable[[str], None]) -> CachedBlocks:
    """Return the files of a dataset; they are made where they are not there.

    Args:
        shelf: where they lie.
        plan: of the dataset.
        warn: says what does not end the run.
    """
    identity = _identity(plan)
    for folder in (shelf.folder, *shelf.earlier):
        found = _found(folder / plan.name, identity)
        if found and found.code != shelf.code:
            if not (plan.kept and plan.kept.under_way):
                continue
            warn(
                f"{plan.field}.cache: rows that were kept with other code ({found.code}) stay, as "
                "an epoch of them is under way: they are made anew by an attempt that goes on "
                "from an epoch's end"
            )
        if found:
            return _as_blocks(folder / plan.name, found)
    folder, started = shelf.folder / plan.name, time.perf_counter()
    made = KeptFiles(identity=identity, code=shelf.code, files=_made(plan, folder))
    folder.delete(ROWS_LIST)  # of files that are damaged
    folder.create(ROWS_LIST, made.to_line().encode())
    rows, seconds = sum(file.rows for file in made.files), time.perf_counter() - started
    logger.info("%s: %d rows kept in %s in %.2f s", plan.name, rows, folder, seconds)
    return _as_blocks(folder, made)


def _as_blocks(folder: Folder, found: KeptFiles) -> CachedBlocks:
    counts = np.asarray([file.rows for file in found.files], dtype=np.int64)
    return CachedBlocks((), counts, files=_fragments(folder, found.files))


def _fragments(folder: Folder, files: Sequence[KeptFile]) -> tuple[Fragment, ...]:
    return tuple(
        Fragment(
            f"{folder}/{file.name}/{ray_datasets.ROWS_FILE}",
            number,
            tuple(range(file.groups)),
            file.rows,
            file.bytes,
        )
        for number, file in enumerate(files)
    )


def _identity(plan: DatasetPlan) -> str:
    """Return a digest of what the rows are made of, as far as names tell."""
    source = plan.source
    made_of = [
        source.fingerprint if source else repr(plan.use),
        repr(source.scan if source else None),
        repr(plan.columns),
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


def _made(plan: DatasetPlan, folder: Folder) -> tuple[KeptFile, ...]:
    if plan.is_made_whole:
        kept = ray_datasets.kept_blocks(plan, made_whole(plan), folder)
    else:
        kept = ray_datasets.kept_fragments(plan, folder)
    rows = kept.iter_rows()
    return tuple(KeptFile(**{**row, "name": str(row["name"])}) for row in rows)
