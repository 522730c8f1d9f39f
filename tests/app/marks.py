"""What is being written or deleted, by its name on a disk and by a mark in a bucket."""

from trainshed.storage.disk import Disk
from trainshed.storage.folder import UNDERWAY, Folder


def unfinished(parent: Folder) -> list[Folder]:
    """Return the folders right below one that nobody came to the end of."""
    if isinstance(parent, Disk):
        return parent.unfinished()
    marks = (each.name.split("/") for each in parent.tree())
    return [parent / mark[0] for mark in marks if mark[1:] == [UNDERWAY]]
