"""Which files a dataset has: those of a format below a folder, in the order of their names."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from trainshed.records.addresses import is_remote, is_web
from trainshed.records.storage import UNDERWAY
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.records.storage import Folder, Stored

# Empty objects, of which a listing does not tell whether they are files.
ASKED_AT_ONCE = 16
# What TensorFlow's tools put behind the ending of one file of several.
_OF_SEVERAL = re.compile(r"-\d+-of-\d+$")


class Found(NamedTuple):
    """A file: where it lies, its name below the dataset's folder, and its content.

    Args:
        where: a path or an address.
        name: below the dataset's folder.
        bytes: its size.
        version: of its content, where that is known.
        modified: seconds since 1970, of a store.
    """

    where: str
    name: str
    bytes: int
    version: str = ""
    modified: float = 0

    @classmethod
    def of(cls, where: str, name: str, stored: Stored) -> Found:
        """Return a file that a listing has; of a disk the date is its version."""
        modified = stored.modified if is_remote(where) else 0
        return cls(where, name, stored.bytes, stored.version, modified)


def files_of(at: Folder, kind: str, suffixes: Sequence[str], field: str) -> list[Found]:
    """Return a file, or the files of a folder at any depth that end as files of the format do.

    Args:
        at: a file or a folder.
        kind: the format, for errors.
        suffixes: how its files end, in small letters; none for any file.
        field: the spec's field to name in errors.

    Raises:
        SpecError: when there is none, or the folder is still being written.
    """
    if is_web(str(at)):
        return [_on_web(at, field)]
    file = at.parent.stat(at.name) if at.name else None
    if file:
        return _named([Found.of(str(at), file.name, file)], field)
    endings, root, tree = tuple(suffixes), str(at), at.tree()
    if any(each.name == UNDERWAY for each in tree):
        want = f"a folder that is whole: its {UNDERWAY} says that it is not written to its end"
        raise SpecError([Problem(f"{field}.path", str(at), want)])
    found = [
        Found.of(f"{root}/{each.name}", each.name, each)
        for each in tree
        if is_data(each.name) and (not endings or ending_of(each.name).endswith(endings))
    ]
    if at.path is None:
        found = _without_folders(found, at)
    if not found:
        which = " or ".join(f"*{ending}" for ending in endings) or "any"
        want = (
            f"a folder with {which} files"
            if at.exists()
            else f"a {kind} file or folder that exists"
        )
        raise SpecError([Problem(f"{field}.path", str(at), want)])
    return _named(found, field)


def _without_folders(found: Sequence[Found], at: Folder) -> list[Found]:
    """Leave out the empty objects by which consoles of buckets mark folders.

    Their names end with a slash, which listings do not tell: others lie below them, or nothing is
    there under the name without it.
    """
    if all(each.bytes for each in found):
        return list(found)
    above: set[str] = set()
    for each in found:
        folder = each.name.rpartition("/")[0]
        while folder and folder not in above:
            above.add(folder)
            folder = folder.rpartition("/")[0]
    doubtful = [each.name for each in found if not (each.bytes or each.name in above)]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        there = {each.name for each in pool.map(at.stat, doubtful) if each is not None}
    return [each for each in found if each.bytes or each.name in there]


def _named(found: list[Found], field: str) -> list[Found]:
    """Refuse names that cannot be written down: rows, orders and checkpoints have them."""
    for each in found:
        if not each.name.isascii():
            name = each.name.encode(errors="surrogateescape").decode(errors="backslashreplace")
            if name != each.name:
                want = "files with names in UTF-8"
                raise SpecError([Problem(f"{field}.path", name, want)])
    return found


def ending_of(name: str) -> str:
    """Return a name in small letters up to the end that tells its format."""
    return _OF_SEVERAL.sub("", name.lower())


def _on_web(at: Folder, field: str) -> Found:
    from trainshed.records.bucket import Bucket
    from trainshed.records.ranges import stored_on_web  # not before: who has a disk needs no client

    assert isinstance(at, Bucket)
    file = stored_on_web(at)
    if file is None:
        raise SpecError([Problem(f"{field}.path", str(at), "the address of a file that is there")])
    name = urlsplit(str(at)).path.rpartition("/")[2]
    return Found.of(str(at), name, file)


def is_data(name: str) -> bool:
    """Say whether a file below a dataset's folder has rows, by its name."""
    # Spark, Hive and Dask keep what is unfinished or not data under names with _ or a dot.
    return not (name.startswith(("_", ".")) or "/_" in name or "/." in name)
