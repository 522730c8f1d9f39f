"""What is written durably is on its disk before anybody is told of it."""

import errno
import os
import zlib
from pathlib import Path

import pytest

from trainshed.storage import durable_files


def test_what_is_written_in_pieces_is_summed_as_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with durable_files.ChecksumWriter(file.open("wb", buffering=0)) as opened:
        opened.write(b"some")
        opened.write(memoryview(b" bytes"))
        durable_files.sync(opened)

    assert opened.crc32 == zlib.crc32(file.read_bytes())
    assert opened.bytes == len(b"some bytes")


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_storage_that_knows_no_folders_to_sync_is_written_to(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_sync(monkeypatch, number)

    durable_files.sync_folder(tmp_path)


def test_storage_that_fails_to_sync_a_folder_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_sync(monkeypatch, errno.EIO)

    with pytest.raises(OSError, match="Input/output error"):
        durable_files.sync_folder(tmp_path)


def refuse_to_sync(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fsync(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
