"""Lists a dataset's files: those of a format below a folder, sorted by name."""

from __future__ import annotations

import re
from array import array
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from typing_extensions import override

from trainshed.data.sampler.file_tables import Compact, FileVersions, Texts, packed
from trainshed.data.sources.folder_walk import HIDDEN, files_below, legible, names_below
from trainshed.data.sources.opener import stamp_of
from trainshed.storage.addresses import is_remote, is_web
from trainshed.storage.folder import UNDERWAY
from trainshed_api.errors import Problem, SpecError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trainshed.storage.folder import Folder, Stored

# Empty objects may be folder marks, which a listing does not tell.
ASKED_AT_ONCE = 16
# TensorFlow's tools add this to the ending of sharded files.
_OF_SEVERAL = re.compile(r"-\d+-of-\d+$")


class Found(NamedTuple):
    """A file: its location, its name below the dataset's folder, and its size.

    Args:
        where: a path or an address.
        name: below the dataset's folder.
        bytes: its size.
    """

    where: str
    name: str
    bytes: int


class Listing(Compact[Found]):
    """The files of a dataset, sorted by name.

    Args:
        stored: the files, in any order.
        paths: of them, by their names; None for a path below `root` each.
        root: the dataset's folder.
    """

    def __init__(self, stored: Iterable[Stored], root: str, paths: str | None = None) -> None:
        names: list[str] = []
        columns = (array("q"), array("q"), array("q"))
        # On a disk the date is the version.
        has_dates = is_remote(root)
        for each in stored:
            names.append(each.name)
            stamp = stamp_of(each.bytes, each.version, each.modified if has_dates else 0)
            for column, value in zip(columns, stamp, strict=True):
                column.append(value)
        order = sorted(range(len(names)), key=names.__getitem__)
        num_bytes, versions, modified = (packed(np.asarray(each)[order]) for each in columns)
        self.names, self.num_bytes = Texts(names[place] for place in order), num_bytes
        self.paths = self.names.after(f"{root}/") if paths is None else Texts([paths])
        self.versions = FileVersions(num_bytes, versions, modified)

    @override
    def __len__(self) -> int:
        return len(self.names)

    @override
    def item(self, number: int) -> Found:
        where, name = self.paths.item(number), self.names.item(number)
        return Found(where, name, int(self.num_bytes[number]))


def files_of(at: Folder, kind: str, suffixes: Sequence[str], field: str) -> Listing:
    """Return a file, or the files of a folder at any depth with the format's endings.

    Args:
        at: a file or a folder.
        kind: the format, for errors.
        suffixes: file endings in lower case; empty for any file.
        field: the spec's field to name in errors.

    Raises:
        SpecError: if there is none, the folder is still being written, or a part of it is
            unreadable.
    """
    if is_web(str(at)):
        return _on_web(at, field)
    file = at.parent.stat(at.name) if at.name else None
    if file:
        return Listing(_named([file], field), str(at), str(at))
    endings = tuple(suffixes)

    def is_wanted(name: str) -> bool:
        return not endings or name.endswith(endings) or ending_of(name).endswith(endings)

    tree = _whole_tree(at, is_wanted, f"{field}.path")
    found = Listing(_named(tree, field), str(at))
    if not found:
        which = " or ".join(f"*{ending}" for ending in endings) or "any"
        expected = f"a folder with {which} files"
        if not at.exists():
            near = _nearest(at)
            there = f". Did you mean {at.parent}/{near}?" if near else ""
            expected = f"a {kind} file or folder that exists{there}"
        raise SpecError([Problem(f"{field}.path", str(at), expected)])
    return found


def _nearest(at: Folder) -> str | None:
    """Return the file or folder that a misspelled one is likely to mean."""
    with suppress(OSError):  # one may read a folder of a bucket without the one above it
        return nearest(at.name, at.parent.names()) if at.name else None
    return None


def _whole_tree(at: Folder, is_wanted: Callable[[str], bool], field: str) -> Iterable[Stored]:
    """Return the files below a folder that may have rows and have wanted names, in any order."""
    found: Iterable[Stored]
    if at.path is not None:
        found = files_below(str(at), is_wanted, field)
        is_underway = at.stat(UNDERWAY) is not None
    else:
        tree = at.tree()
        wanted = [each for each in tree if is_data(each.name) and is_wanted(each.name)]
        found = _without_folders(wanted, at)
        is_underway = any(each.name == UNDERWAY for each in tree)
    if is_underway:
        expected = f"a folder that is whole: its {UNDERWAY} says that it is not written to its end"
        raise SpecError([Problem(field, str(at), expected)])
    return found


def _without_folders(found: Sequence[Stored], at: Folder) -> Sequence[Stored]:
    """Remove the empty objects with which consoles of buckets mark folders.

    Their names end with a slash, which listings drop: other objects are below them, or nothing
    exists under the name without it.
    """
    if all(each.bytes for each in found):
        return found
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


def _named(found: Iterable[Stored], field: str) -> Iterator[Stored]:
    """Yield files; refuse names that are not UTF-8: rows, orders and checkpoints contain them."""
    for each in found:
        if not each.name.isascii():
            name = legible(each.name)
            if name != each.name:
                expected = "files with names in UTF-8"
                raise SpecError([Problem(f"{field}.path", name, expected)])
        yield each


def ending_of(name: str) -> str:
    """Return a name in lower case up to the ending of its format."""
    return _OF_SEVERAL.sub("", name.lower())


def _on_web(at: Folder, field: str) -> Listing:
    from trainshed.storage.bucket import Bucket
    from trainshed.storage.ranged_reads import (
        stored_on_web,  # imported late: disks need no client
    )

    assert isinstance(at, Bucket)
    file = stored_on_web(at)
    if file is None:
        raise SpecError([Problem(f"{field}.path", str(at), "the address of an existing file")])
    name = urlsplit(str(at)).path.rpartition("/")[2]
    return Listing([file._replace(name=name)], str(at), str(at))


def names_of(at: Folder, field: str) -> list[str]:
    """Return the names of the files of a folder that may have rows, in any format.

    Args:
        at: the folder.
        field: the spec's field to name in errors.

    Raises:
        SpecError: naming a folder without read permission.
    """
    if at.path is not None:
        return names_below(str(at), field)
    return [each.name for each in at.tree() if is_data(each.name)]


def is_data(name: str) -> bool:
    """Return whether a file below a dataset's folder may have rows, by its name."""
    return not (name.startswith(HIDDEN) or any(f"/{begin}" in name for begin in HIDDEN))
