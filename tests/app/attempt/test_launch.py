"""An attempt that is stopped before it trains."""

from pathlib import Path

from tests.app.ray_run import PROGRAM, trainshed, write_run
from trainshed_api.names import EXIT_TERMINATED

# The signal comes where Ray would start.
STOPPED = f"""
import signal
from trainshed.ray_train import ray_cluster
ray_cluster.start = lambda *_: signal.raise_signal(signal.SIGTERM)
{PROGRAM}
"""


def test_a_signal_while_ray_starts_ends_the_attempt(tmp_path: Path) -> None:
    file = write_run(tmp_path, train="tests.app.processes:children")
    output = trainshed("run", str(file), program=STOPPED)
    assert output.code == EXIT_TERMINATED
    assert output.finished.message == "Terminated: stopped before training began"
