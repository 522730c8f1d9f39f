"""How often Ray was started is counted by what Ray leaves, and too often fails the session."""

import importlib
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.ray_starts import MOST_OWN, Starts, count, kept_folder, note_joined

# A session within this one imports it otherwise, and Python before 3.11.8 may fail to parse a file
# while another thread parses one too (https://github.com/python/cpython/issues/106905).
importlib.import_module("xdist.dsession")

# One that leaves what so many Rays would leave; `slow` is what takes minutes.
STARTER = """
import os, pathlib, pytest
def start():
    for number in range({number}):
        pathlib.Path(os.environ["RAY_TMPDIR"], "ray", f"session_{{number}}").mkdir(parents=True)
@pytest.mark.ray
def test_quick(): start()
@pytest.mark.e2e
def test_slow(): start()
def test_unmarked(): start()
"""
SETTINGS = """
[pytest]
asyncio_default_fixture_loop_scope = function
markers =
    ray
    e2e
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    return tmp_path


def add_session(folder: Path, name: str, *drivers: int) -> None:
    """Leave what a Ray does, with a log of each driver."""
    logs = folder / name / "logs"
    logs.mkdir(parents=True)
    for job, driver in enumerate(drivers):
        (logs / f"python-core-driver-{job:02}000000ffff_{driver}.log").touch()


def test_a_ray_of_a_run_is_told_from_kept_ones(folder: Path) -> None:
    for name in ("session_1", "session_2"):
        add_session(folder / "ray", name)
    (folder / "ray" / "session_latest").symlink_to("session_2")
    add_session(kept_folder(), "session_3")

    assert count(folder) == Starts(own=2, joined=0, kept=1)


def test_drivers_that_joined_are_those_that_are_over(folder: Path) -> None:
    kept = kept_folder()
    never = 2**22 + 1  # larger than Linux numbers processes
    add_session(kept, "session_1", never, never + 1, os.getpid())
    (kept / "session_latest").symlink_to("session_1")
    note_joined(kept)

    assert count(folder) == Starts(own=0, joined=2, kept=1)


@pytest.mark.parametrize(
    ("number", "chosen", "code"),
    [
        (MOST_OWN, "ray", pytest.ExitCode.OK),
        (MOST_OWN + 1, "ray", pytest.ExitCode.TESTS_FAILED),
        (MOST_OWN + 1, "e2e", pytest.ExitCode.OK),
        (1, "not (ray or e2e)", pytest.ExitCode.TESTS_FAILED),
    ],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_session_fails_that_starts_more_than_it_may(
    pytester: pytest.Pytester, number: int, chosen: str, code: pytest.ExitCode, workers: int
) -> None:
    # Folders are keywords to pytest: what a test starts is not to hang on where it lies.
    folder = pytester.mkpydir("e2e")
    (folder / "test_starts.py").write_text(STARTER.format(number=number), encoding="utf-8")
    pytester.makeini(SETTINGS)
    words = ["-m", chosen, *([f"-n{workers}"] if workers else [])]
    plugins = ("-p", "tests.gates", "-p", "tests.ray_starts")
    result = pytester.runpytest_inprocess(*plugins, *words)

    assert result.ret == code
    said = f"Ray: {number} runs of their own (at most {MOST_OWN}), 0 drivers joined"
    assert said in result.stdout.str()
    if code != pytest.ExitCode.OK:  # behind a summary in which every test passed
        assert result.outlines[-1].startswith("FAILED: ")
    logs = re.findall("Ray's logs: (/tmp/r.*)", result.stdout.str())
    assert bool(logs) == (code != pytest.ExitCode.OK)  # whoever has to find out why may read them
    for folder in logs:
        shutil.rmtree(folder)
