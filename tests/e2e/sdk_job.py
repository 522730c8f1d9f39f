"""Does with Ray's SDK what one does with a job, from submit to delete; prints each answer."""

import time

from ray.job_submission import JobStatus, JobSubmissionClient

JOB = "by-sdk"
PATIENCE_SECONDS = 60


def main() -> None:
    """Submit a job, look at it, stop it, and have it forgotten."""
    client = JobSubmissionClient()
    client.submit_job(
        entrypoint="python -c \"print('sdk was here', flush=True); import time; time.sleep(300)\"",
        submission_id=JOB,
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "sdk was here" not in client.get_job_logs(JOB) and time.monotonic() < deadline:
        time.sleep(0.5)
    print("status", client.get_job_status(JOB).value)
    print("logs", client.get_job_logs(JOB).strip())
    print("listed", any(job.submission_id == JOB for job in client.list_jobs()))
    print("stopped", client.stop_job(JOB))
    while client.get_job_status(JOB) == JobStatus.RUNNING and time.monotonic() < deadline:
        time.sleep(0.5)
    print("status", client.get_job_status(JOB).value)
    print("deleted", client.delete_job(JOB))
    print("listed", any(job.submission_id == JOB for job in client.list_jobs()))


if __name__ == "__main__":
    main()
