"""Opens a file of a dataset, on a disk or in a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from trainshed.patience import READS, Patience
from trainshed.records.addresses import is_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyarrow import NativeFile


def open_file(where: str) -> NativeFile:
    """Return a file that can be read at any place.

    where: a path, or an address, of which only the ranges that are asked for are fetched.
    """
    if not is_address(where):
        return pa.OSFile(where)
    from trainshed.records.arrow_files import file_system

    scheme, _, rest = where.partition("://")
    bucket = rest.partition("/")[0]
    return file_system(f"{scheme}://{bucket}").open_input_file(rest)


@dataclass(frozen=True)
class Access:
    """How files are got at.

    Args:
        patience: with the storage.
        opened: opens a file.
    """

    patience: Patience = READS
    opened: Callable[[str], NativeFile] = open_file


ACCESS = Access()
