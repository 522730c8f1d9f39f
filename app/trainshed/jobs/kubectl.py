"""TrainingRun objects by kubectl, which knows the user's clusters and who they are there."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.jobs.cluster_error import ClusterError
from trainshed_api.names import EXIT_INVALID, EXIT_TRY_AGAIN
from trainshed_api.status import TrainingRunStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

_SECONDS = 60.0


@dataclass(frozen=True)
class Kubectl:
    """The program, and the options that choose a cluster.

    Args:
        context: of the kubeconfig; None for the current one.
        namespace: of objects that name none; None for the context's.
    """

    context: str | None
    namespace: str | None

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
        found = json.loads(self._run(["get", "trainingrun", name, *where, "-o", "json"], None))
        try:
            return TrainingRunStatus.model_validate(found.get("status") or {})
        except ValidationError as error:
            said = f"the status of {name} is of another release: {error.errors()[0]['msg']}"
            raise ClusterError(said, EXIT_INVALID) from error

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
                timeout=_SECONDS,
            )
        except FileNotFoundError:
            raise ClusterError("kubectl is not installed here", EXIT_INVALID) from None
        except subprocess.TimeoutExpired:
            said = f"the cluster did not answer within {_SECONDS:.0f} s"
            raise ClusterError(said, EXIT_TRY_AGAIN) from None
        if done.returncode:
            raise ClusterError(done.stderr.strip() or done.stdout.strip(), EXIT_INVALID)
        return done.stdout
