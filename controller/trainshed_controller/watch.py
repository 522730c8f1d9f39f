"""What is done about an attempt that is under way. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from trainshed_api.names import SECONDS_AFTER_GRACE
from trainshed_controller import status as states
from trainshed_controller.asking import SILENT_SECONDS
from trainshed_controller.finish import finish
from trainshed_controller.judge import Case, Ending, judge
from trainshed_controller.left_out import with_bad_records
from trainshed_controller.model import Plan
from trainshed_controller.pod_trouble import IMAGE_PULL_FAILED, worst_trouble
from trainshed_controller.release import is_shared
from trainshed_controller.render import shared_cluster
from trainshed_controller.turn import to_delete

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import AttemptStatus, TrainingRunStatus
    from trainshed_controller.model import Observed, RayJobView
    from trainshed_controller.pod_trouble import PodTrouble
    from trainshed_controller.turn import Turn

SOON_SECONDS = 2.0
# Quotas change when somebody else ends, which nobody tells.
_REFUSED_SECONDS = 30.0
# How long an attempt of which the RayJob is refused holds capacity of a shared cluster.
_HOLDS_SECONDS = 60.0
REFUSED = "RayJobRefused"
WORKERS_LOST = "WorkersLost"
_MOST_NAMED = 3
# A head's answer, or its absence, requeues the run sooner.
_ANSWER_SECONDS = 30.0


def watch(turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus) -> Plan:
    """Return what is done about an open attempt, and about RayJobs of attempts before it."""
    plan = _watch(turn, status, attempt)
    # One that this process did not know when the attempt began: its driver may train as well.
    earlier = {before.ray_job for before in status.attempts[:-1]}
    strays = to_delete(tuple(job for job in turn.seen.strays if job.name in earlier))
    return replace(plan, delete_jobs=(*plan.delete_jobs, *strays)) if strays else plan


def _watch(turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus) -> Plan:
    """Return what is done about an open attempt: write down, judge, create, stop or wait."""
    status, attempt = _take_note(turn, status, attempt)
    if turn.seen.asking and turn.seen.ray_job and turn.seen.ray_job.is_terminal:
        # Its driver's last word is on its way, and says why it ended.
        return Plan(status, again_after=_ANSWER_SECONDS)
    case = Case(attempt, turn.run.spec, turn.seen, begun=_begun(status, turn.now), now=turn.now)
    ending = judge(case)
    if ending:
        return finish(turn, status, attempt, ending)
    status, attempt = _tell_to_stop(turn, status, attempt)
    if attempt.stop_time is not None:
        return _stopping(turn, status, attempt)
    if turn.seen.ray_job is None:
        # In the status, not yet created, and no snapshot from its driver: create it.
        return _create(turn, status, attempt)
    status = _say_how_it_is(turn, status, attempt)
    return Plan(status, again_after=_next_deadline(turn, status, attempt))


def _create(turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus) -> Plan:
    """Have the RayJob created; where it is refused, say why and try again slowly."""
    if turn.view.problem:
        # What can be read of a spec sees an attempt to its end; it is nothing to begin one with.
        return finish(turn, status, attempt, Ending("Invalid", "Invalid", turn.view.problem))
    refusal = turn.seen.refusal
    if refusal is None or refusal.attempt != attempt.number:
        return Plan(status, begin=attempt.number)
    status = turn.say(status, "Progressing", REFUSED, refusal.message, holds=False)
    said = status.condition("Progressing")
    since = said.last_transition_time if said else turn.now
    if is_shared(attempt) and (turn.now - since).total_seconds() >= _HOLDS_SECONDS:
        # Others may use the capacity; a refusal is not the run's failure.
        return finish(turn, status, attempt, Ending("Preempted", REFUSED, refusal.message))
    # A clock that is set back makes nobody wait for longer.
    left = min(_REFUSED_SECONDS - (turn.now - refusal.time).total_seconds(), _REFUSED_SECONDS)
    if left <= 0:
        return Plan(status, begin=attempt.number)
    return Plan(status, again_after=max(1.0, left))


def _take_note(
    turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus
) -> tuple[TrainingRunStatus, AttemptStatus]:
    """Return status and attempt with what is new: started, on which head, progress."""
    job, seen = turn.seen.ray_job, turn.seen
    snapshot = seen.snapshot if seen.snapshot and seen.snapshot.attempt == attempt.number else None
    begun = snapshot is not None or (
        job is not None and (job.deployment_status == "Running" or bool(job.job_status))
    )
    if attempt.start_time is None and begun:
        status = states.started(status, attempt, turn.now)
        attempt = status.attempts[-1]
    update: dict[str, str] = {}
    if job and job.cluster and not attempt.ray_cluster:
        update["ray_cluster"] = job.cluster
    # KubeRay says Running before it gives the job to a head: another one may be there by then.
    has_job = snapshot is not None or (job is not None and bool(job.job_status))
    if has_job and not attempt.head_identity and seen.head and seen.head.identity:
        update["head_identity"] = seen.head.identity
    if update:
        attempt = attempt.model_copy(update=update)
        status = states.with_attempt(status, attempt)
    if attempt.ray_cluster and turn.settings.dashboard_url:
        url = turn.settings.dashboard_url.format(
            namespace=turn.view.namespace, cluster=attempt.ray_cluster
        )
        status = status.model_copy(update={"dashboard": url})
    if snapshot:
        status = states.told(status, attempt, snapshot)
        status = with_bad_records(status, snapshot, turn.run.spec.data.datasets)
        attempt = status.attempts[-1]
    return status, attempt


def _begun(status: TrainingRunStatus, now: datetime) -> datetime:
    """Return when provisioning began; a RayJob that Kueue holds has not begun to."""
    admitted = status.condition("Admitted")
    return admitted.last_transition_time if admitted and admitted.status == "True" else now


def _tell_to_stop(
    turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus
) -> tuple[TrainingRunStatus, AttemptStatus]:
    """Return both with an order to stop where there is reason for one; an order stays."""
    if attempt.stop_time is not None:
        return status, attempt
    limit = turn.run.spec.active_deadline_seconds
    if turn.run.spec.suspend:
        reason = "Suspended"
    elif limit and states.active_seconds(status, turn.view.created, turn.now) >= limit:
        reason = "DeadlineExceeded"
    else:
        return status, attempt
    attempt = attempt.model_copy(update={"stop_time": turn.now, "stop_reason": reason})
    return states.with_attempt(status, attempt), attempt


def _stopping(turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus) -> Plan:
    """The driver hears of it in the answer to its next snapshot; after its grace it is stopped."""
    assert attempt.stop_time
    status = states.with_phase(status, "Stopping", turn.now)
    status = turn.say(status, "Progressing", attempt.stop_reason, "stopping", holds=True)
    grace = float(turn.run.spec.grace_period_seconds) + SECONDS_AFTER_GRACE
    if attempt.start_time is None:
        grace = 0.0  # nothing runs that could write a checkpoint
    left = (attempt.stop_time + timedelta(seconds=grace) - turn.now).total_seconds()
    job = turn.seen.ray_job
    if left <= 0 and job and not job.deleting:
        # KubeRay passes the deletion on to Ray as StopJob: SIGTERM, then the grace period.
        return Plan(status, delete_jobs=(job,), again_after=SOON_SECONDS)
    return Plan(status, again_after=max(SOON_SECONDS, left))


def _say_how_it_is(
    turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus
) -> TrainingRunStatus:
    seen, job = turn.seen, turn.seen.ray_job
    assert job
    if job.suspended and attempt.start_time is None:
        return _queued_by_kueue(turn, status, job)
    if not status.holds("Admitted"):
        status = turn.say(status, "Admitted", "Admitted", holds=True)
    waits = job.suspended or job.deployment_status in ("", "Initializing", "Waiting")
    if waits and not job.job_status:
        trouble = worst_trouble(seen.pods, seen.cluster)
        word = "suspended" if job.suspended else job.deployment_status or "new"
        message = trouble.message if trouble else f"RayJob {job.name} is {word}"
        status = turn.say(status, "ClusterReady", "PodTrouble" if trouble else "Waiting", message,
            holds=False,
        )  # fmt: skip
    else:
        name = f"RayCluster {attempt.ray_cluster}" if attempt.ray_cluster else ""
        status = turn.say(status, "ClusterReady", "Ready", name, holds=True)
    told = seen.snapshot is not None and seen.snapshot.state != "Starting"
    silent = attempt.start_time is not None and not turn.settings.progress_url
    # A run that trained does not return to Starting after a restart of the controller.
    trains = told or silent or status.phase in ("Running", "Restarting")
    silence = _silence(turn, attempt)
    if lost := _lost_workers(status, seen):
        status = states.with_phase(status, "Restarting", turn.now)
        reason, message = lost
        return turn.say(status, "Progressing", reason, silence or message, holds=True)
    status = states.with_phase(status, "Running" if trains else "Starting", turn.now)
    if trains:
        message = _troubles(seen.snapshot) if seen.snapshot else ""
        return turn.say(status, "Progressing", "Training", silence or message, holds=True)
    if trouble := _keeps_from_starting(turn):
        return turn.say(status, "Progressing", trouble.reason, trouble.message, holds=False)
    message = silence or f"RayJob {job.name}"
    return turn.say(status, "Progressing", "Starting", message, holds=True)


def _queued_by_kueue(turn: Turn, status: TrainingRunStatus, job: RayJobView) -> TrainingRunStatus:
    message = f"RayJob {job.name} waits for admission by Kueue"
    for kind in ("Admitted", "ClusterReady", "Progressing"):
        status = turn.say(status, kind, "QueuedByKueue", message, holds=False)
    return states.with_phase(status, "Queued", turn.now)


def _keeps_from_starting(turn: Turn) -> PodTrouble | None:
    """Return why Pods that the attempt may need do not start.

    On a shared cluster a Pod that no node takes may be of a group that the run does not use.
    """
    trouble = worst_trouble(turn.seen.pods, turn.seen.cluster)
    if trouble and trouble.reason != IMAGE_PULL_FAILED and shared_cluster(turn.run, turn.settings):
        return None
    return trouble


def _troubles(told: Snapshot) -> str:
    """Return what a driver says of a run that trains all the same; empty where all is well."""
    times = told.workers_lost
    lost = f"workers were lost and started again {times} times" if times else ""
    return "; ".join(filter(None, (lost, told.waits_for)))


def _lost_workers(status: TrainingRunStatus, seen: Observed) -> tuple[str, str] | None:
    """Return reason and message where workers are lost and not at work again.

    Pods that were named stay named until then, whatever the driver says next.
    """
    told = seen.snapshot
    if told is None or told.state != "Training":
        return None
    lost = [pod for pod in seen.gone if pod.name in told.hosts and not pod.is_head]
    if lost:
        where = ", ".join(f"Pod {pod.name} on node {pod.node}" for pod in lost[:_MOST_NAMED])
        return WORKERS_LOST, f"workers are lost and start again: {where}"
    if not told.restarting:
        return None
    said = status.condition("Progressing")
    if status.phase == "Restarting" and said and said.reason == WORKERS_LOST:
        return said.reason, said.message
    return "WorkersRestarting", told.warnings[-1] if told.warnings else "workers were lost"


def _silence(turn: Turn, attempt: AttemptStatus) -> str:
    """Return what is known of a driver that says nothing; empty for one that does."""
    silent = turn.seen.heard.silent_seconds
    if attempt.start_time is None or not turn.settings.progress_url or silent < SILENT_SECONDS:
        return ""
    ray = {True: "that its job is over", False: "that its job runs", None: "nothing either"}
    minutes = int(silent // 60)
    return f"no heartbeat from the driver for {minutes} minutes; Ray says {ray[turn.seen.over]}"


def _next_deadline(turn: Turn, status: TrainingRunStatus, attempt: AttemptStatus) -> float | None:
    """Return the seconds until the next deadline could pass."""
    spec, left = turn.run.spec, []
    if (
        spec.provisioning_deadline_seconds
        and attempt.start_time is None
        and status.holds("Admitted")
    ):
        waited = (turn.now - _begun(status, turn.now)).total_seconds()
        left.append(spec.provisioning_deadline_seconds - waited)
    if spec.active_deadline_seconds:
        active = states.active_seconds(status, turn.view.created, turn.now)
        left.append(spec.active_deadline_seconds - active)
    if attempt.start_time is not None and turn.settings.progress_url:
        # No event reports silence.
        left.append(SILENT_SECONDS - turn.seen.heard.silent_seconds % SILENT_SECONDS)
    return max(1.0, min(left)) if left else None
