"""What tests start ends with them, even with tests that are killed."""

import signal
import subprocess
import sys

from tests.app.processes import ROOT, Mark

STARTS_A_DAEMON = """
import os, signal, subprocess, sys
from tests.app.processes import Mark, end_with_us
mark = Mark(sys.argv[1])
with end_with_us(mark):
    daemon = ["setsid", "--fork", "sleep", "600"]
    subprocess.run(daemon, env=os.environ | mark.environment, check=True)
    while not mark.processes():
        pass
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_daemon_ends_when_its_tests_end_or_are_killed() -> None:
    for how, code in {"over": 0, "killed": -signal.SIGKILL}.items():
        mark = Mark()
        words = [sys.executable, "-c", STARTS_A_DAEMON, mark.value, how]
        assert subprocess.run(words, cwd=ROOT, check=False).returncode == code
        assert mark.left_over() == []
