"""A worker whose steps do not go on says where it stands, even when it holds Python's lock."""

import subprocess
import sys

STEPS = """
import ctypes, sys, time
from trainshed.worker.watchdog import Watchdog

watchdog = Watchdog(float(sys.argv[1]), float(sys.argv[2]))
if "first" in sys.argv:
    watchdog.begin()
else:
    watchdog.step()
if "done" in sys.argv:
    watchdog.step()

def hang():
    # A C function that never lets Python's lock go, as a collective of a broken driver does.
    ctypes.PyDLL(None).usleep(int(float(sys.argv[3]) * 1e6))

hang()
if "ends" in sys.argv:
    watchdog.close()
    time.sleep(1)
"""


def said(deadline: float, hangs: float, *words: str, first: float = 0) -> str:
    """Return what a process says whose last step is so many seconds ago."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS, str(first), str(deadline), str(hangs), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_the_stacks_are_said_before_the_deadline() -> None:
    assert "in hang" in said(deadline=1.0, hangs=1.0)


def test_nothing_is_said_of_one_that_ends_in_time() -> None:
    assert said(1.0, 0.1, "ends") == ""


def test_without_a_deadline_nothing_is_watched() -> None:
    assert said(0, 0.5) == ""


def test_the_stacks_of_a_first_step_are_said_before_its_own_deadline() -> None:
    assert "in hang" in said(3600, 1.0, "first", first=1.0)


def test_a_first_step_that_is_done_is_watched_no_more() -> None:
    assert said(0, 2.0, "first", "done", first=2.0) == ""
