"""The states of a RayJob in HTTPMode: pure; each function changes the status it is given."""

from datetime import UTC, datetime, timedelta

from tests.kuberay.clusterstatus import is_worth_writing as cluster_status_changed
from tests.kuberay.names import LABEL_CLUSTER
from tests.kuberay.raydashboard import TERMINAL, JobInfo
from tests.kuberay.rayresources import RayClusterStatus, RayJob, RayJobInfo, RayJobStatus

OVER = {"Complete", "Failed"}


def begin(job: RayJob, suffix: str, now: datetime) -> None:
    """Give the job its id and its cluster, before either is made: so neither is made twice."""
    status = job.status
    status.job_id = status.job_id or job.spec.job_id or f"{job.name}-{suffix}"
    selected = job.spec.cluster_selector.get(LABEL_CLUSTER)
    status.ray_cluster_name = status.ray_cluster_name or selected or f"{job.name}-{suffix}"
    status.job_deployment_status = "Initializing"
    status.start_time = now


def refuse(job: RayJob, fault: str) -> None:
    """End the job for good: nothing leads out of this state, and nothing is cleaned up."""
    job.status.job_deployment_status = "ValidationFailed"
    job.status.reason = "ValidationFailed"
    job.status.message = fault


def suspend_if_asked(job: RayJob) -> bool:
    """Begin to suspend a job that is to be; return whether it is."""
    if job.spec.suspend:
        job.status.job_deployment_status = "Suspending"
    return job.spec.suspend


def fail_past_deadline(job: RayJob, now: datetime) -> bool:
    """Fail a job that is past a deadline; return whether it is."""
    spec, start = job.spec, job.status.start_time
    limits = [(spec.active_deadline_seconds, "activeDeadlineSeconds", "DeadlineExceeded")]
    if job.status.job_deployment_status == "Initializing":
        limits.append(
            (
                spec.pre_running_deadline_seconds,
                "preRunningDeadlineSeconds",
                "PreRunningDeadlineExceeded",
            )
        )
    for seconds, field, reason in limits:
        if seconds is not None and start is not None and now >= start + timedelta(seconds=seconds):
            text = f"StartTime: {start}. {field[0].upper()}{field[1:]}: {seconds}"
            _fail(job.status, reason, f"The RayJob has passed the {field}. {text}")
            return True
    return False


def fail_unanswered(job: RayJob, timeout_seconds: float, now: datetime) -> bool:
    """Fail a job whose dashboard has not answered for too long; return whether it is so."""
    since = job.status.job_status_check_failure_start_time
    if since is None or now < since + timedelta(seconds=timeout_seconds):
        return False
    text = f"Job status checks have been failing since {since:%Y-%m-%d %H:%M:%S}"
    limit = f"exceeded timeout of {int(timeout_seconds)}s"
    _fail(job.status, "JobStatusCheckTimeoutExceeded", f"{text}; {limit}")
    return True


def take_job_info(job: RayJob, info: JobInfo, cluster: RayClusterStatus) -> None:
    """Take over what Ray says of the job; a job that was stopped is Complete."""
    status = job.status
    status.job_status_check_failure_start_time = None
    status.ray_cluster_status = cluster
    status.job_status, status.message = info.status, info.message
    if info.status == "FAILED":
        status.job_deployment_status, status.reason = "Failed", "AppFailed"
    elif info.status in TERMINAL:
        status.job_deployment_status, status.reason = "Complete", ""
    else:
        status.job_deployment_status, status.reason = "Running", ""
    old = status.ray_job_info
    status.ray_job_info = RayJobInfo(
        start_time=_moment(info.start_time) or old.start_time,
        end_time=_moment(info.end_time) or old.end_time,
    )


def forget_attempt(job: RayJob) -> None:
    """Clear what belongs to an attempt when nothing of it is left."""
    old = job.status
    job.status = RayJobStatus(
        job_deployment_status="Suspended",
        succeeded=old.succeeded,
        failed=old.failed,
        start_time=old.start_time,
        end_time=old.end_time,
    )


def count_outcome(job: RayJob) -> None:
    """Count how the attempt ended."""
    status = job.status
    status.failed, status.succeeded = status.failed or 0, status.succeeded or 0
    if status.job_deployment_status == "Complete" and status.job_status == "SUCCEEDED":
        status.succeeded += 1
    if status.job_deployment_status == "Failed":
        status.failed += 1


def is_worth_writing(old: RayJobStatus, new: RayJobStatus) -> bool:
    """Return whether KubeRay would write the new status: a message alone is no reason."""
    return (
        old.job_status != new.job_status
        or old.job_deployment_status != new.job_deployment_status
        or cluster_status_changed(old.ray_cluster_status, new.ray_cluster_status)
        or old.job_status_check_failure_start_time != new.job_status_check_failure_start_time
    )


def _fail(status: RayJobStatus, reason: str, message: str) -> None:
    status.job_deployment_status, status.reason, status.message = "Failed", reason, message


def _moment(milliseconds: int) -> datetime | None:
    return datetime.fromtimestamp(milliseconds // 1000, UTC) if milliseconds else None
