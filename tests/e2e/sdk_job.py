"""Does with Ray's SDK what one does with a job, from submit to delete; prints each answer."""

import time

from ray.job_submission import JobStatus, JobSubmissionClient

JOB = "by-sdk"
SAID = "sdk was here"
PATIENCE_SECONDS = 120


def main() -> None:
    """Submit a job, look at it, stop it, and have it forgotten."""
    client = JobSubmissionClient()
    client.submit_job(
        entrypoint=f"python -c \"print('{SAID}', flush=True); import time; time.sleep(300)\"",
        submission_id=JOB,
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    # A line of its own: Ray says first what it starts.
    while SAID not in client.get_job_logs(JOB).splitlines() and time.monotonic() < deadline:
        time.sleep(0.5)
    print("status", client.get_job_status(JOB).value)
    print("logs", client.get_job_logs(JOB).splitlines()[-1])
    print("listed", any(job.submission_id == JOB for job in client.list_jobs()))
    print("stopped", client.stop_job(JOB))
    while client.get_job_status(JOB) == JobStatus.RUNNING and time.monotonic() < deadline:
        time.sleep(0.5)
    print("status", client.get_job_status(JOB).value)
    print("deleted", client.delete_job(JOB))
    print("listed", any(job.submission_id == JOB for job in client.list_jobs()))


if __name__ == "__main__":
    main()
