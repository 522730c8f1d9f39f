"""How an attempt ended: result.json, report.html and the last event."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trainshed.attempt import resume
from trainshed.attempt.disk_cache_gc import delete_rows
from trainshed.attempt.track import track_end
from trainshed.checkpoint import store as checkpoint
from trainshed.coordinator.stage_rates import stages_of
from trainshed.failures import InfrastructureError
from trainshed.retry import READS
from trainshed.storage.run_folder import REPORT, RESULT
from trainshed_api.names import SUCCEEDED
from trainshed_api.progress import Finished, Seconds
from trainshed_api.records import (
    BadRecordsRecord,
    CheckpointRecord,
    ResultRecord,
    bad_records_of,
    most_bad_records,
)

if TYPE_CHECKING:
    from trainshed.attempt.monitor import AttemptMonitor
    from trainshed.attempt.result import AttemptResult
    from trainshed.storage.folder import Folder

NO_MODEL = (
    "No model was saved: the training function reported no checkpoint. Pass checkpoint= to "
    "ray.train.report, or use trainshed.current() with track(model, optimizer) and epochs()."
)


def write_ending(driver: AttemptMonitor, verdict: AttemptResult, started: float) -> None:
    """Write result.json and the report, and show the last event; report what cannot be written."""
    from trainshed.report import write_report
    from trainshed.report.load import NoRunFolderError

    result = _result(driver, verdict, started)
    folder = driver.prepared.folder
    superseded = _is_superseded(driver)
    try:
        if not superseded:
            text = result.model_dump_json(by_alias=True, indent=1).encode()
            READS.read(lambda: folder.at.write(RESULT, text))
            driver.written.add(RESULT)
    except OSError as error:
        driver.warn(f"no {folder.at / RESULT}: {error}")
    finished = Finished(
        time=result.finished_at.timestamp(),
        outcome=result.outcome,
        message=result.message,
        metrics=result.metrics,
        seconds=result.seconds,
        wall_seconds=result.wall_seconds,
        goodput=result.goodput,
        report=result.report,
    )
    driver.keep(finished)
    driver.end_events()  # the report reads them
    try:
        if not superseded:
            write_report(folder.at)
            driver.written.add(REPORT)
    except (OSError, NoRunFolderError) as error:
        driver.warn(f"no {result.report}: {error}")
        finished = finished.model_copy(update={"report": None})
    if not superseded:
        track_end(driver, result)
        driver.sweep()
        if result.outcome == SUCCEEDED and (problem := delete_rows(folder)):
            driver.warn(problem)
    driver.close(finished)


def _is_superseded(driver: AttemptMonitor) -> bool:
    """Say whether a later attempt owns the files of the run's folder."""
    if driver.fenced:
        return True
    folder = driver.prepared.folder
    try:
        return driver.attempt.number != max(READS.read(folder.attempts))
    except OSError as error:
        driver.warn(f"{folder.at} does not answer, and has no end of this attempt: {error}")
        return True


def _result(driver: AttemptMonitor, verdict: AttemptResult, started: float) -> ResultRecord:
    prepared, view = driver.prepared, driver.view
    now = time.time()
    wall = now - started
    spent = dict(view.seconds) if view else {}
    # What the driver did by itself, before the first look or since the last one.
    alone = now - (view.time if view else started)
    bucket = "stopping" if view and view.groups else "starting"
    spent[bucket] = spent.get(bucket, 0.0) + alone
    ending = view.ending if view else None
    known = driver.known
    kept = known.checkpoint
    note = ending.note if ending and verdict.outcome == SUCCEEDED else ""
    message = verdict.message or note or _missing_model(driver, verdict)
    return ResultRecord(
        outcome=verdict.outcome,
        epoch=known.epoch,
        epochs=prepared.spec.epochs,
        step=known.step,
        metrics=dict(known.metrics),
        seconds=Seconds.model_validate(spent),
        wall_seconds=wall,
        goodput=spent.get("training", 0.0) / wall,
        samples_per_second=ending.rate if ending else None,
        data_wait_percent=ending.data_wait_percent if ending else None,
        waits_for=view.waits_for if view else None,
        data=stages_of(prepared.plans, view.spent) if view else [],
        checkpoint=CheckpointRecord(path=kept[0], epoch=kept[1], step=kept[2]) if kept else None,
        best=_best(driver),
        attempt=driver.attempt.number,
        message=message,
        finished_at=datetime.fromtimestamp(now, UTC),
        report=str(prepared.folder.at / REPORT),
        bad_records=_bad_records(driver),
    )


def _missing_model(driver: AttemptMonitor, verdict: AttemptResult) -> str:
    """Return what to say of a run that succeeded without a checkpoint; empty where it has one."""
    # What a script of the user's own saves is not told here.
    if verdict.outcome != SUCCEEDED or driver.known.checkpoint or driver.prepared.command:
        return ""
    try:
        if checkpoint.candidates(_checkpoint_folders(driver)):
            return ""
    except (OSError, InfrastructureError) as error:
        driver.warn(f"could not read whether a checkpoint was saved: {error}")
        return ""
    return NO_MODEL


def _bad_records(driver: AttemptMonitor) -> dict[str, BadRecordsRecord]:
    """Return the bad records of each dataset, found by this attempt and earlier ones."""
    from trainshed.report.load import read_events

    if all(plan.bad_record_limit is None for plan in driver.prepared.plans.values()):
        return {}
    met = [bad_records_of(driver.bad_records)]
    folder = driver.prepared.folder
    try:
        for earlier in resume.ancestors_of(driver.prepared, driver.attempt.number):
            met.append(bad_records_of(read_events(folder.attempt(earlier))))
    except (OSError, InfrastructureError) as error:
        driver.warn(f"could not read the bad records of earlier attempts: {error}")
    known = most_bad_records(met)
    for name, bad in known.items():
        driver.warn(
            f"spec.data.datasets.{name}: {bad.rows} rows in all could not be used and were left "
            f"out; {folder.at / RESULT} names the first of them"
        )
    return known


def _best(driver: AttemptMonitor) -> CheckpointRecord | None:
    """Return the best checkpoint that is kept, of an attempt and those that it goes on with."""
    wanted = driver.prepared.spec.checkpoint.best
    if wanted is None:
        return None
    try:
        found = checkpoint.best(_checkpoint_folders(driver), wanted.metric, wanted.mode)
    except (OSError, InfrastructureError) as error:
        driver.warn(
            f"could not find the best checkpoint, because the storage does not answer: {error}"
        )
        return None
    if found is None:
        return None
    path, manifest = found
    position = manifest.position
    return CheckpointRecord(path=str(path), epoch=position.epoch, step=position.step)


def _checkpoint_folders(driver: AttemptMonitor) -> list[Folder]:
    """Return the folders of checkpoints of an attempt and of those that it resumes, in order."""
    folder, number = driver.prepared.folder, driver.attempt.number
    earlier = resume.ancestors_of(driver.prepared, number)
    return [folder.checkpoints(each) for each in [*earlier, number]]
