"""The frames of films are rows."""

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.app.data.builders_formats import as_if_listed_so, open_files, read_all
from tests.app.data.builders_media import write_film
from trainshed.data.sources.dataset_files import read_fragment, read_sample
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.opener import FileAccess, open_file
from trainshed.retry import RetryPolicy
from trainshed_api.errors import SpecError

CODECS = {"mp4": "mpeg4", "avi": "mpeg4", "mkv": "libx264", "webm": "libvpx-vp9"}


@pytest.mark.parametrize("ending", CODECS)
def test_a_frame_is_a_row(tmp_path: Path, ending: str) -> None:
    write_film(tmp_path / f"a.{ending}", 20, codec=CODECS[ending])
    write_film(tmp_path / "below" / f"b.{ending}", 10, codec=CODECS[ending])
    source = open_files(tmp_path, "video")

    found = read_all(source)

    assert list(found) == ["frame", "number", "path"]
    assert found["frame"].shape == (30, 48, 64, 3)
    assert found["frame"].dtype == np.uint8
    numbers = [*range(20), *range(10)]
    assert found["number"].tolist() == numbers
    assert found["frame"].mean(axis=(1, 2, 3)).tolist() == pytest.approx(
        [5 * number for number in numbers], abs=4
    )
    assert found["path"].tolist() == [f"a.{ending}"] * 20 + [f"below/b.{ending}"] * 10
    assert source.rows is None
    assert source.likely_rows == pytest.approx(30, rel=0.4)


@pytest.mark.parametrize("ending", ["mov", "m4v", "mpg", "mpeg", "ts"])
def test_films_in_other_containers_are_read(tmp_path: Path, ending: str) -> None:
    codec = "mpeg1video" if ending.startswith("mp") else "mpeg4"
    write_film(tmp_path / f"a.{ending}", 20, codec=codec)

    assert len(read_all(open_files(tmp_path, "video"), ["number"])["number"]) == 20


def test_some_frames_may_be_taken(tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", 20)
    source = open_files(tmp_path, "video", {"every": 8})

    assert read_all(source, ["number"])["number"].tolist() == [0, 8, 16]
    assert source.likely_rows == pytest.approx(2.5, abs=1)


def test_frames_that_nobody_wants_are_not_held(tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", 40)
    source = open_files(tmp_path, "video")
    read_all(source, ["number"], chunk_rows=100)  # what is loaded once stays

    tracemalloc.start()
    try:
        found = read_all(source, ["number"], chunk_rows=100)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found["number"].tolist() == list(range(40))
    assert most < 10 * 48 * 64 * 3  # of 40 frames


def test_films_of_several_sizes_are_scaled_or_refused(tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", 3)
    write_film(tmp_path / "b.mp4", 3, height=32, width=32)

    with pytest.raises(
        SpecError, match=r"got frames of 32 x 32 in .*b\.mp4; expected frames of 48 x"
    ):
        open_files(tmp_path, "video")

    found = read_all(open_files(tmp_path, "video", {"size": [24, 32]}))
    assert found["frame"].shape == (6, 24, 32, 3)


def test_a_film_of_another_size_is_named_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.shared_types.LOOKED_AT", 2)
    for name in ("a", "c"):
        write_film(tmp_path / f"{name}.mp4", 3)
    write_film(tmp_path / "b.mp4", 3, height=32)

    with pytest.raises(DataError, match=r"b\.mp4: frame 0: frames of 32 x 64 where others have"):
        read_all(open_files(tmp_path, "video"))


def test_a_film_without_frames_is_named(tmp_path: Path) -> None:
    write_film(tmp_path / "a.mkv", 20, codec="libx264")
    source = as_if_listed_so(open_files(tmp_path, "video"))
    content = (tmp_path / "a.mkv").read_bytes()
    (tmp_path / "a.mkv").write_bytes(content[:800])

    with pytest.raises(DataError, match=r"a\.mkv: it has no frames"):
        read_all(source)


def test_a_read_that_fails_is_made_again(tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", 20)
    source = open_files(tmp_path, "video")
    tries = 0

    class Fails(pa.PythonFile):  # type: ignore[misc]  # pyarrow has no types
        def read(self, *_: int) -> bytes:
            raise ConnectionResetError(104, "Connection reset by peer")

    def opened(where: str, ahead: Sequence[tuple[int, int]] = (), /) -> pa.NativeFile:
        nonlocal tries
        tries += 1
        return Fails(open_file(where)) if tries == 1 else open_file(where)

    access = FileAccess(RetryPolicy(pauses=(0,), rest=lambda _: None), opened)

    tables = list(read_fragment(source.scan, source.fragments[0], ["number"], 100, access))

    assert tables[0]["number"].tolist() == list(range(20))
    assert tries == 2


def test_another_film_changes_the_part_of_no_frame(tmp_path: Path) -> None:
    for name in ("b", "d"):
        write_film(tmp_path / f"{name}.mp4", 20)

    def held() -> list[tuple[str, int]]:
        source = open_files(tmp_path, "video", holdout={"share": 0.5, "keep": "held"})
        return [
            (str(path), int(number))
            for fragment in source.fragments
            for rows in [read_sample(source.scan, fragment, ["path", "number"], 100)]
            for path, number in zip(rows["path"], rows["number"], strict=True)
        ]

    before = held()
    for name in ("a", "c"):
        write_film(tmp_path / f"{name}.mp4", 7)

    assert 5 < len(before) < 35
    assert [each for each in held() if each[0] in {"b.mp4", "d.mp4"}] == before


def test_a_list_of_addresses_is_no_film_and_asks_nobody(tmp_path: Path) -> None:
    """FFmpeg knew it by its first line, and waited 20 seconds for pictures from the network."""
    said = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n"
    (tmp_path / "a.mp4").write_text(said + "a=rtpmap:96 H264/90000\n")

    with pytest.raises(
        SpecError, match=r"got .*a\.mp4; expected films \(Invalid argument, or no container of"
    ):
        open_files(tmp_path, "video")
