"""A disk keeps what it was given, whatever is killed, refused or slow to answer."""

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainshed.storage import durable_files
from trainshed.storage.disk import Disk

LAST = "manifest.json"
# A killed process is one that ends at a call of the system, with all that Python would do left out.
KILLED_AT = """
import os, signal, sys
from pathlib import Path
from trainshed.storage.disk import Disk

def end(event, arguments):
    if event == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

folder = Disk(Path(sys.argv[2]))
with folder.aside() as made:
    (made / "manifest.json").write_bytes(b"{}")
    if sys.argv[3] == "adopt":
        sys.addaudithook(end)
    adopted = folder.adopt(made, "checkpoint", last="manifest.json")
sys.addaudithook(end)
if sys.argv[3] == "take":
    (folder / "2").take(adopted, "resumed")
adopted.remove(first="manifest.json")
"""


def kill_at(event: str, folder: Disk, operation: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_AT, event, str(folder), operation],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL


def adopt(folder: Disk, name: str) -> Disk:
    with folder.aside() as made:
        (made / LAST).write_bytes(b"{}")
        return folder.adopt(made, name, last=LAST)


@pytest.mark.parametrize(
    ("event", "operation"), [("os.rename", "adopt"), ("shutil.rmtree", "remove")]
)
def test_what_a_kill_leaves_is_known_as_unfinished_and_removed(
    tmp_path: Path, event: str, operation: str
) -> None:
    folder = Disk(tmp_path)
    kill_at(event, folder, operation)

    [left] = folder.unfinished()
    assert not (folder / "checkpoint").exists()
    left.remove(first=LAST)
    assert folder.names() == []


def test_what_a_kill_leaves_of_a_second_name_is_known_as_unfinished(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    kill_at("os.rename", folder, "take")

    [left] = (folder / "2").unfinished()
    assert not (folder / "2" / "resumed").exists()
    left.remove(first=LAST)
    assert (folder / "2").names() == []


def test_one_that_is_going_still_is_not_in_the_way_of_the_next(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    kill_at("shutil.rmtree", folder, "remove")

    adopt(folder, "checkpoint").remove(first=LAST)

    assert len(folder.unfinished()) == 1
    assert not (folder / "checkpoint").exists()


def test_an_adopted_folder_is_everybody_s_to_read(tmp_path: Path) -> None:
    assert adopt(Disk(tmp_path), "checkpoint").at.stat().st_mode & 0o777 == 0o755


def test_a_second_name_costs_no_room(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    adopted = adopt(folder, "checkpoint")

    (folder / "2").take(adopted, "resumed")

    assert (tmp_path / "2" / "resumed" / LAST).samefile(adopted.at / LAST)


def test_what_cannot_be_synced_is_not_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Disk(tmp_path)
    real = os.fsync

    def fail(opened: int) -> None:
        if Path(f"/proc/self/fd/{opened}").resolve() == tmp_path:
            raise OSError(errno.EIO, "Input/output error")
        real(opened)

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(OSError, match="Input/output error"):
        adopt(folder, "checkpoint")
    assert folder.names() == []


def test_what_is_written_at_once_by_many_is_one_of_theirs(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    contents = [str(number).encode() * 100_000 for number in range(8)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: folder.write("run.json", content), contents * 5))

    assert folder.read("run.json") in contents
    assert folder.names() == ["run.json"]


def test_what_was_not_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Disk(tmp_path)
    folder.write("run.json", b"old")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(Path, "replace", refuse)

    with pytest.raises(OSError, match="No space left"):
        folder.write("run.json", b"new")
    assert folder.read("run.json") == b"old"
    assert folder.names() == ["run.json"]


def test_a_lost_answer_of_a_network_s_disk_does_not_make_it_another_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link_twice(source: Path, target: Path) -> None:
        real(source, target)
        real(source, target)  # as NFS does when it has heard nothing

    monkeypatch.setattr(os, "link", link_twice)
    folder = Disk(tmp_path)

    folder.create("claim", b"mine")

    with pytest.raises(FileExistsError):
        folder.create("claim", b"yours")
    assert folder.read("claim") == b"mine"
    assert folder.names() == ["claim"]


def test_half_a_file_keeps_nobody_out_on_storage_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    folder = Disk(tmp_path)
    real = durable_files.sync
    synced = []

    def fail_once(file: object) -> None:
        synced.append(file)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable_files, "sync", fail_once)
    with pytest.raises(OSError, match="No space left"):
        folder.create("claim", b"mine")
    assert folder.names() == []

    monkeypatch.setattr(durable_files, "sync", real)
    folder.create("claim", b"yours")
    assert folder.read("claim") == b"yours"


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Disk(tmp_path)
    (folder / "rows").write("part-0", b"")
    real = os.scandir

    def fail(path: str) -> object:
        if Path(path).name == "rows":
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    monkeypatch.setattr(os, "scandir", fail)

    with pytest.raises(OSError, match="Input/output error"):
        folder.tree()


def test_what_lies_elsewhere_is_not_swept_or_copied_with_a_folder(tmp_path: Path) -> None:
    folder = Disk(tmp_path / "run")
    folder.write("report", b"")
    Disk(tmp_path / "elsewhere").write("rows", b"")
    (tmp_path / "run" / "linked").symlink_to(tmp_path / "elsewhere")

    assert [each.name for each in folder.tree()] == ["report"]


def test_readers_see_a_text_as_far_as_it_was_flushed(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    text = folder.append("log")
    text.write("one\ntw")
    text.flush()

    assert list(folder.lines("log")) == ["one\n", "tw"]
    text.close()
