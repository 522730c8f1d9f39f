"""Recordings come back as samples, each as long as it is or all of one length."""

import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from pydantic import JsonValue

from tests.app.data.builders_formats import open_files, read_all, read_good
from tests.app.data.builders_media import write_sound
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import audio
from trainshed_api.errors import SpecError


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3", "aiff"])
def test_a_file_is_a_row(tmp_path: Path, ending: str) -> None:
    write_sound(tmp_path / f"a.{ending}", 4000)
    write_sound(tmp_path / f"b.{ending}", 2000, channels=2, rate=16_000)
    source = open_files(tmp_path, "audio")

    found = read_all(source)

    assert source.rows == 2
    assert list(found) == ["audio", "rate"]
    assert found["rate"].tolist() == [8000, 16_000]
    assert [each.dtype for each in found["audio"]] == [np.float32] * 2
    assert found["audio"][0].shape == (4000,)
    assert found["audio"][1].shape == (2000, 2)
    assert found["audio"][0][1500:2500].mean() == pytest.approx(0.5, abs=0.05)


def test_recordings_are_cut_and_filled_to_one_length(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav", 400)
    write_sound(tmp_path / "b.wav", 1200)
    source = open_files(tmp_path, "audio", {"seconds": 0.1})

    found = read_all(source, chunk_rows=1)["audio"]

    assert found.shape == (2, 800)
    assert found[0, :400].tolist() == [0.5] * 400
    assert found[0, 400:].tolist() == [0.0] * 400
    assert found[1].tolist() == [0.5] * 800


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "opus", "mp3", "aiff"])
def test_what_is_cut_is_the_beginning_of_the_whole(
    tmp_path: Path, ending: str, channels: int
) -> None:
    shape = (20_000, channels) if channels > 1 else (20_000,)
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, shape)
    form = {"format": "OGG", "subtype": "OPUS"} if ending == "opus" else {}
    soundfile.write(tmp_path / f"a.{ending}", noise, 8000, **form)
    [whole] = read_all(open_files(tmp_path, "audio"))["audio"]

    [cut] = read_all(open_files(tmp_path, "audio", {"seconds": 1.5}))["audio"]

    assert np.array_equal(cut, whole[:12_000])


def test_of_a_long_recording_only_what_is_asked_for_is_decoded(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.flac", 100)
    read_all(open_files(tmp_path, "audio", {"seconds": 0.1}))  # what is loaded once stays
    write_sound(tmp_path / "a.flac", 2**22)

    tracemalloc.start()
    try:
        found = read_all(open_files(tmp_path, "audio", {"seconds": 0.1}))["audio"]
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found.tolist() == [[0.5] * 800]
    assert most < 2**20  # of 2**24 bytes that it has


def test_a_recording_that_is_too_long_for_memory_is_bad_unless_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio, "MOST_DECODED", 1000)
    write_sound(tmp_path / "a.wav", 500, channels=2)
    write_sound(tmp_path / "b.wav", 501, channels=2)

    good, bad = read_good(open_files(tmp_path, "audio", skips_bad=True))
    cut = read_all(open_files(tmp_path, "audio", {"seconds": 0.01}))["audio"]

    assert [each.shape for each in good["audio"]] == [(500, 2)]
    [found] = bad
    assert (found.path, found.place) == (str(tmp_path / "b.wav"), "the file")
    assert found.reason.startswith("501 frames of 2 channels are more than 1000 samples")
    assert cut.shape == (2, 80, 2)


def test_channels_of_recordings_of_one_length_are_the_last_axis(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav", 400, channels=2)

    assert read_all(open_files(tmp_path, "audio", {"seconds": 1}))["audio"].shape == (1, 8000, 2)


def test_folders_number_the_labels(tmp_path: Path) -> None:
    write_sound(tmp_path / "yes" / "a.wav", 10)
    write_sound(tmp_path / "no" / "a.wav", 10)
    source = open_files(tmp_path, "audio", {"labels": "folder"}, ["label", "path"])

    found = read_all(source, ["label", "path"])

    assert source.scan.classes == ("no", "yes")
    assert found["label"].tolist() == [0, 1]
    assert found["path"].tolist() == ["no/a.wav", "yes/a.wav"]
    assert list(read_all(source)) == ["audio", "rate", "label"]


@dataclass(frozen=True)
class Other:
    """How the second recording differs from the first, and what is said of it."""

    rate: int
    channels: int
    want: str


OTHERS: dict[str, Other] = {
    "rate": Other(16_000, 1, "16000 frames a second and 1 channels where others have 8000 frames"),
    "channels": Other(8000, 2, "and 2 channels where others have 8000 frames a second and 1 chan"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_recording_that_does_not_fit_is_named(tmp_path: Path, other: Other) -> None:
    write_sound(tmp_path / "a.wav", 10)
    write_sound(tmp_path / "b.wav", 10, rate=other.rate, channels=other.channels)

    with pytest.raises(DataError, match=rf"b\.wav: .*{other.want}"):
        read_all(open_files(tmp_path, "audio", {"seconds": 1}))


def test_the_rate_may_be_said(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav", 10)

    with pytest.raises(DataError, match=r"a\.wav: 8000 frames a second .* others have 16000"):
        read_all(open_files(tmp_path, "audio", {"seconds": 1, "rate": 16_000}))


@pytest.mark.parametrize("content", [b"no sound" * 100, b""], ids=["other bytes", "nothing"])
@pytest.mark.parametrize("options", [{}, {"seconds": 1}], ids=["as they are", "of one length"])
def test_what_is_no_recording_is_named(
    tmp_path: Path, content: bytes, options: dict[str, JsonValue]
) -> None:
    (tmp_path / "a.wav").write_bytes(content)

    with pytest.raises((DataError, SpecError), match=r"a\.wav: (the file: )?no recording"):
        read_all(open_files(tmp_path, "audio", options))


@pytest.mark.parametrize("options", [{}, {"seconds": 1}], ids=["as they are", "of one length"])
def test_what_is_no_recording_may_be_left_out(
    tmp_path: Path, options: dict[str, JsonValue]
) -> None:
    (tmp_path / "a.wav").write_bytes(b"no sound" * 100)
    for name in ("b.wav", "c.wav"):
        write_sound(tmp_path / name, 4000)
    source = open_files(tmp_path, "audio", options, skips_bad=True)

    good, bad = read_good(source)

    assert len(good["rate"]) == 2
    assert [(each.path, each.place) for each in bad] == [(str(tmp_path / "a.wav"), "the file")]


def test_a_rate_is_held_to_where_recordings_are_as_long_as_they_are(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav", 400)
    write_sound(tmp_path / "b.wav", 400, rate=16_000)

    with pytest.raises(
        DataError, match=r"b\.wav: 16000 frames a second where options\.rate says 8"
    ):
        read_all(open_files(tmp_path, "audio", {"rate": 8000}))

    assert len(read_all(open_files(tmp_path / "a.wav", "audio", {"rate": 8000}))["audio"]) == 1
