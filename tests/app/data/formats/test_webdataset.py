"""Samples come back as they were packed, or the file and member that stand in the way are named."""

import io
import tarfile
import tempfile
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.app.data.builders_formats import as_if_listed_so, open_files, read_all
from tests.app.data.builders_tar import npy_head_of, npy_of, samples_of, write_tar
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import tar as tar_files
from trainshed.data.sources.formats.tar import BUFFER_BYTES, Member, Tape, members
from trainshed_api.errors import SpecError


@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
def test_members_of_a_name_are_a_row(tmp_path: Path, ending: str) -> None:
    write_tar(tmp_path / f"a{ending}", samples_of(0, 25))
    write_tar(tmp_path / f"b{ending}", samples_of(25, 15))
    source = open_files(tmp_path, "webdataset")

    found = read_all(source)

    assert list(found) == ["__key__", "jpg", "cls", "txt", "json", "npy"]
    assert found["__key__"].tolist() == [f"{number:05}" for number in range(40)]
    assert found["jpg"].tolist() == [b"picture %d" % number for number in range(40)]
    assert found["cls"].dtype == np.int64
    assert found["cls"].tolist() == [number % 10 for number in range(40)]
    assert found["txt"].tolist() == [f"n\u00e4{number}" for number in range(40)]
    assert found["json"].tolist() == [{"id": number} for number in range(40)]
    assert found["npy"].shape == (40, 2, 3)
    assert found["npy"][7].tolist() == [[7.0] * 3] * 2
    assert source.rows is None
    assert source.likely_rows == pytest.approx(40, rel=0.2)


def test_members_stay_as_they_are_where_somebody_says_so(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", samples_of(0, 3))

    found = read_all(open_files(tmp_path, "webdataset", {"decode": False}))

    assert found["cls"].tolist() == [b"0\n", b"1\n", b"2\n"]
    assert found["json"].tolist() == [b'{"id": %d}' % number for number in range(3)]


@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
def test_members_that_nobody_wants_are_not_held(tmp_path: Path, ending: str) -> None:
    films = {f"{number}.mp4": bytes(8 * BUFFER_BYTES) for number in range(2)}
    texts = {f"{number}.txt": b"a" for number in range(2)}
    write_tar(tmp_path / f"a{ending}", dict(sorted({**films, **texts}.items())))
    read_all(open_files(tmp_path, "webdataset", columns=["txt"]), ["txt"])

    tracemalloc.start()
    try:
        found = read_all(open_files(tmp_path, "webdataset", columns=["txt"]), ["txt"])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found["txt"].tolist() == ["a", "a"]
    assert most < 4 * BUFFER_BYTES


class Counted(io.BytesIO):
    """A file that knows how many of its bytes were read."""

    num_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.num_read += len(found)
        return found


@pytest.mark.parametrize("can_seek", [True, False])
def test_members_that_nobody_wants_are_not_read_where_a_file_has_places(
    tmp_path: Path, *, can_seek: bool
) -> None:
    film, num_bytes = bytes(8 * BUFFER_BYTES), 16 * BUFFER_BYTES
    write_tar(tmp_path / "a.tar", {"0.mp4": film, "0.txt": b"a", "1.mp4": film, "1.txt": b"b"})
    file = Counted((tmp_path / "a.tar").read_bytes())
    tape = Tape(pa.PythonFile(file, mode="r"), can_seek=can_seek)

    found = list(members(tape, "a.tar", lambda name: name.endswith(".txt")))

    assert [(member.name, member.content) for member in found] == [
        ("0.mp4", b""),
        ("0.txt", b"a"),
        ("1.mp4", b""),
        ("1.txt", b"b"),
    ]
    assert (file.num_read < num_bytes / 2) == can_seek


def test_a_member_that_is_too_large_is_refused_where_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar_files, "MOST_MEMBER_BYTES", 1000)
    large = {"x.jpg": bytes(1001), "x.txt": b"large"}
    write_tar(tmp_path / "a.tar.gz", {"w.jpg": bytes(1000), "w.txt": b"small", **large})
    source = open_files(tmp_path, "webdataset")

    want = r"a\.tar\.gz: member x\.jpg from byte \d+: its 1001 bytes are more than 1000"
    with pytest.raises(DataError, match=want):
        read_all(source)

    assert read_all(source, ["txt"])["txt"].tolist() == ["small", "large"]


def test_names_are_cut_at_the_first_dot_behind_their_folder(tmp_path: Path) -> None:
    write_tar(
        tmp_path / "a.tar",
        {"v1.0/a.left.PNG": b"l", "v1.0/a.right.png": b"r", "v1.0/.hidden": b"", "plain": b""},
    )

    found = read_all(open_files(tmp_path, "webdataset"))

    assert {name: column.tolist() for name, column in found.items()} == {
        "__key__": ["v1.0/a"],
        "left.png": [b"l"],
        "right.png": [b"r"],
    }


def test_what_a_sample_lacks_is_none(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"a.jpg": b"a", "a.txt": b"text", "b.jpg": b"b"})

    assert read_all(open_files(tmp_path, "webdataset"))["txt"].tolist() == ["text", None]


def test_lists_in_json_stay_lists(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"a.json": b"[1, 2]", "b.json": b"[3, 4]"})

    assert read_all(open_files(tmp_path, "webdataset"))["json"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_numbers_of_64_bits_are_read(tmp_path: Path, number: int) -> None:
    write_tar(tmp_path / "a.tar", {"a.id": b"%d" % number})

    assert read_all(open_files(tmp_path, "webdataset"))["id"].tolist() == [number]


ARRAYS = {
    "rows": np.arange(6, dtype=np.float32).reshape(2, 3),
    "columns that lie before rows": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
    "another order of bytes": np.arange(6, dtype=">f8"),
    "one value": np.asarray(7, dtype=np.int16),
    "no values": np.empty((0, 3), dtype=np.float32),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_are_those_that_numpy_saved(tmp_path: Path, array: NDArray[np.generic]) -> None:
    write_tar(tmp_path / "a.tar", {"a.npy": npy_of(array)})

    [found] = read_all(open_files(tmp_path, "webdataset"))["npy"]

    assert found.shape == array.shape
    assert found.tolist() == array.tolist()


def test_arrays_of_several_shapes_stay_arrays(tmp_path: Path) -> None:
    shapes = [(1, 2), (2, 2)]
    arrays = [np.zeros(shape, dtype=np.float32) for shape in shapes]
    write_tar(tmp_path / "a.tar", {f"{n}.npy": npy_of(array) for n, array in enumerate(arrays)})

    found = read_all(open_files(tmp_path, "webdataset"))["npy"]

    assert [array.shape for array in found] == shapes


@dataclass(frozen=True)
class Broken:
    """Members behind fifty good samples, and what is said of them."""

    files: dict[str, bytes]
    want: str


BROKEN: dict[str, Broken] = {
    "a member that comes later": Broken(
        {"x.jpg": b"", "x.cls": b"1", "y.jpg": b"", "y.cls": b"1", "x.txt": b""},
        r"member x\.txt from byte \d+: other samples are between it and the first of x",
    ),
    "a number that is none": Broken(
        {"x.cls": b"cat"}, r"member x\.cls from byte \d+: it is no cls: .*options.decode: false"
    ),
    "a number that is missing": Broken({"x.jpg": b""}, r"sample x has no \.cls"),
    "a number of more than 64 bits": Broken(
        {"x.cls": b"%d" % 2**63},
        r"member x\.cls from byte \d+: it is no cls: a number that 64 bits",
    ),
    "JSON that is nested too deeply": Broken(
        {"x.cls": b"1", "x.json": b"[" * 200_000},
        r"member x\.json from byte \d+: it is no json: it is nested too deeply",
    ),
    "an array that promises values which it has not": Broken(
        {"x.cls": b"1", "x.npy": npy_head_of((10**15,)) + bytes(8)},
        r"member x\.npy from byte \d+: it is no npy: its header states 8000000000000000 bytes",
    ),
    "an array whose head is no program": Broken(
        {"x.cls": b"1", "x.npy": npy_head_of((1,)).replace(b"(1,)", b"(1,(")},
        r"member x\.npy from byte \d+: it is no npy: its header cannot be parsed",
    ),
    "an ending that nothing else has": Broken(
        {"x.cls": b"1", "x.depth": b""}, r"member x\.depth from byte \d+: the first samples have no"
    ),
    "an array that is a pickle": Broken(
        {"x.cls": b"1", "x.npy": b"\x80\x04]\x94."}, r"member x\.npy from byte \d+: it is no npy"
    ),
    "an array of another shape": Broken(
        {"x.cls": b"1", "x.npy": npy_of(np.zeros(4, dtype=np.float32))},
        r"member x\.npy from byte \d+: .*\[4\].* where others have .*\[2,3\]",
    ),
    "an ending that is there twice": Broken(
        {"x.cls": b"1", "x.CLS": b"1"}, r"member x\.CLS from byte \d+: it occurs twice"
    ),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_member_that_does_not_fit_is_named(tmp_path: Path, broken: Broken) -> None:
    write_tar(tmp_path / "a.tar", {**samples_of(0, 50), **broken.files})
    source = open_files(tmp_path, "webdataset")

    with pytest.raises(DataError, match=rf"a\.tar: {broken.want}"):
        read_all(source)


@dataclass(frozen=True)
class Damage:
    """What became of a tar file of 50 samples, and what is said of it."""

    cut: int | None
    put: bytes
    want: str


HEADER = 512 * 2 * 240  # of a member in the middle: each has a header and a block
DAMAGES: dict[str, Damage] = {
    "a header": Damage(None, b"\xff" * 100, r"tar from byte \d+: no header of a member"),
    "an end in a member": Damage(HEADER + 512 + 3, b"", r"member .* from byte \d+: the file ends"),
    "an end between members": Damage(HEADER, b"", r"tar from byte \d+: the file ends 512 bytes"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_broken_file_says_where(tmp_path: Path, damage: Damage) -> None:
    path = tmp_path / "a.tar"
    write_tar(path, samples_of(0, 50))
    source = as_if_listed_so(open_files(tmp_path, "webdataset"))
    content = bytearray(path.read_bytes())
    content[HEADER : HEADER + len(damage.put)] = damage.put
    path.write_bytes(content[: damage.cut])

    with pytest.raises(DataError, match=rf"a\.tar: {damage.want}"):
        read_all(source)


def test_other_bytes_are_no_tar(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"no tar" * 200)

    with pytest.raises(SpecError, match=r"a\.tar; expected tar files of samples \(.*no header"):
        open_files(tmp_path, "webdataset")


def test_files_without_samples_are_refused(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"README": b""})

    with pytest.raises(SpecError, match=r"a\.tar; expected members whose name has a dot"):
        open_files(tmp_path, "webdataset")


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=150)


@given(
    files=st.dictionaries(NAMES, st.binary(max_size=1500), max_size=5),
    form=st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
@settings(max_examples=100, deadline=None)
def test_members_are_those_that_tarfile_wrote(files: dict[str, bytes], form: int) -> None:
    def found(*, is_wanted: bool) -> list[Member]:
        return list(members(Tape(pa.BufferReader(content)), "a.tar", lambda _: is_wanted))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tar")
        try:
            write_tar(path, files, form)
        except ValueError:  # a name that is too long for the format
            return
        with tarfile.open(path) as tar:
            want = [member.name for member in tar.getmembers()]
        content = path.read_bytes()

    wanted, unwanted = found(is_wanted=True), found(is_wanted=False)
    assert [member.name for member in wanted] == want
    assert [member.content for member in wanted] == list(files.values())
    assert unwanted == [member._replace(content=b"") for member in wanted]


def test_archives_one_behind_the_other_are_read_to_their_end(tmp_path: Path) -> None:
    """Each ends with empty blocks, which were taken for the end of the file."""
    for name, first in (("one", 0), ("two", 10)):
        write_tar(tmp_path / name, samples_of(first, 10))
    (tmp_path / "a.tar").write_bytes(
        (tmp_path / "one").read_bytes() + (tmp_path / "two").read_bytes()
    )

    found = read_all(open_files(tmp_path, "webdataset"))

    assert found["__key__"].tolist() == [f"{number:05}" for number in range(20)]


@pytest.mark.parametrize("rest", [b"x", b"x" * 512, b"\0" * 512 + b"x" * 100])
def test_what_follows_an_archive_and_is_none_is_refused(tmp_path: Path, rest: bytes) -> None:
    write_tar(tmp_path / "a.tar", samples_of(0, 40))
    with (tmp_path / "a.tar").open("ab") as file:
        file.write(rest)

    with pytest.raises(DataError, match=r"a\.tar: tar from byte \d+: "):
        read_all(open_files(tmp_path, "webdataset"))


@pytest.mark.parametrize("kind", ["hard", "symbolic"])
def test_a_link_is_no_sample_that_may_be_left_out(tmp_path: Path, kind: str) -> None:
    (tmp_path / "one").mkdir()
    for number in range(40):
        (tmp_path / "one" / f"{number:02}.txt").write_bytes(b"a")
    link, first = tmp_path / "one" / "40.txt", tmp_path / "one" / "00.txt"
    link.hardlink_to(first) if kind == "hard" else link.symlink_to("00.txt")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for path in sorted((tmp_path / "one").iterdir()):
            tar.add(path, path.name)

    want = rf"member 40\.txt from byte \d+: a {kind} link to 00\.txt is not read: tar --\S*deref"
    with pytest.raises(DataError, match=want):
        read_all(open_files(tmp_path, "webdataset"))


def test_a_link_to_a_folder_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "00.txt").write_bytes(b"a")
    (tmp_path / "newest").symlink_to("one")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "newest", "newest")
        tar.add(tmp_path / "one" / "00.txt", "one/00.txt")

    assert read_all(open_files(tmp_path, "webdataset"))["txt"].tolist() == ["a"]
