"""The coordinator's process."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from pathlib import Path

from trainshed.coordinator.actor import Coordinator
from trainshed.coordinator.client import NOT_AWAITED
from trainshed_api.progress import Event, WarningEvent

ROOT = Path(__file__).parents[3]
FEEDS = """
import sys
from trainshed.data.loader import data_server
from trainshed.coordinator.actor import Coordinator
from trainshed.coordinator.stage_rates import Means

loaded = []
def start(_):
    loaded.append("trainshed.ray_compat.train_controller" in sys.modules)

data_server.DataServer.start = start
Coordinator(0.0).feed({}, data_server.ExecutionLimits(1), Means(1, 1))
sys.exit(loaded != [True])
"""
# How long events take to come in while somebody looks; without order between both some are lost.
SECONDS_ON_THE_WAY = 0.3


class Arriving(list[Event]):
    """Events of which the last come in only once somebody has looked, or late."""

    def __init__(self, events: list[Event], looked: threading.Event) -> None:
        super().__init__(events)
        self._looked = looked

    def __iter__(self) -> Iterator[Event]:
        """Yield the first one, wait, and yield the others."""
        first, *others = super().__iter__()
        yield first
        self._looked.wait(SECONDS_ON_THE_WAY)
        yield from others


def test_nothing_is_left_to_import_when_threads_begin_to() -> None:
    path = f"{ROOT / 'api'}:{ROOT / 'app'}"
    done = subprocess.run([sys.executable, "-c", FEEDS], env={"PYTHONPATH": path}, check=False)
    assert done.returncode == 0


def test_no_event_is_lost_between_who_tells_and_who_looks() -> None:
    coordinator, looked = Coordinator(0.0), threading.Event()
    told: list[Event] = [WarningEvent(time=float(n), message="hot") for n in range(3)]
    group = coordinator.join(0)
    with ThreadPoolExecutor(1) as threads:
        arriving = Arriving(told, looked)
        reporting = threads.submit(
            coordinator.push, group, {}, arriving, saves=False, steps_begun=False
        )
        seen: list[Event] = []
        while not seen:
            seen += coordinator.look().events
        looked.set()
        reporting.result()
    assert [*seen, *coordinator.look().events] == told


def test_only_methods_without_an_answer_are_not_awaited() -> None:
    answers = {
        name: signature(getattr(Coordinator, name)).return_annotation for name in NOT_AWAITED
    }

    assert answers == dict.fromkeys(NOT_AWAITED, "None")
