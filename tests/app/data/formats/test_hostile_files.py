"""Files that somebody wrote to do harm: they run no code, take no memory, and are named."""

import io
import json
import pickle
import struct
import tarfile
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray.data  # noqa: F401 - Arrow then knows Ray's types, as it does in a task of Ray Data
import soundfile
from ray.data._internal.object_extensions.arrow import ArrowPythonObjectType

from tests.app.data.builders_formats import open_files, read_all, read_good
from tests.app.data.builders_media import write_sound
from tests.app.data.builders_records import write_records
from tests.app.data.builders_tar import npy_head_of, npy_of, write_tar
from trainshed.data.sources.errors import DataError
from trainshed_api.errors import SpecError


class Touch:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self._path), "w")


def objects_of(path: Path) -> pa.ExtensionArray:
    storage = pa.array([pickle.dumps(Touch(path))] * 2, pa.large_binary())
    return pa.ExtensionArray.from_storage(ArrowPythonObjectType(), storage)


NESTED = {
    "a column": lambda objects: objects,
    "lists": lambda objects: pa.ListArray.from_arrays([0, 1, 2], objects),
    "lists of lists": lambda objects: pa.ListArray.from_arrays(
        [0, 1, 2], pa.ListArray.from_arrays([0, 1, 2], objects)
    ),
    "lists of one length": lambda objects: pa.FixedSizeListArray.from_arrays(objects, 1),
    "structs": lambda objects: pa.StructArray.from_arrays([objects], ["a"]),
}


@pytest.mark.parametrize("where", NESTED)
def test_pickled_objects_are_never_opened(tmp_path: Path, where: str) -> None:
    (tmp_path / "rows").mkdir()
    column = NESTED[where](objects_of(tmp_path / "opened"))
    pq.write_table(pa.table({"id": [0, 1], "x": column}), tmp_path / "rows" / "a.parquet")

    with pytest.raises(DataError, match=r"a\.parquet.* column x holds pickled objects"):
        read_all(open_files(tmp_path / "rows", "parquet"))

    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("shape", [(10**15,), (10**18, 0), (-4, 3)])
def test_an_array_that_promises_what_no_file_has_is_refused(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    (tmp_path / "a.npy").write_bytes(npy_head_of(shape) + bytes(8))

    with pytest.raises(SpecError, match=r"a\.npy; expected an array of numbers with rows"):
        open_files(tmp_path, "numpy")


HEADS = {
    "signs that fill the parser's memory": "-" * 9000 + "1",
    "sums that are nested too deeply": "1+" * 4900 + "1",
    "brackets without an end": "(" * 9000,
    "lines that go in": "1\n  2",
    "a list for a key": "{[]: 1}",
    "keys that cannot be sorted": "{1: 2, 'a': 3}",
}


@pytest.mark.parametrize("form", ["numpy", "webdataset"])
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_an_array_whose_head_python_cannot_read_is_refused(
    tmp_path: Path, head: str, form: str
) -> None:
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
    (tmp_path / "0.npy").write_bytes(content)
    write_tar(tmp_path / "a.tar", {"0.npy": content})

    with pytest.raises(SpecError, match=r"0\.npy"):
        open_files(tmp_path, form)


def test_an_array_of_a_shape_that_no_machine_has_is_refused(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.npy": npy_head_of((2**70, 0))})

    with pytest.raises(SpecError, match=r"0\.npy from byte 0: it is no npy"):
        open_files(tmp_path, "webdataset")


@pytest.mark.parametrize("length", [2**40, 2**62, 2**64 - 1])
def test_a_record_with_a_length_that_no_file_has_is_bad(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.tfrecord"
    write_records(path, [{"id": number} for number in range(50)])
    said = struct.pack("<Q", length)
    crc = google_crc32c.value(said)
    check = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    with path.open("ab") as file:
        file.write(said + struct.pack("<I", check) + b"few bytes")
    source = open_files(tmp_path, "tfrecords", skips_bad=True)

    good, bad = read_good(source)

    assert good["id"].tolist() == list(range(50))
    assert [each.reason for each in bad] == [f"the file ends in its {length} bytes"]


def test_a_recording_that_promises_too_many_samples_is_bad(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.flac", 800)
    write_sound(tmp_path / "b.flac", 800)
    content = bytearray((tmp_path / "b.flac").read_bytes())
    # STREAMINFO: 36 bits of samples behind rate, channels and bits of a sample, from byte 21 on
    content[21] |= 0x0F
    content[22:26] = b"\xff" * 4
    (tmp_path / "b.flac").write_bytes(bytes(content))
    assert soundfile.info(tmp_path / "b.flac").frames > 2**35

    good, bad = read_good(open_files(tmp_path, "audio", skips_bad=True))

    assert len(good["audio"]) == 1
    [found] = bad
    assert found.path == str(tmp_path / "b.flac")
    assert "its header states" in found.reason


def test_a_list_that_is_nested_too_deeply_is_bad(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"id": 0}, {"id": 1}]))
    (tmp_path / "b.json").write_text("[" * 200_000)
    source = open_files(tmp_path, "json", {"lines": False}, skips_bad=True)

    good, bad = read_good(source)

    assert good["id"].tolist() == [0, 1]
    assert [each.reason for each in bad] == ["it is nested too deeply"]


def test_names_of_a_tar_file_take_no_hour(tmp_path: Path) -> None:
    """Each record's length was looked for in a copy of all that follow it."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        head = tarfile.TarInfo("head")
        head.type, content = tarfile.XHDTYPE, b"5 a=\n" * 200_000
        head.size = len(content)
        tar.addfile(head, io.BytesIO(content))
        file = tarfile.TarInfo("00.npy")
        content = npy_of(np.zeros(2, dtype=np.float32))
        file.size = len(content)
        tar.addfile(file, io.BytesIO(content))

    assert read_all(open_files(tmp_path, "webdataset"))["npy"].tolist() == [[0, 0]]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_names_of_a_tar_file_that_are_far_too_long_are_refused(tmp_path: Path, kind: bytes) -> None:
    write_tar(tmp_path / "a.tar", {"00.txt": b"a"})
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        head = tarfile.TarInfo("head")
        head.type, head.size = kind, 2**21
        tar.addfile(head, io.BytesIO(bytes(head.size)))

    with pytest.raises(SpecError, match=r"b\.tar.*member head from byte 0: a header of 2097152"):
        open_files(tmp_path, "webdataset")


@pytest.mark.parametrize(
    ("name", "size", "want"),
    [
        ("00.jpg", 2**60, r"the file ends \d+ bytes early"),
        ("00.txt", 2**30, r"the file ends \d+ bytes early"),
        ("00.txt", 2**60, "its 1152921504606846976 bytes are more than"),
    ],
)
def test_a_member_with_a_size_that_no_file_has_is_named(
    tmp_path: Path, name: str, size: int, want: str
) -> None:
    head = tarfile.TarInfo(name)
    head.size = size
    (tmp_path / "a.tar").write_bytes(head.tobuf(tarfile.GNU_FORMAT) + b"few bytes")

    with pytest.raises(SpecError, match=rf"a\.tar.*{name}.* {want}"):
        open_files(tmp_path, "webdataset")
