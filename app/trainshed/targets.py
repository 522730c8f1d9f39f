"""Where a run trains: on this machine, as a job of a Ray cluster, or as an object in Kubernetes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from trainshed.jobs.cluster_error import ClusterError
from trainshed.jobs.kubectl import say_status
from trainshed.jobs.local_runs import find_logs, read_local_run, read_result, stop_local
from trainshed.report.load import AttemptHistory, read_run
from trainshed.storage.run_folder import RunFolder
from trainshed_api.names import EXIT_INVALID, SUCCEEDED
from trainshed_api.progress import parse_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.jobs.jobs_api import Jobs
    from trainshed.jobs.kubectl import Kubectl
    from trainshed.jobs.local_runs import LocalRun
    from trainshed.storage.folder import Folder
    from trainshed_api.progress import AnyEvent


class Target(Protocol):
    """A run where it trains.

    Raises:
        ClusterError: by all methods, if there is no such run or its cluster does not answer.
    """

    def ended(self) -> str | None:
        """Return why the run did not succeed, or an empty text if it did; None while it runs."""

    def stop(self) -> None:
        """Ask the run to stop after a checkpoint."""

    def logs(self) -> str:
        """Return what its last attempt has printed."""

    def attempts(self) -> Sequence[AttemptHistory]:
        """Return what its attempts have reported."""


@dataclass(frozen=True)
class LocalTarget:
    """A run on this machine, by its folder."""

    name: str
    folder: Folder

    def ended(self) -> str | None:
        """Return why it did not succeed, from its result."""
        found = self._begun()
        if found.is_running:
            return None
        result = read_result(self.folder)
        return "" if found.status == SUCCEEDED else (result and result.message) or found.status

    def stop(self) -> None:
        """Send its driver a signal."""
        if (found := self._begun()).is_running:
            stop_local(found)

    def logs(self) -> str:
        """Return the logs that its driver and its workers stored."""
        attempt = RunFolder(self.folder).attempt(self._begun().attempt)
        return "".join(line for name, at in find_logs(attempt) for line in at.lines(name))

    def attempts(self) -> Sequence[AttemptHistory]:
        """Return all that is in its folder."""
        return read_run(self.folder).attempts

    def _begun(self) -> LocalRun:
        if found := read_local_run(self.folder):
            return found
        raise ClusterError(f"{self.name} has not begun. Call run() first", EXIT_INVALID)


@dataclass(frozen=True)
class JobTarget:
    """A job of a Ray cluster."""

    jobs: Jobs
    job_id: str

    def ended(self) -> str | None:
        """Return why the job did not succeed, as Ray says it."""
        job = self.jobs.get(self.job_id)
        if not job.is_over:
            return None
        return "" if job.status == "SUCCEEDED" else f"{job.status}: {job.message}"

    def stop(self) -> None:
        """Ask Ray to stop it."""
        self.jobs.stop(self.job_id)

    def logs(self) -> str:
        """Return the log of its driver."""
        return self.jobs.logs(self.job_id)

    def attempts(self) -> Sequence[AttemptHistory]:
        """Return the events in the log."""
        return [history_of(self.logs())]


@dataclass(frozen=True)
class ObjectTarget:
    """A TrainingRun in Kubernetes."""

    cluster: Kubectl
    name: str

    def ended(self) -> str | None:
        """Return the phase if it is another than Succeeded, also of a suspended run."""
        status = self.cluster.resting(self.name)
        if status is None:
            return None
        return "" if status.phase == SUCCEEDED else say_status(status)

    def stop(self) -> None:
        """Suspend it."""
        self.cluster.suspend(self.name)

    def logs(self) -> str:
        """Return the log of the driver of its last attempt."""
        return "".join(self.cluster.log_lines(self.name))

    def attempts(self) -> Sequence[AttemptHistory]:
        """Return the events in the log."""
        return [history_of(self.logs())]


def history_of(log: str) -> AttemptHistory:
    """Return the events among the lines of a driver's log."""
    events: list[AnyEvent] = []
    for line in log.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                events.append(parse_event(line))
    return AttemptHistory(1, tuple(events))
