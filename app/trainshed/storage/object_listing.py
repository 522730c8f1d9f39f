"""Lists the objects of a bucket, in parallel below many folders if there are many objects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING

import obstore

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

# Objects per response; no store returns more.
PAGE = 1000
# Each folder costs at least one request: more folders would cost more than they save.
MOST_FOLDERS, AT_ONCE = 1000, 16
# Maximum depth of nested folders without siblings.
_DEPTH = 3


def list_objects(client: ObjectStore, key: str) -> list[ObjectMeta]:
    """Return all objects below a folder, in no order.

    Args:
        client: of the bucket.
        key: of the folder; empty for the bucket itself.
    """
    pages = iter(obstore.list(client, key or None, chunk_size=PAGE))
    first = list(next(pages, ()))
    if len(first) < PAGE:
        return first
    beside, folders = _folders_of(client, key)
    if not 1 < len(folders) <= MOST_FOLDERS:
        # A page starts where the previous one ends, so pages are sequential.
        return [*first, *chain.from_iterable(pages)]

    def all_below(folder: str) -> list[ObjectMeta]:
        return list(chain.from_iterable(obstore.list(client, folder, chunk_size=PAGE)))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [*beside, *chain.from_iterable(pool.map(all_below, folders))]


def _folders_of(client: ObjectStore, key: str) -> tuple[list[ObjectMeta], list[str]]:
    """Return the first folders with siblings, and the objects beside and above them."""
    beside: list[ObjectMeta] = []
    folders = [key]
    for _ in range(_DEPTH):
        found = obstore.list_with_delimiter(client, folders[0] or None)
        beside += found["objects"]
        folders = list(found["common_prefixes"])
        if len(folders) != 1:
            break
    return beside, folders
