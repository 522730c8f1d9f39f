"""A folder is filled whole, or nothing of it is left."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainshed.storage.disk import Disk
from trainshed.storage.folder import UNDERWAY, Folder
from trainshed.storage.staged_folder import StagedFolder, fill, is_free


def put(filling: StagedFolder, name: str, text: str = "x") -> None:
    file = filling.aside / name
    file.write_text(text)
    filling.add(file)


def test_it_has_what_was_added_and_nothing_else(storage: Folder) -> None:
    target = storage / "new"
    with fill(target) as filling:
        (filling.aside / "scratch").write_text("of no use later")
        put(filling, "b", "two")
        put(filling, "a", "one")
    assert target.names() == ["a", "b"]
    assert target.read("b") == b"two"
    assert storage.names() == ["new"]
    assert not filling.aside.exists()


def test_until_its_end_nobody_takes_it_for_whole(storage: Folder) -> None:
    target = storage / "new"
    with fill(target) as filling:
        put(filling, "a")
        assert UNDERWAY in target.names() or not target.exists()
        assert is_free(target) == (target.path is not None)


def test_of_what_fails_nothing_is_left(storage: Folder) -> None:
    def fail() -> None:
        with fill(storage / "new") as filling:
            put(filling, "a")
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fail()
    assert storage.names() == []
    assert is_free(storage / "new")


def test_what_is_there_is_left_alone(storage: Folder) -> None:
    (storage / "there").write("mine", b"mine")
    assert not is_free(storage / "there")
    with pytest.raises(FileExistsError), fill(storage / "there"):
        pytest.fail("it is not free")
    assert (storage / "there").names() == ["mine"]


def test_a_file_is_no_free_folder(storage: Folder) -> None:
    storage.write("file", b"mine")
    assert not is_free(storage / "file")


def test_who_is_faster_keeps_the_name(tmp_path: Path) -> None:
    target = Disk(tmp_path / "new")

    def lose() -> None:
        with fill(target) as filling:
            put(filling, "ours")
            target.write("theirs", b"")

    with pytest.raises(FileExistsError):
        lose()
    assert target.names() == ["theirs"]
    assert Disk(tmp_path).names() == ["new"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with fill(Disk(tmp_path / "new")) as filling:
        put(filling, "a")
    assert Disk(tmp_path / "new").names() == ["a"]


KILLED = """
import os, signal, sys
from trainshed.storage.addresses import open_folder
from trainshed.storage.staged_folder import fill
with fill(open_folder(sys.argv[1])) as filling:
    (filling.aside / "a").write_text("x")
    filling.add(filling.aside / "a")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_kill_leaves_is_not_taken_for_whole(storage: Folder) -> None:
    target = storage / "new"
    done = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert UNDERWAY in target.names() or not target.exists()
