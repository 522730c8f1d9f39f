"""The only place where tar files are born in these tests, as tarfile writes them."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_tar(path: Path, files: Mapping[str, bytes], form: int = tarfile.DEFAULT_FORMAT) -> None:
    """Write files into a tar file in their order; packed where its name ends so."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w", format=form) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def samples_of(first: int, count: int) -> dict[str, bytes]:
    """Return the members of samples: a picture's bytes, a class, a text, JSON and an array."""
    return {
        f"{number:05}.{ending}": content
        for number in range(first, first + count)
        for ending, content in (
            ("jpg", b"picture %d" % number),
            ("cls", b"%d\n" % (number % 10)),
            ("txt", f"n\u00e4{number}".encode()),
            ("json", b'{"id": %d}' % number),
            ("npy", npy_of(np.full((2, 3), number, dtype=np.float32))),
        )
    }


def npy_of(array: NDArray[np.generic]) -> bytes:
    """Return an array as numpy.save writes it."""
    found = io.BytesIO()
    np.save(found, array)
    return found.getvalue()


def npy_head_of(shape: tuple[int, ...], *, is_fortran: bool = False) -> bytes:
    """Return what numpy.save writes before the values of an array of float64."""
    found = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": is_fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(found, described)
    return found.getvalue()
