"""A node keeps what was fetched: whole, of one content, and no more than it was told."""

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.checkpoint.beside import forkserver
from trainshed.data.sources.local_cache import ChangedError, LocalFileCache

PIECE = 1000


def content_of(name: str, size: int) -> bytes:
    """Return what is at an address: other bytes for each name."""
    return np.random.default_rng(int.from_bytes(name.encode())).bytes(size)


class Store:
    """What is at addresses; each fetch is noted.

    Args:
        pause: seconds between pieces.
    """

    def __init__(self, pause: float = 0.0) -> None:
        self.fetched: list[str] = []
        self._pause = pause

    def fetch(self, name: str, size: int) -> Callable[[], Iterator[bytes]]:
        def pieces() -> Iterator[bytes]:
            self.fetched.append(name)
            content = content_of(name, size)
            for start in range(0, size, PIECE):
                time.sleep(self._pause)
                yield content[start : start + PIECE]

        return pieces

    def read(self, kept: LocalFileCache, name: str, size: int) -> bytes | None:
        """Return what the node has of an address; None where it keeps nothing of it."""
        file = kept.open(name, size, self.fetch(name, size))
        if file is None:
            return None
        with file:
            return bytes(file.read())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name != "bytes")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "bytes")


def test_what_was_fetched_is_kept_for_every_process(folder: Path) -> None:
    store = Store()

    for _ in range(3):  # as each process has its own
        assert store.read(LocalFileCache(folder, 10**6), "a", 2500) == content_of("a", 2500)

    assert store.fetched == ["a"]


def test_what_was_torn_off_is_fetched_anew(folder: Path) -> None:
    store = Store()
    store.read(LocalFileCache(folder, 10**6), "a", 2500)
    with (folder / "a-2500").open("r+b") as file:
        file.truncate(1000)

    for _ in range(2):
        assert store.read(LocalFileCache(folder, 10**6), "a", 2500) == content_of("a", 2500)

    assert store.fetched == ["a", "a"]


def test_the_least_recently_used_goes_first(folder: Path) -> None:
    store, kept = Store(), LocalFileCache(folder, 10_000)
    for name in ("a", "b", "c"):
        store.read(kept, name, 3000)
    store.read(kept, "a", 3000)

    store.read(kept, "d", 3000)

    assert [name[0] for name in names(folder)] == ["a", "c", "d"]


def test_a_file_that_is_larger_than_all_may_be_is_not_kept(folder: Path) -> None:
    store, kept = Store(), LocalFileCache(folder, 10_000)
    store.read(kept, "a", 3000)

    assert store.read(kept, "b", 10_001) is None
    assert store.fetched == ["a"]
    assert names(folder) == ["a-3000"]


@settings(max_examples=40)
@given(asked=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3000)), max_size=40))
def test_it_never_has_more_than_it_may_and_never_what_was_not_asked_for(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[int, int]]
) -> None:
    folder, store = tmp_path_factory.mktemp("node") / "kept", Store()
    kept = LocalFileCache(folder, 5000)
    for number, size in asked:
        name = f"file{number}"
        assert store.read(kept, name, size) == content_of(name, size)
        assert num_bytes(folder) <= 5000
        assert int((folder / "bytes").read_text()) == num_bytes(folder)


def test_what_else_lies_there_counts_and_goes_too(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_bytes(bytes(4000))

    assert Store().read(LocalFileCache(folder, 5000), "a", 3000) == content_of("a", 3000)
    assert names(folder) == ["a-3000"]


def test_two_bounds_of_one_folder_both_hold(folder: Path) -> None:
    store = Store()
    for number in range(8):
        store.read(LocalFileCache(folder, 8000), f"large{number}", 1000)

    store.read(LocalFileCache(folder, 3000), "small", 1000)

    assert num_bytes(folder) <= 3000


# ------------------------------------------------------------- fetches that fail


def test_half_of_a_file_never_counts(folder: Path) -> None:
    store, kept = Store(), LocalFileCache(folder, 10_000)

    def fails() -> Iterator[bytes]:
        yield bytes(PIECE)
        raise ConnectionResetError("cut")

    with pytest.raises(ConnectionResetError):
        kept.open("a", 2000, fails)

    assert names(folder) == []
    assert (folder / "bytes").read_text() == "0"
    assert store.read(kept, "a", 2000) == content_of("a", 2000)


def test_another_content_is_not_kept_as_this_one(folder: Path) -> None:
    kept = LocalFileCache(folder, 10_000)

    def changed() -> Iterator[bytes]:
        yield bytes(2000)
        raise ChangedError

    assert kept.open("a", 2000, changed) is None
    assert kept.open("b", 2000, lambda: iter([bytes(1999)])) is None
    assert names(folder) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from trainshed.data.sources.local_cache import LocalFileCache

def pieces():
    yield bytes(1000)
    print("under way", flush=True)
    signal.pause()

LocalFileCache(Path(sys.argv[1]), 5000).open("a", 4000, pieces)
"""


def test_what_a_killed_process_left_takes_no_room(folder: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "under way\n"
        store, kept = Store(), LocalFileCache(folder, 5000)
        assert store.read(kept, "b", 2000) is None  # there is room for what is under way alone
        process.send_signal(signal.SIGKILL)
        process.wait()

    assert store.read(kept, "b", 2000) == content_of("b", 2000)
    assert names(folder) == ["b-2000"]
    assert store.read(kept, "a", 2000) == content_of("a", 2000)


def test_a_disk_without_room_is_said_once_and_read_past(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    store, kept = Store(), LocalFileCache(folder, 10**6, lambda: now[0])
    assert store.read(kept, "small", 100) == content_of("small", 100)

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
    try:
        for name in ("a", "b", "c"):
            assert store.read(kept, name, 5000) is None
        assert store.read(kept, "small", 100) == content_of("small", 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert store.fetched == ["small", "a"]  # nothing is fetched twice for nothing
    assert len(caplog.records) == 1
    assert "read without it" in caplog.text
    now[0] = 61.0
    assert store.read(kept, "a", 5000) == content_of("a", 5000)


def test_a_folder_of_somebody_else_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "a-100").write_bytes(bytes(100))
    folder.symlink_to(tmp_path / "theirs")

    assert Store().read(LocalFileCache(folder, 10**6), "a", 100) is None
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["a-100"]


# ------------------------------------------------------------------- processes


def race(folder: Path, most_bytes: int, seed: int) -> int:
    """Read files in an order of this process's own; return how many it fetched."""
    store, kept = Store(pause=0.001), LocalFileCache(folder, most_bytes)
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(12), 4))
    for number in order:
        size = 500 + 700 * int(number)
        found = store.read(kept, f"file{number}", size)
        assert found in (None, content_of(f"file{number}", size)), number
    return len(store.fetched)


@pytest.mark.parametrize("most_bytes", [10**6, 12_000])
def test_processes_that_race_have_whole_files(folder: Path, most_bytes: int) -> None:
    with forkserver().Pool(4) as pool:
        fetched = pool.starmap(race, [(folder, most_bytes, seed) for seed in range(4)])

    assert num_bytes(folder) <= most_bytes
    assert all(
        path.stat().st_size == int(path.name.rpartition("-")[2])
        for path in folder.iterdir()
        if "-" in path.name
    )
    if most_bytes == 10**6:
        assert sum(fetched) == 12  # who wants what another is fetching waits for it
