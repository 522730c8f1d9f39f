"""A line is read once, by the task in whose bytes it begins, wherever files are cut."""

import gzip
import tempfile
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.data.builders_formats import open_files, read_all
from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import line_files
from trainshed.data.sources.listing import Found
from trainshed.data.sources.opener import open_file
from trainshed_api.errors import SpecError

LINES = st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b"-")), max_size=30)


@given(found=LINES, span=st.integers(1, 40), block=st.integers(1, 16), ends=st.booleans())
@settings(max_examples=150, deadline=None)
def test_each_line_is_read_once_and_in_order(
    found: list[bytes], span: int, block: int, ends: bool
) -> None:
    content = b"\n".join(found) + (b"\n" if ends else b"")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        path = Path(folder, "a.txt")
        path.write_bytes(content)
        patched.setattr(line_files, "SPAN_BYTES", span)
        patched.setattr(line_files, "BLOCK_BYTES", block)
        files = [Found(str(path), "a.txt", len(content))]
        whole = Fragment(str(path), 0, (), None, len(content))
        fragments = line_files.cut_files(files) or [whole]

        blocks = [each for part in fragments for each in line_files.line_blocks(part, open_file)]

    assert b"".join(text for _, text in blocks) == content
    assert all(content[place:].startswith(text) for place, text in blocks)
    assert all(text.endswith(b"\n") for _, text in blocks[:-1])


def test_a_packed_file_of_several_is_cut_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_files, "SPAN_BYTES", 10)
    name = "a.txt.gz-00000-of-00010"

    [fragment] = line_files.cut_files([Found(name, name, 100)]) or []

    assert fragment.span is None


@pytest.mark.parametrize("form", ["csv", "json", "text"])
def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(line_files, "MOST_LINE_BYTES", 2**21)
    (tmp_path / f"a.{form}.gz").write_bytes(gzip.compress(bytes(2**22)))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(bytes(2**22)))

    with pytest.raises(SpecError, match=r"the line from byte 0 on is longer than 2097152 bytes"):
        open_files(tmp_path, form)


def test_a_line_without_an_end_in_the_middle_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files, "MOST_LINE_BYTES", 2**23)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a\n" * 2**20 + bytes(2**24)))

    with pytest.raises(DataError, match=r"a\.txt\.gz: the line from byte \d+ on is longer than 8"):
        read_all(open_files(tmp_path, "text"))


@pytest.mark.parametrize("rest", [-1, 0, 1])
def test_what_is_read_in_pieces_is_held_once(monkeypatch: pytest.MonkeyPatch, rest: int) -> None:
    monkeypatch.setattr(line_files, "PIECE_BYTES", 2**20)
    content = bytes(2**23)
    stream = pa.BufferReader(content)

    tracemalloc.start()
    try:
        found = line_files.read_up_to(stream, len(content) + rest)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found == content[: len(content) + rest]
    assert most < 1.5 * len(content)
