"""The control plane of the tests is a real one: it admits, defaults, authorizes and collects."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.control_plane.plugin import ROOT


def wait_for(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.2)
    return is_so()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties one process to another")
def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from hack.cluster.processes import Launcher
started = Launcher(Path({str(tmp_path)!r}), is_tied=True).start("sleep", ["/bin/sleep", "60"])
print(started.process.pid, flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().decode().strip()
        assert wait_for(lambda: (child / "cmdline").read_bytes().startswith(b"/bin/sleep"))
        parent.kill()

    assert wait_for(lambda: not child.exists())
