"""All that a decision about one run depends on. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from trainshed_api.errors import SpecError
from trainshed_api.job import encode_run
from trainshed_api.spechash import same_training
from trainshed_controller.project import Said, with_conditions, with_phase
from trainshed_controller.release import holding_attempt, release_ended, unconfirmed
from trainshed_controller.render import unacceptable
from trainshed_controller.status import open_attempt, started, told, whole, with_attempt

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import AttemptStatus, TrainingRunStatus
    from trainshed_api.v1alpha1 import TrainingRunSpec
    from trainshed_controller.judge import Ending
    from trainshed_controller.model import Observed, RayJobView, RunView, Settings

# What follows may be a driver's own words: a number that is no exit code is none of Ray's.
_EXIT_CODE = re.compile(r"failed with exit code (-?[0-9]{1,9})(?![0-9])")

StateName = Literal[
    "Finished",
    # An attempt is under way.
    "Unreadable",
    "AwaitsLastWord",
    "Ended",
    "Stopping",
    "Creating",
    "Refused",
    "QueuedByKueue",
    "Starting",
    "Training",
    "WorkersLost",
    # What follows the end of an attempt, or instead of one.
    "Succeeded",
    "Failed",
    "Retrying",
    # No attempt is under way.
    "Blocked",
    "Suspended",
    "Unreleased",
    "BackingOff",
    "NameTaken",
    "AwaitsQueue",
    "Waiting",
    "Admitted",
]


class State(NamedTuple):
    """Where a run stands.

    again_after: seconds after which to look again even if nothing happens. ending: of an attempt
    that ended and is still open in the status.
    """

    name: StateName
    reason: str = ""
    message: str = ""
    again_after: float | None = None
    ending: Ending | None = None


@dataclass(frozen=True)
class Facts:
    """One look at one run.

    status: that of the view, with what this look adds to it. refused: reason and message of what
    makes the run impossible as it stands.
    """

    view: RunView
    seen: Observed
    settings: Settings
    now: datetime
    status: TrainingRunStatus
    refused: tuple[str, str] | None = None

    def having(self, status: TrainingRunStatus) -> Facts:
        """Return the facts with a newer status."""
        return replace(self, status=status)

    @property
    def spec(self) -> TrainingRunSpec:
        """Return what the run asks for; only where it can be read."""
        assert self.view.run
        return self.view.run.spec

    @property
    def grace_seconds(self) -> float:
        """Return how long a driver may take to stop."""
        return self.spec.grace_period_seconds if self.view.run else 0.0

    @property
    def attempt(self) -> AttemptStatus:
        """Return the newest attempt of a run that has one."""
        return self.status.attempts[-1]

    @property
    def is_open(self) -> bool:
        """Return whether an attempt is under way."""
        return open_attempt(self.status) is not None

    @property
    def is_finished(self) -> bool:
        """Return whether the run is complete or failed."""
        return self.status.holds("Complete") or self.status.holds("Failed")

    @property
    def posts(self) -> bool:
        """Return whether the driver of the newest attempt was started, and has somebody to tell."""
        return self.attempt.start_time is not None and bool(self.settings.progress_url)

    @property
    def job(self) -> RayJobView | None:
        """Return the RayJob of the newest attempt."""
        return self.seen.ray_job

    @property
    def snapshot(self) -> Snapshot | None:
        """Return what the driver of the newest attempt reported last."""
        return self.seen.snapshot

    @property
    def last_word(self) -> Snapshot | None:
        """Return what the driver of the newest attempt reported at its end."""
        return self.snapshot if self.snapshot and self.snapshot.state == "Ended" else None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of that driver, from itself or from Ray's message."""
        if self.last_word and self.last_word.exit_code is not None:
            return self.last_word.exit_code
        found = _EXIT_CODE.search(self.job.message) if self.job else None
        return int(found[1]) if found else None

    @property
    def active_seconds(self) -> float:
        """Return how long the run has been neither queued nor suspended."""
        status = self.status
        idle = status.time.queued + status.time.suspended
        if status.phase in ("Queued", "Suspended") and status.phase_time:
            idle += (self.now - status.phase_time).total_seconds()
        return (self.now - self.view.created).total_seconds() - idle

    @property
    def provisioned_seconds(self) -> float:
        """Return for how long the newest attempt is admitted; none while Kueue holds its RayJob."""
        admitted = self.status.condition("Admitted")
        if admitted is None or admitted.status != "True":
            return 0.0
        return (self.now - admitted.last_transition_time).total_seconds()


def facts_of(view: RunView, seen: Observed, settings: Settings, now: datetime) -> Facts:
    """Return the facts about a run, with what is new of it in their status."""
    facts = Facts(view, seen, settings, whole(now), view.status)
    if facts.is_finished:
        if holding_attempt(view.status) or unconfirmed(view.status):
            facts = facts.having(release_ended(view.status, seen, facts.grace_seconds, facts.now))
        return facts
    facts = replace(facts, refused=_refusal(facts))
    if facts.is_open:
        return _note_progress(facts) if view.run else facts
    return _note_wait(facts)


def final_refusal(facts: Facts) -> str:
    """Return why the run fails as it stands: what was accepted once is the platform's fault."""
    if facts.refused is None or facts.is_open:
        return ""
    reason, message = facts.refused
    is_new = reason != "NoSuchClass" and facts.status.condition("Accepted") is None
    return message if is_new or reason in ("TrainingChanged", "TooLarge") else ""


def _refusal(facts: Facts) -> tuple[str, str] | None:
    """Return why the run as it stands cannot be run."""
    run = facts.view.run
    known = facts.attempt if facts.status.attempts else None
    if run is None or facts.view.problem:
        return "Invalid", facts.view.problem
    if known and not same_training(run.spec, known.spec_hash, known.training_hash):
        message = (
            "the training was changed under the name of a run that began already; create it under "
            "another name, or delete it first"
        )
        return "TrainingChanged", message
    if not facts.is_open:
        try:
            encode_run(run)
        except SpecError as error:
            return "TooLarge", str(error)
    return unacceptable(run, facts.settings)


def _note_wait(facts: Facts) -> Facts:
    """Return the facts with what is released by now, and with the end of a pause, in the status."""
    now = facts.now
    status = release_ended(facts.status, facts.seen, facts.grace_seconds, now)
    if final_refusal(facts):
        return facts.having(status)
    if status.phase is None:
        # Waiting begins with the object, however late somebody looks.
        status = with_phase(status, "Queued", whole(facts.view.created))
    if status.holds("Suspended") and not facts.refused and not facts.spec.suspend:
        said = Said(False, "Resumed")
        generation = facts.view.generation
        status = with_conditions(status, {"Suspended": said, "Admitted": said}, now, generation)
        status = with_phase(status, "Queued", now)
    return facts.having(status)


def _note_progress(facts: Facts) -> Facts:
    """Return the facts with start, head and progress of the attempt under way in the status."""
    status, attempt, job, seen = facts.status, facts.attempt, facts.job, facts.seen
    snapshot = seen.snapshot if seen.snapshot and seen.snapshot.attempt == attempt.number else None
    # KubeRay says Running before it gives the job to a head: another one may be there by then.
    has_job = snapshot is not None or (job is not None and bool(job.job_status))
    begun = has_job or (job is not None and job.deployment_status == "Running")
    if attempt.start_time is None and begun:
        status = started(status, attempt, facts.now)
        attempt = status.attempts[-1]
    update: dict[str, str] = {}
    if job and job.cluster and not attempt.ray_cluster:
        update["ray_cluster"] = job.cluster
    if has_job and not attempt.head_identity and seen.head and seen.head.identity:
        update["head_identity"] = seen.head.identity
    if update:
        attempt = attempt.model_copy(update=update)
        status = with_attempt(status, attempt)
    if attempt.ray_cluster and facts.settings.dashboard_url:
        url = facts.settings.dashboard_url.format(
            namespace=facts.view.namespace, cluster=attempt.ray_cluster
        )
        status = status.model_copy(update={"dashboard": url})
    if snapshot:
        status = told(status, attempt, snapshot, facts.spec.data.datasets)
    return facts.having(status)
