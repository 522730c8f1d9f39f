"""A worker whose steps do not go on says where it stands, even when it holds Python's lock."""

import subprocess
import sys

STEPS = """
import ctypes, sys, time
from trainshed.worker.stalls import Stalls

stalls = Stalls(float(sys.argv[1]))
stalls.step()

def hang():
    # A C function that never lets Python's lock go, as a collective of a broken driver does.
    ctypes.PyDLL(None).usleep(int(float(sys.argv[2]) * 1e6))

hang()
if "ends" in sys.argv:
    stalls.close()
    time.sleep(1)
"""


def said(deadline: float, hangs: float, *words: str) -> str:
    """Return what a process says whose last step is so many seconds ago."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS, str(deadline), str(hangs), *words],
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
