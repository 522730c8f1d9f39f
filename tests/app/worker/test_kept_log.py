"""What a worker's process prints is kept with its attempt, whoever printed it."""

import subprocess
import sys
from pathlib import Path

from trainshed.storage.disk import Disk
from trainshed.worker.process_log import FOLDER, kept, name_of

PRINTS = """
import os, pathlib, signal, sys, time
from trainshed.storage.disk import Disk
from trainshed.worker.process_log import kept

print("before")
with kept(Disk(pathlib.Path(sys.argv[1])), 3, seconds=0.05):
    print("by Python", flush=True)
    os.write(2, b"by a library of C\\n")
    os.write(1, "half a l\u00e4tter".encode()[:8])
    if "refused" in sys.argv:
        time.sleep(0.5)
        os.unlink(pathlib.Path(sys.argv[1], "workers"))
    if "killed" in sys.argv:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    os.write(1, "half a l\u00e4tter".encode()[8:])
print("after")
"""


def run(folder: Path, *words: str) -> str:
    """Run the program with its output in a file and return what was kept of it."""
    with (folder / "output").open("w") as output:
        subprocess.run(
            [sys.executable, "-c", PRINTS, str(folder), *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return "".join((Disk(folder) / FOLDER).lines(name_of(3)))


def test_all_that_the_process_prints_inside_is_kept(tmp_path: Path) -> None:
    text = run(tmp_path)

    assert text.count("by Python\n") == 1
    assert "by a library of C\n" in text
    assert "half a l\u00e4tter" in text
    assert "before" not in text
    assert "after" not in text


def test_one_that_is_killed_leaves_its_last_lines(tmp_path: Path) -> None:
    assert "by Python\n" in run(tmp_path, "killed")


def test_what_the_storage_refuses_at_first_is_kept_when_it_takes_it(tmp_path: Path) -> None:
    (tmp_path / FOLDER).touch()  # in the way of the folder, for a while

    assert "by Python\n" in run(tmp_path, "refused")


def test_a_process_whose_output_is_no_file_keeps_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTS, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert "by Python" in done.stdout
    assert not (Disk(tmp_path) / FOLDER).exists()


def test_who_says_nothing_costs_the_storage_nothing(tmp_path: Path) -> None:
    with kept(Disk(tmp_path), 0):
        pass

    assert Disk(tmp_path).names() == []
