"""The coordinator's process."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FEEDS = """
import sys
from trainshed.data import feeder
from trainshed.runtime.coordinator import Coordinator

loaded = []
feeder.Feeder.start = lambda _: loaded.append("trainshed.runtime.controller" in sys.modules)
Coordinator(0.0).feed({}, feeder.Limits(1))
sys.exit(loaded != [True])
"""


def test_nothing_is_left_to_import_when_threads_begin_to() -> None:
    path = f"{ROOT / 'api'}:{ROOT / 'app'}"
    done = subprocess.run([sys.executable, "-c", FEEDS], env={"PYTHONPATH": path}, check=False)
    assert done.returncode == 0
