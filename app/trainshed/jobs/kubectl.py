"""TrainingRun objects by kubectl, which knows the user's clusters and who they are there."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.jobs.cluster_error import ClusterError
from trainshed_api.json_object import as_object, objects
from trainshed_api.names import EXIT_INVALID, EXIT_TRY_AGAIN
from trainshed_api.status import TrainingRunStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from trainshed_api.json_object import JsonObject


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
        where = ["-n", namespace] if namespace else []
        found = self.get("trainingrun", name, *where)[0]
        try:
            return TrainingRunStatus.model_validate(found.get("status") or {})
        except ValidationError as error:
            said = f"the status of {name} is of another release: {error.errors()[0]['msg']}"
            raise ClusterError(said, EXIT_INVALID) from error

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

    def _run(self, words: Sequence[str], text: str | None) -> str:
        options = [
            *(["--context", self.context] if self.context else []),
            *(["-n", self.namespace] if self.namespace and "-n" not in words else []),
        ]
        try:
            done = subprocess.run(
                ["kubectl", *options, *words],
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=self.seconds,
            )
        except FileNotFoundError:
            raise ClusterError("kubectl is not installed here", EXIT_INVALID) from None
        except subprocess.TimeoutExpired:
            said = f"the cluster did not answer within {self.seconds:.0f} s"
            raise ClusterError(said, EXIT_TRY_AGAIN) from None
        if done.returncode:
            raise ClusterError(done.stderr.strip() or done.stdout.strip(), EXIT_INVALID)
        return done.stdout
