"""The port of a Ray head: takes jobs and says that they run, until there is the file `silent`.

From then on it takes requests and never answers. Runs alone, as `python -c` of this text.
"""

import json
import pathlib
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SILENT = pathlib.Path("/tmp/silent")  # of its Pod
JOBS: dict[str, object] = {}


class Answer(BaseHTTPRequestHandler):
    """Answers as Ray's dashboard does, as far as the operator and the controller ask."""

    def do_GET(self) -> None:
        """Tell of a job; of anything else say that all is well."""
        self.wait_while_silent()
        job = self.path.partition("/api/jobs/")[2]
        if not job:
            self.say(200, {"version": "4", "ray_version": "2.60.0"})
        elif job in JOBS:
            self.say(200, JOBS[job])
        else:
            self.say(404, {"detail": f"Job {job} does not exist"})

    def do_POST(self) -> None:
        """Take a job, or stop one."""
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.wait_while_silent()
        if self.path.endswith("/stop"):
            JOBS[self.path.split("/")[-2]] = make_job("", "STOPPED")
            self.say(200, {"stopped": True})
            return
        job = json.loads(text)["submission_id"]
        JOBS[job] = make_job(job, "RUNNING")
        self.say(200, {"job_id": job, "submission_id": job})

    def wait_while_silent(self) -> None:
        """Wait."""
        while SILENT.exists():
            time.sleep(1)

    def say(self, status: int, what: object) -> None:
        """Answer."""
        text = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def make_job(job: str, status: str) -> dict[str, object]:
    """Return what is told of a job."""
    return {
        "type": "SUBMISSION",
        "submission_id": job,
        "job_id": None,
        "status": status,
        "entrypoint": "none",
        "message": "",
        "start_time": int(time.time() * 1000),
    }


ThreadingHTTPServer(("", 8265), Answer).serve_forever()
