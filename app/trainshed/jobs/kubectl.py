"""TrainingRun objects by kubectl, which knows the user's clusters and who they are there."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.jobs.cluster_error import ClusterError
from trainshed.storage.driver_identity import UID_DIGITS
from trainshed_api.json_object import as_object, objects, text
from trainshed_api.names import EXIT_INVALID, EXIT_TRY_AGAIN, SNAPSHOT_LINE
from trainshed_api.status import TrainingRunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import JsonValue

    from trainshed_api.json_object import JsonObject

# Phases of a TrainingRun in which none of its Pods runs.
_AT_REST = ("Suspended", "Succeeded", "Failed")
# What kubectl prints if the API server cannot be reached, or answers with 429 or 5xx.
_NO_ANSWER = re.compile(
    r"was refused - did you|connection (refused|reset|lost|timed out)|TLS handshake timeout"
    r"|i/o timeout|Client\.Timeout|deadline exceeded|no route to host|network is unreachable"
    r"|no such host|unexpected EOF|etcdserver:|unable to handle the request"
    r"|Error from server \((InternalError|ServiceUnavailable|(Server)?Timeout|TooManyRequests)\)"
)


@dataclass(frozen=True)
class Kubectl:
    """The program, and the options that choose a cluster.

    Args:
        context: of the kubeconfig; None for the current one.
        namespace: of objects that name none; None for the context's.
        seconds: after which a request fails.
    """

    context: str | None
    namespace: str | None
    seconds: float = 60.0

    def apply(self, document: JsonValue) -> str:
        """Make or change an object and return what kubectl says.

        Raises:
            ClusterError: with what is wrong, as the API server says it.
        """
        return self._run(["apply", "-f", "-"], json.dumps(document)).strip()

    def status(self, name: str, namespace: str | None) -> TrainingRunStatus:
        """Return how a TrainingRun does.

        Raises:
            ClusterError: when it is not there, or the cluster does not answer.
        """
        there = replace(self, namespace=namespace or self.namespace)
        return read_status(there.get("trainingrun", name)[0])

    def resting(self, name: str) -> TrainingRunStatus | None:
        """Return the status of a run that has ended or is suspended; None until then.

        A status from before the last change of the run does not count.

        Raises:
            ClusterError: when it is not there, or the cluster does not answer.
        """
        found = self.get("trainingrun", name)[0]
        status, generation = read_status(found), as_object(found["metadata"]).get("generation")
        is_old = isinstance(generation, int) and status.observed_generation < generation
        return None if is_old or status.phase not in _AT_REST else status

    def runs(self, *names: str) -> list[tuple[str, TrainingRunStatus | ClusterError]]:
        """Return name and status of these TrainingRuns, or of all; an error for an unread status.

        Raises:
            ClusterError: when the cluster does not answer.
        """
        found = self.get("trainingrun", *names)
        return [(text(as_object(each["metadata"]), "name"), _readable(each)) for each in found]

    def suspend(self, name: str) -> None:
        """Have the controller stop a run after a checkpoint and release its resources.

        Raises:
            ClusterError: when it is not there, or the cluster does not answer.
        """
        patch = json.dumps({"spec": {"suspend": True}})
        self._run(["patch", "trainingrun", name, "--type", "merge", "-p", patch], None)

    def log_lines(
        self, name: str, *, follow: bool = False, last: int | None = None
    ) -> Iterator[str]:
        """Yield what the driver of a run's last attempt has printed, from the head of its cluster.

        Args:
            name: of the run.
            follow: go on until the driver ends.
            last: so many lines at most; None for all.

        Raises:
            ClusterError: when there is no attempt, or its Ray head is gone.
        """
        found = self.get("trainingrun", name)[0]
        attempts = read_status(found).attempts
        if not attempts:
            raise ClusterError(f"{name} has no attempt yet", EXIT_TRY_AGAIN)
        selector = f"ray.io/node-type=head,ray.io/cluster={attempts[-1].ray_cluster}"
        head = self._run(["get", "pod", "-l", selector, "-o", "name"], None).split()
        if not head:
            metadata = as_object(found["metadata"])
            folder = f"{text(metadata, 'namespace')}/{name}-{text(metadata, 'uid')[:UID_DIGITS]}"
            said = (
                f"the Ray head of {name} is gone. Its logs are in storage: trainshed logs "
                f"STORAGE/{folder}; its metrics: trainshed report STORAGE/{folder}"
            )
            raise ClusterError(said, EXIT_INVALID)
        file = f"/tmp/ray/session_latest/logs/job-driver-{attempts[-1].job_id}.log"
        tail = ["tail", "-n", str(last or "+1"), *["-F"] * follow, file]
        command = ["kubectl", *self._options, "exec", head[0], "--", *tail]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, encoding="utf-8", errors="replace"
        ) as printing:
            for line in printing.stdout or ():
                yield line
                if line.startswith(SNAPSHOT_LINE):  # the last of a driver under a controller
                    printing.terminate()

    @property
    def _options(self) -> list[str]:
        return [
            *(["--context", self.context] if self.context else []),
            *(["-n", self.namespace] if self.namespace else []),
        ]

    def get(self, *words: str) -> list[JsonObject]:
        """Return the objects that `kubectl get WORDS` finds: one that is named, or a list.

        Raises:
            ClusterError: when the API server refuses it, or does not answer.
        """
        found = as_object(json.loads(self._run(["get", *words, "-o", "json"], None)))
        return objects(found["items"]) if "items" in found else [found]

    def log(self, pod: str, container: str, lines: int) -> list[str]:
        """Return the last lines of a container, from before it started again if it did.

        Raises:
            ClusterError: when there are none.
        """
        words = ["logs", pod, "-c", container, f"--tail={lines}"]
        try:
            return self._run([*words, "--previous"], None).splitlines()
        except ClusterError:
            return self._run(words, None).splitlines()

    def _run(self, words: Sequence[str], content: str | None) -> str:
        try:
            done = subprocess.run(
                ["kubectl", *self._options, *words],
                input=content,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=self.seconds,
            )
        except FileNotFoundError:
            raise ClusterError("kubectl is not installed here", EXIT_INVALID) from None
        except subprocess.TimeoutExpired:
            said = f"the cluster did not answer within {self.seconds:.0f} s"
            raise ClusterError(said, EXIT_TRY_AGAIN) from None
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            if _NO_ANSWER.search(said):
                # The lines before the last one are from kubectl's own tries.
                said = f"the cluster does not answer: {said.splitlines()[-1]}"
                raise ClusterError(said, EXIT_TRY_AGAIN)
            raise ClusterError(said, EXIT_INVALID)
        return done.stdout


def read_status(found: JsonObject) -> TrainingRunStatus:
    """Return the status of a TrainingRun.

    Raises:
        ClusterError: if another release wrote it in another form.
    """
    try:
        return TrainingRunStatus.model_validate(found.get("status") or {})
    except ValidationError as error:
        said = f"the status of a TrainingRun is of another release: {error.errors()[0]['msg']}"
        raise ClusterError(said, EXIT_INVALID) from error


def _readable(found: JsonObject) -> TrainingRunStatus | ClusterError:
    try:
        return read_status(found)
    except ClusterError as error:
        return error


def say_status(status: TrainingRunStatus) -> str:
    """Return the phase of a run, how far it is, and why it failed, on one line."""
    progress = status.progress
    parts: list[str] = [status.phase or "Waiting for the controller"]
    if progress and progress.step is not None:
        parts.append(f"step {progress.step}{f' of {progress.steps}' if progress.steps else ''}")
        parts += [f"loss {progress.loss}"] if progress.loss else []
    told = [each.sentence for each in status.conditions if each.status == "True" and each.message]
    return ", ".join(parts) + (f" ({told[-1]})" if told and status.phase == "Failed" else "")
