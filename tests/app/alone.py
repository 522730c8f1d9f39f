"""Attempts of a run on one worker in this process: all of it but Ray's processes.

The driver, the coordinator and the worker are those of a whole run, and Ray Train is in its local
mode. The worker reads its datasets itself, as Ray Data would need Ray.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import JsonValue
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.train_fn_utils import LocalTrainFnUtils, set_train_fn_utils
from ray.train.v2.api.context import LocalTrainContext

from tests.app.builders_checkpoint import files_of_at_most
from tests.builders import make_run
from tests.builders_run import Shown
from trainshed import frameworks
from trainshed.attempt import resume
from trainshed.attempt.finish import write_ending
from trainshed.attempt.launch import make_job
from trainshed.attempt.launch_config import Launch
from trainshed.attempt.monitor import AttemptMonitor
from trainshed.attempt.provenance import run_record
from trainshed.attempt.result import AttemptResult
from trainshed.attempt.signals import Stop
from trainshed.attempt.track import begin_tracking
from trainshed.coordinator.actor import Coordinator
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.arrow_filesystem import as_ray_has_it
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import RECORD, RunFolder
from trainshed.worker.process import Worker
from trainshed_api.progress import AnyEvent, Finished, Started

UNLIMITED = 2**40


@dataclass(frozen=True)
class Left:
    """What an attempt left: how it ended, what was shown, and what its worker raised.

    steps_begun: its function had asked for a step.
    """

    folder: RunFolder
    verdict: AttemptResult
    events: list[AnyEvent]
    error: Exception | None
    steps_begun: bool

    @property
    def path(self) -> Path:
        """Return the run's folder on the disk."""
        path = self.folder.at.path
        assert path
        return path

    @property
    def started(self) -> Started:
        """Return where it began."""
        return next(event for event in self.events if isinstance(event, Started))

    @property
    def finished(self) -> Finished:
        """Return the last event."""
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last


def train_alone(
    home: Path, spec: Mapping[str, JsonValue], *, fresh: bool = False, stop: Stop | None = None
) -> Left:
    """Run the next attempt of a run whose paths lie under `home`; `stop` may be told to end it."""
    place = RunLocation(Disk(home))
    prepared = prepare(make_run(**spec), place)
    found, refused = resume.choose(prepared, fresh)
    attempt = prepared.folder.claim(prepared.spec_hash, fresh)
    launch = Launch(prepared, place, found, refused, started=time.time())
    record = run_record(prepared, home, launch.started)
    prepared.folder.at.write(RECORD, record.model_dump_json(by_alias=True).encode())
    coordinator = Coordinator(launch.started)
    job = make_job(launch, attempt)
    worker = Worker(job, coordinator, frameworks.named(prepared.spec.framework))
    display = Shown()
    trackers = prepared.spec.tracking
    tracking = begin_tracking(prepared, trackers, attempt.number, record) if trackers else None
    driver = AttemptMonitor(prepared, attempt, display, stop or Stop(), tracking=tracking)
    for note in refused:
        driver.warn(note)
    work = Work(worker, dict(prepared.spec.config))
    with ray_train_here(attempt.folder), files_of_at_most(UNLIMITED):
        work.start()
        verdict = driver.watch(coordinator, work)
        work.join()
    write_ending(driver, verdict, launch.started)
    attempt.close()
    begun = driver.view is not None and driver.view.steps_begun
    return Left(prepared.folder, verdict, display.events, work.error, begun)


class Work(threading.Thread):
    """What Ray Train does of a run: calls the worker, whose error ends it."""

    def __init__(self, worker: Worker, config: dict[str, object]) -> None:
        super().__init__(name="worker", daemon=True)
        self._worker = worker
        self._config = config
        self.error: Exception | None = None

    def run(self) -> None:
        """Train to the end."""
        try:
            self._worker(self._config)
        except Exception as error:
            self.error = error


class Context(LocalTrainContext):
    """Ray Train's context of a worker by itself, with a storage as in a group."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(experiment_name="ray")
        filesystem, path = as_ray_has_it(folder)
        self._storage = StorageContext(path, "ray", storage_filesystem=filesystem)

    def get_storage(self) -> StorageContext:
        """Return where checkpoints lie."""
        return self._storage


class Functions(LocalTrainFnUtils):
    """Ray Train's functions, such as `ray.train.report`, for a worker by itself."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(experiment_name="ray")
        self._context = Context(folder)


@contextmanager
def ray_train_here(folder: Folder) -> Iterator[None]:
    """Let Ray Train's functions work in this process, with a storage."""
    threads = torch.get_num_threads()
    set_train_fn_utils(Functions(folder))
    try:
        yield
    finally:
        set_train_fn_utils(None)
        torch.set_num_threads(threads)
