"""Which files a dataset has: those of a format below a folder, in the order of their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from trainshed.records.storage import UNDERWAY
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.records.storage import Folder

# What TensorFlow's tools put behind the ending of one file of several.
_OF_SEVERAL = re.compile(r"-\d+-of-\d+$")


class Found(NamedTuple):
    """A file: where it lies, its name below the dataset's folder, its size."""

    where: str
    name: str
    bytes: int


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
    file = at.parent.stat(at.name) if at.name else None
    if file:
        return [Found(str(at), file.name, file.bytes)]
    endings, tree = tuple(suffixes), at.tree()
    if any(each.name == UNDERWAY for each in tree):
        want = f"a folder that is whole: its {UNDERWAY} says that it is not written to its end"
        raise SpecError([Problem(f"{field}.path", str(at), want)])
    found = [
        Found(f"{at}/{each.name}", each.name, each.bytes)
        for each in tree
        if is_data(each.name) and (not endings or ending_of(each.name).endswith(endings))
    ]
    if not found:
        which = " or ".join(f"*{ending}" for ending in endings) or "any"
        want = (
            f"a folder with {which} files"
            if at.exists()
            else f"a {kind} file or folder that exists"
        )
        raise SpecError([Problem(f"{field}.path", str(at), want)])
    return found


def ending_of(name: str) -> str:
    """Return a name in small letters up to the end that tells its format."""
    return _OF_SEVERAL.sub("", name.lower())


def is_data(name: str) -> bool:
    """Say whether a file below a dataset's folder has rows, by its name."""
    # Spark, Hive and Dask keep what is unfinished or not data under names with _ or a dot.
    return not any(part.startswith(("_", ".")) for part in name.split("/"))
