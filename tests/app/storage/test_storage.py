"""What a run asks of its storage is answered alike by a disk and by a bucket."""

import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.app.marks import unfinished
from trainshed.storage.folder import Folder

LAST = "manifest.json"


def make(folder: Path, content: bytes = b"model") -> Path:
    """Write what is to be adopted."""
    (folder / "parts").mkdir()
    (folder / "parts" / "weights").write_bytes(content)
    (folder / LAST).write_bytes(b"{}")
    return folder


def adopt(parent: Folder, name: str, content: bytes = b"model") -> Folder:
    with parent.aside() as made:
        return parent.adopt(make(made, content), name, last=LAST)


def names_below(folder: Folder) -> list[str]:
    return [each.name for each in folder.tree()]


# ---------------------------------------------------------------------- files


def test_what_is_not_there_cannot_be_read(storage: Folder, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing there|No such file"):
        storage.read("run.json")
    with pytest.raises(FileNotFoundError):
        storage.fetch("run.json", tmp_path / "here")
    assert storage.stat("run.json") is None
    assert not storage.exists()
    assert storage.names() == []
    assert storage.tree() == []
    assert list(storage.lines("run.json")) == []
    storage.delete("run.json")
    storage.remove(first="run.json")


@pytest.mark.parametrize(
    "name", ["a b", "a%20b", "50 %", "a#b?c&d=e+f", "gr\u00fc\u00df", ".hidden", "x..y"]
)
def test_a_name_is_what_it_is(storage: Folder, name: str) -> None:
    storage.write(name, b"x")

    assert storage.names() == names_below(storage) == [name]
    assert storage.read(name) == b"x"


def test_a_large_file_is_written_read_and_fetched(storage: Folder, tmp_path: Path) -> None:
    content = os.urandom(2**20) * 35 + b"end"  # two whole pieces, and some
    storage.write("model", content)

    storage.fetch("model", tmp_path / "model")

    assert storage.read("model") == content
    assert (tmp_path / "model").read_bytes() == content


def test_an_empty_file_is_there(storage: Folder, tmp_path: Path) -> None:
    storage.write("empty", b"")

    storage.fetch("empty", tmp_path / "here")

    assert storage.read("empty") == (tmp_path / "here").read_bytes() == b""


def test_a_file_s_size_and_time_are_known(storage: Folder) -> None:
    storage.write("run.json", b"12345")

    found = storage.stat("run.json")

    assert found
    assert (found.name, found.bytes) == ("run.json", 5)
    assert abs(found.modified - time.time()) < 60
    assert storage.tree() == [found]


def test_a_tree_is_all_below_and_names_are_what_is_right_below(storage: Folder) -> None:
    for name in ("run.json", "attempts/1/claim", "attempts/2/claim"):
        folder, _, file = name.rpartition("/")
        (storage / folder if folder else storage).write(file, b"x")
    (storage.parent / f"{storage.name}-2").write("other", b"x")

    assert storage.names() == ["attempts", "run.json"]
    assert (storage / "attempts").names() == ["1", "2"]
    assert names_below(storage) == ["attempts/1/claim", "attempts/2/claim", "run.json"]
    assert names_below(storage / "attempts/2") == ["claim"]
    assert storage.stat("attempts") is None
    assert (storage / "attempts" / "1").exists()


def test_more_than_a_page_of_files_are_listed_and_removed(storage: Folder) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: storage.write(f"{number:04d}", b""), range(1100)))

    assert storage.names() == names_below(storage) == [f"{number:04d}" for number in range(1100)]
    storage.remove(first="0000")
    assert not storage.exists()


def test_folders_know_their_names(storage: Folder) -> None:
    below = storage / "attempts/3"

    assert (below.name, below.parent.name, below.parent.parent) == ("3", "attempts", storage)
    assert str(below) == f"{storage}/attempts/3"
    assert below == storage / "attempts" / "3"


def test_a_folder_is_the_same_by_each_of_its_names(storage: Folder) -> None:
    storage.write("run.json", b"")

    assert storage.is_same(storage.parent / storage.name)
    assert not storage.is_same(storage.parent)


def test_folders_travel_to_other_processes(storage: Folder) -> None:
    storage.write("run.json", b"{}")

    assert pickle.loads(pickle.dumps(storage)) == storage
    assert pickle.loads(pickle.dumps(storage)).read("run.json") == b"{}"


def test_the_time_is_that_of_the_storage(storage: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real + 86_400)  # this machine's clock is wrong

    assert abs(storage.now() - real) < 60
    assert storage.names() == []


def test_many_ask_the_time_at_once(storage: Folder) -> None:
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: storage.now(), range(24)))

    assert max(told) - min(told) < 60
    assert storage.names() == []


# ------------------------------------------------------------------- creating


def test_what_was_deleted_may_be_made_again(storage: Folder) -> None:
    storage.create("claim", b"mine")
    storage.delete("claim")

    storage.create("claim", b"yours")

    assert storage.read("claim") == b"yours"


def test_of_many_that_make_a_file_exactly_one_does(storage: Folder) -> None:
    makers = 6
    barrier = threading.Barrier(makers)

    def race(folder: Folder, mine: bytes) -> bytes | None:
        barrier.wait()
        try:
            folder.create("claim", mine)
        except FileExistsError:
            return None
        return mine

    contents = [f"maker {number} ".encode() * 50 for number in range(makers)]
    with ThreadPoolExecutor(makers) as pool:
        for number in range(20):
            folder = storage / str(number)
            tried = list(pool.map(race, [folder] * makers, contents))
            assert [mine for mine in tried if mine] == [folder.read("claim")]
            assert folder.names() == ["claim"]


# ------------------------------------------------------------------- removing


def test_a_folder_is_removed_with_all_that_is_in_it(storage: Folder) -> None:
    folder = adopt(storage, "checkpoint")
    (storage / "checkpoint-2").write("other", b"x")

    folder.remove(first=LAST)

    assert not folder.exists()
    assert storage.names() == ["checkpoint-2"]
    assert unfinished(storage) == []


def test_what_another_removes_too_is_no_fault(storage: Folder) -> None:
    for number in range(10):
        folder = adopt(storage, f"checkpoint_{number}")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda each: each.remove(first=LAST), [folder, folder]))
        assert not folder.exists()
    for left in unfinished(storage):  # by whom the other one was faster than
        left.remove(first=LAST)
    assert storage.names() == []


# ------------------------------------------------------- made aside and adopted


def test_many_that_adopt_one_name_get_one_each(storage: Folder) -> None:
    adopters = 6
    barrier = threading.Barrier(adopters)

    def race(number: int) -> tuple[Folder, bytes]:
        content = str(number).encode()
        with storage.aside() as made:
            make(made, content)
            barrier.wait()
            return storage.adopt(made, "checkpoint", last=LAST), content

    with ThreadPoolExecutor(adopters) as pool:
        adopted = list(pool.map(race, range(adopters)))

    assert len({folder.name for folder, _ in adopted}) == adopters
    for folder, content in adopted:
        assert (folder / "parts").read("weights") == content
        assert names_below(folder) == [LAST, "parts/weights"]
    assert unfinished(storage) == []


def test_what_is_made_aside_is_gone_when_it_is_not_adopted(storage: Folder) -> None:
    with storage.aside() as made:
        make(made)

    assert not made.exists()
    assert storage.names() == []
    assert unfinished(storage) == []


def test_a_second_name_stays_when_the_first_is_removed(storage: Folder) -> None:
    folder = adopt(storage / "1", "checkpoint", b"weights")

    (storage / "2").take(folder, "resumed")
    folder.remove(first=LAST)

    taken = storage / "2" / "resumed"
    assert names_below(taken) == [LAST, "parts/weights"]
    assert (taken / "parts").read("weights") == b"weights"
    assert (storage / "2").names() == ["resumed"]
    assert unfinished(storage / "2") == []


def test_a_first_name_stays_when_the_second_is_removed(storage: Folder) -> None:
    folder = adopt(storage / "1", "checkpoint", b"weights")

    (storage / "2").take(folder, "resumed")
    (storage / "2" / "resumed").remove(first=LAST)

    assert names_below(folder) == [LAST, "parts/weights"]


# -------------------------------------------------------------- growing texts


def test_a_text_that_was_added_to_is_there_when_it_is_closed(storage: Folder) -> None:
    text = storage.append("log")
    text.write("one\n")
    text.write("two \u00e4\nthree")
    text.flush()
    text.close()

    assert list(storage.lines("log")) == ["one\n", "two \u00e4\n", "three"]
    assert storage.names() == ["log"]
    assert storage.read("log") == "one\ntwo \u00e4\nthree".encode()


def test_a_text_that_is_opened_again_goes_on(storage: Folder) -> None:
    for line in ("one\n", "two\n", "three\n"):
        text = storage.append("log")
        text.write(line)
        text.close()

    assert list(storage.lines("log")) == ["one\n", "two\n", "three\n"]


def test_a_text_is_there_when_nothing_was_added(storage: Folder) -> None:
    storage.append("log").close()

    assert list(storage.lines("log")) == []
    assert storage.names() == ["log"]


def test_what_is_no_text_does_not_end_one(storage: Folder) -> None:
    text = storage.append("log")
    text.write("a file named \udcff\n")
    text.close()

    assert list(storage.lines("log")) == ["a file named ?\n"]


def test_lines_end_where_they_end(storage: Folder) -> None:
    text = storage.append("log")
    text.write("10%\r20%\r\nform\x0cfeed\u2028\n\n")
    text.close()

    assert list(storage.lines("log")) == ["10%\r20%\r\n", "form\x0cfeed\u2028\n", "\n"]
