"""One attempt of a prepared run: starts Ray, fits, watches, writes the result."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, cast

from trainshed import frameworks
from trainshed.attempt import entrypoint, output
from trainshed.attempt.disk_cache_gc import delete_left_rows, rows_before
from trainshed.attempt.finish import write_ending
from trainshed.attempt.monitor import AttemptMonitor
from trainshed.attempt.provenance import run_record
from trainshed.attempt.result import AttemptResult
from trainshed.attempt.shutdown_deadline import ShutdownDeadline
from trainshed.attempt.signals import Stop, StopRequestedError
from trainshed.attempt.track import begin_tracking
from trainshed.checkpoint import ray_snapshot
from trainshed.coordinator.client import handle_of
from trainshed.coordinator.stage_rates import Means
from trainshed.planning.cluster_capacity import (
    cluster_memory,
    group_label,
    worker_label,
    worker_resources,
)
from trainshed.ray_train import ray_cluster
from trainshed.storage.arrow_filesystem import as_ray_has_it
from trainshed.storage.run_folder import LOG, RECORD, RESULT, ROWS, read_record
from trainshed_api.frameworks import RULES as FRAMEWORKS
from trainshed_api.names import (
    EXIT_APPLICATION,
    EXIT_SUCCEEDED,
    EXIT_TRY_AGAIN,
    FAILED,
    INFRASTRUCTURE,
    SUCCEEDED,
)
from trainshed_api.progress import Starting, WarningEvent
from trainshed_api.quantity import parse_cores

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ray

    from trainshed.attempt.launch_config import Launch
    from trainshed.attempt.snapshot_publisher import SnapshotPublisher
    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.loader.disk_cache import DiskCache
    from trainshed.display.choice import Display
    from trainshed.planning.cluster_capacity import ClusterNodes
    from trainshed.planning.preflight import Prepared
    from trainshed.ray_train.trainer import Trainer
    from trainshed.storage.folder import Folder
    from trainshed.storage.run_folder import ClaimedAttempt
    from trainshed.worker.attempt_config import AttemptConfig

# Worker groups that may be lost in one attempt before it counts as failed.
MAX_WORKER_LOSSES = 10


def run(
    launch: Launch,
    attempt: ClaimedAttempt,
    display: Display,
    stop: Stop,
    publisher: SnapshotPublisher | None = None,
) -> int:
    """Run one claimed attempt and return the exit code."""
    prepared = launch.prepared
    record = run_record(prepared, launch.place.home.path, launch.started)
    text = record.model_dump_json(by_alias=True, indent=1)
    # The run's is that of its last attempt; what an earlier one ran with stays with that.
    for folder in (prepared.folder.at, attempt.folder):
        folder.write(RECORD, text.encode())
    with (
        ShutdownDeadline(publisher, stop) as overtime,
        output.kept(attempt.folder.append(LOG)),
    ):
        trackers = prepared.spec.tracking
        tracking = begin_tracking(prepared, trackers, attempt.number, record) if trackers else None
        driver = AttemptMonitor(prepared, attempt, display, stop, publisher, tracking=tracking)
        driver.show(Starting(time=launch.started, phase="imports"))
        driver.show(Starting(time=launch.planned, phase="planning"))
        driver.show(Starting(time=time.time(), phase="ray"))
        try:
            if prepared.command:
                verdict = entrypoint.follow(launch, driver)
            else:
                verdict = _fit(launch, driver)
        except StopRequestedError:
            verdict = driver.stop_before_training()
        except Exception as error:
            verdict = AttemptResult.crashed(error)
        result = str(prepared.folder.at / RESULT)
        overtime.begin(driver, verdict, exit_code(verdict, stop), result)
        write_ending(driver, verdict, launch.started)
        if verdict.traceback:
            print(verdict.traceback, file=sys.stderr)
    code = exit_code(verdict, stop)
    if publisher:
        publisher.end(verdict, code, result)
    return code


def exit_code(verdict: AttemptResult, stop: Stop) -> int:
    """Return the exit code of a driver whose attempt ended so."""
    if verdict.outcome == SUCCEEDED:
        return EXIT_SUCCEEDED
    if verdict.outcome == FAILED:
        return EXIT_TRY_AGAIN if verdict.cause == INFRASTRUCTURE else EXIT_APPLICATION
    return stop.exit_code


def _fit(launch: Launch, driver: AttemptMonitor) -> AttemptResult:
    """Start Ray, the coordinator and its data, and fit; return how the attempt ended."""
    from trainshed.coordinator import start as actor

    prepared, spec = launch.prepared, launch.prepared.spec
    with driver.stop.interrupting():
        job = make_job(launch, driver.attempt)
        resume_from = launch.resume_from
        # Only Ray gives a function a checkpoint of its own kind. Ours is read from its folder; on a
        # disk a second name costs nothing, and outlives what the first one's attempt deletes.
        if resume_from and (job.users_resume or (job.folder.path and resume_from.path)):
            ray_snapshot.seed(job.checkpoints, resume_from)
        ray_cluster.start(spec)
        driver.show(Starting(time=time.time(), phase="workers"))
        cluster = ray_cluster.nodes(admitted=launch.place.identity is not None)
        data_labels, ignored = group_label(spec.data.placement, cluster)
        worker_labels = worker_label(spec, cluster)
        notes = [*launch.notes, *([f"spec.data.placement: {ignored}"] if ignored else [])]
        for note in notes:
            driver.show(WarningEvent(time=time.time(), message=note))
        coordinator = launch.place.coordinator or actor.start(spec, launch.started)
        disk_cache = _disk_cache(launch, driver)
        feeding = begin_to_feed(prepared, coordinator, cluster, data_labels, disk_cache)
        if job.users_resume:
            coordinator.report(ray_snapshot.reported_at(job.users_resume), [])
        fitting = _Fitting(make_trainer(job, prepared, coordinator, worker_labels), feeding)
    fitting.start()
    return driver.watch(coordinator, fitting)


def _disk_cache(launch: Launch, driver: AttemptMonitor) -> DiskCache:
    """Return the rows that an attempt caches on disk; delete those that it cannot use."""
    from trainshed.data.loader.disk_cache import DiskCache

    prepared, attempt = launch.prepared, driver.attempt
    cached = [plan for plan in prepared.plans.values() if plan.cache == "disk"]
    if not cached:
        return DiskCache(attempt.folder / ROWS)
    earlier = tuple(rows_before(prepared, attempt.number))
    is_resumed = launch.resume_from is not None
    whole = {plan.name for plan in cached if plan.is_made_whole}
    if left := delete_left_rows(prepared.folder, attempt.number, earlier, whole):
        driver.show(WarningEvent(time=time.time(), message=left))
    code = prepared.spec.code.model_dump_json(by_alias=True, exclude_defaults=True)
    own = read_record(attempt.folder)
    of_same_code = tuple(
        each
        for each in earlier
        if own and (record := read_record(each.parent)) and record.code == own.code
    )
    return DiskCache(attempt.folder / ROWS, earlier, code, is_resumed, of_same_code)


def begin_to_feed(
    prepared: Prepared,
    coordinator: Coordinator,
    cluster: ClusterNodes,
    labels: Mapping[str, str],
    disk_cache: DiskCache,
) -> ray.ObjectRef[None]:
    """Let the coordinator begin to feed the workers.

    Args:
        prepared: the run.
        coordinator: of it.
        cluster: as it is now.
        labels: of the nodes that data must be on.
        disk_cache: where rows are kept on disk.
    """
    from trainshed.data.loader.data_server import ExecutionLimits

    limits = ExecutionLimits(prepared.spec.data.cpus, tuple(labels.items()))
    means, handle = means_of(prepared, cluster), handle_of(coordinator)
    return cast(
        "ray.ObjectRef[None]", handle.feed.remote(prepared.plans, limits, means, disk_cache)
    )


def means_of(prepared: Prepared, cluster: ClusterNodes) -> Means:
    """Return what the rows of a run are prepared with."""
    spec = prepared.spec
    return Means(
        cpus=spec.data.cpus,
        workers=spec.workers.count,
        cores=None if ray_cluster.in_cluster() else prepared.machine.cpus,
        object_store=cluster_memory(spec, cluster).object_store or None,
        epochs=spec.epochs,
        reads_ahead=not FRAMEWORKS[spec.framework].has_batches,
    )


class _Fitting(threading.Thread):
    """Runs the trainer in a thread, so that the driver can watch the run."""

    def __init__(self, trainer: Trainer, feeding: ray.ObjectRef[None]) -> None:
        super().__init__(name=ray_cluster.AT_WORK, daemon=True)
        self._trainer = trainer
        self._feeding = feeding
        self.error: Exception | None = None

    def run(self) -> None:
        import ray

        try:
            ray.get(self._feeding)
            self._trainer.fit()
        except Exception as error:
            self.error = error


def make_job(launch: Launch, attempt: ClaimedAttempt) -> AttemptConfig:
    """Return the job that the workers of an attempt receive."""
    return job_of(launch.prepared, attempt.number, attempt.folder, launch.resume_from)


def job_of(
    prepared: Prepared, number: int, folder: Folder, resume: Folder | None = None
) -> AttemptConfig:
    """Return the job that workers receive.

    Args:
        prepared: the run.
        number: of the attempt.
        folder: of the attempt.
        resume: checkpoint that it goes on from.
    """
    from trainshed.checkpoint.store import is_of_run
    from trainshed.worker.attempt_config import AttemptConfig

    spec = prepared.spec
    assert spec.train
    ours = resume is not None and is_of_run(resume)
    return AttemptConfig(
        name=prepared.run.metadata.name,
        train=spec.train,
        attempt=number,
        folder=folder,
        resume_from=resume if ours else None,
        users_resume=None if ours else resume,
        spec_hash=prepared.spec_hash,
        spec=spec,
        threads=max(1, int(parse_cores(spec.workers.resources.cpu))),
        plans=prepared.plans,
    )


def make_trainer(
    job: AttemptConfig, prepared: Prepared, coordinator: Coordinator, labels: Mapping[str, str]
) -> Trainer:
    """Return Ray's trainer for a job.

    Args:
        job: what the workers are told.
        prepared: the run.
        coordinator: of it.
        labels: of the nodes on which the workers run.
    """
    from ray.train.v2.api.config import (
        CheckpointConfig,
        FailureConfig,
        LoggingConfig,
        RunConfig,
        ScalingConfig,
    )

    from trainshed.ray_train.trainer import Trainer
    from trainshed.worker.process import Worker

    spec = prepared.spec
    resources = spec.workers.resources
    best = spec.checkpoint.best
    framework = frameworks.named(spec.framework)
    filesystem, storage_path = as_ray_has_it(job.folder)
    return Trainer(
        coordinator,
        job.checkpoints,
        train_loop_per_worker=Worker(job, coordinator, framework),
        backend_config=framework.backend(resources.gpu),
        train_loop_config=dict(spec.config),
        scaling_config=ScalingConfig(
            num_workers=spec.workers.count,
            use_gpu=resources.gpu > 0,
            resources_per_worker=worker_resources(spec),
            label_selector=dict(labels) or None,
        ),
        run_config=RunConfig(
            name=job.checkpoints.name,
            storage_path=storage_path,
            storage_filesystem=filesystem,
            failure_config=FailureConfig(max_failures=MAX_WORKER_LOSSES),
            checkpoint_config=CheckpointConfig(
                num_to_keep=spec.checkpoint.keep,
                checkpoint_score_attribute=best.metric if best else None,
                checkpoint_score_order=best.mode if best else "max",
            ),
            logging_config=LoggingConfig(log_level="ERROR"),
        ),
    )
