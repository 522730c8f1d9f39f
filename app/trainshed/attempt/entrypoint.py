"""Entrypoint mode: a script that starts Ray Train by itself, on this run's Ray, storage and name.

The script is told in its environment all that it needs; its reports come back through callbacks
of Ray Train (ray_train/report_relay.py) to the coordinator, which it finds by name.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING

from trainshed.attempt.command import Command
from trainshed.attempt.result import AttemptResult
from trainshed.checkpoint import ray_snapshot
from trainshed.coordinator.run_state import Reported
from trainshed.ray_train import ray_cluster
from trainshed.storage.run_folder import RAY_FOLDER
from trainshed_api.names import (
    APPLICATION,
    ENV_NUM_WORKERS,
    ENV_RUN_NAME,
    ENV_STORAGE,
    FAILED,
    STOPPED,
)
from trainshed_api.progress import Started, WarningEvent

if TYPE_CHECKING:
    from trainshed.attempt.launch_config import Launch
    from trainshed.attempt.monitor import AttemptMonitor
    from trainshed.storage.folder import Folder
    from trainshed_api.v1alpha1 import TrainingRunSpec


def follow(launch: Launch, driver: AttemptMonitor) -> AttemptResult:
    """Run the command of an attempt to its end and return how it ended."""
    from trainshed.coordinator import start as actor

    prepared, attempt = launch.prepared, driver.attempt
    spec = prepared.spec
    resumed = Reported()
    with driver.stop.interrupting():
        if launch.resume_from:
            ray_snapshot.seed(attempt.folder / RAY_FOLDER, launch.resume_from)
            resumed = ray_snapshot.reported_at(launch.resume_from)
        ray_cluster.start(spec)
        # Another run on the same cluster may have the same name.
        name = f"{prepared.run.metadata.name}-{attempt.number}-{uuid.uuid4().hex[:8]}"
        coordinator = actor.start(spec, launch.started, name)
        started = Started(
            time=time.time(),
            run=prepared.run.metadata.name,
            attempt=attempt.number,
            workers=spec.workers.count,
            folder=str(prepared.folder.at),
            resumed_from=resumed.resume_point,
        )
        coordinator.report(resumed, [started])
        for note in launch.notes:
            driver.show(WarningEvent(time=time.time(), message=note))
        environment = environment_of(spec, attempt.folder, ray_cluster.address(), name)
    command = Command(prepared.command, environment, driver.stop)
    try:
        verdict = driver.watch(coordinator, command)
    finally:
        command.close()
    return _judge(verdict, command, " ".join(spec.entrypoint or ()))


def environment_of(
    spec: TrainingRunSpec, folder: Folder, address: str, name: str
) -> dict[str, str]:
    """Return the whole environment of the command.

    Args:
        spec: of the run.
        folder: of the attempt, the command's storage.
        address: of Ray.
        name: of the coordinator.
    """
    from trainshed.coordinator.start import NAMESPACE
    from trainshed.ray_train import report_relay

    environment = dict(os.environ) | dict(spec.env)
    kinds: list[type] = [
        report_relay.ScriptRelay,
        report_relay.HeldUp,
        report_relay.UnreadCheckpoint,
    ]
    if not ray_cluster.in_cluster():
        kinds.append(report_relay.NoCleaner)
    callbacks = [f"{kind.__module__}.{kind.__name__}" for kind in kinds]
    theirs = environment.get("RAY_TRAIN_CALLBACKS")
    environment |= {
        "RAY_ADDRESS": address,
        "RAY_TRAIN_CALLBACKS": ",".join([*([theirs] if theirs else []), *callbacks]),
        # A pipe is no terminal: without this its prints would come in one piece at the end.
        "PYTHONUNBUFFERED": "1",
        report_relay.ENV_COORDINATOR: f"{NAMESPACE}/{name}",
        ENV_NUM_WORKERS: str(spec.workers.count),
        ENV_STORAGE: str(folder),
        ENV_RUN_NAME: RAY_FOLDER,
    }
    if spec.env:  # for its workers, which are no children of it
        environment |= ray_cluster.for_workers(os.environ, spec.env)
        environment["RAY_OVERRIDE_JOB_RUNTIME_ENV"] = "1"
    return environment


def _judge(verdict: AttemptResult, command: Command, words: str) -> AttemptResult:
    if verdict.outcome == STOPPED:  # not within its grace period
        return verdict
    if command.told:
        return AttemptResult(STOPPED, f"{command.told}: {words} {_say_end(command.code)}")
    if command.code:
        last = f": {command.last_words}" if command.last_words else ""
        message = f"{words} {_say_end(command.code)}{last}"
        return AttemptResult(FAILED, message, cause=APPLICATION)
    return verdict


def _say_end(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by signal {-code}"
    return f"ended with exit code {code}"
