"""`trainshed.TrainingRun`: a run as an object, for programs and notebooks.

A run trains in a process of its own, as by the command line: the caller imports no Ray, and its
modules, signals and memory stay as they are.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.display.choice import choose_display
from trainshed.jobs.access import find_access
from trainshed.jobs.follow import LogReader
from trainshed.jobs.jobs_api import Jobs
from trainshed.jobs.kubectl import Kubectl
from trainshed.jobs.local_runs import read_result
from trainshed.jobs.submission import apply_run, submit
from trainshed.planning.paths import home_of, locate
from trainshed.report.metric_rows import metric_rows
from trainshed.report.notebook import open_notebook
from trainshed.storage.driver_identity import folder_of
from trainshed.targets import JobTarget, LocalTarget, ObjectTarget
from trainshed_api.loading import load_file, load_written
from trainshed_api.names import (
    API_VERSION,
    EXIT_APPLICATION,
    EXIT_INTERRUPTED,
    EXIT_SUCCEEDED,
    KIND,
    STDIN,
)
from trainshed_api.v1alpha1 import TrainingRunSpec
from trainshed_api.validation import normalise_document, validate_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pandas import DataFrame
    from pydantic import JsonValue

    from trainshed.data.sources.column_arrays import Columns
    from trainshed.storage.folder import Folder
    from trainshed.targets import Target
    from trainshed_api.loading import Document

SECONDS_BETWEEN_LOOKS = 0.5
_ERROR = "error: "


class TrainingFailedError(Exception):
    """A run that did not succeed.

    Args:
        message: what the command line prints.
        exit_code: of the command line.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class TrainingRun:
    """A TrainingRun that trains on this machine or in a cluster.

    Relative paths are below TRAINSHED_HOME, or else below the folder of the file or, without a
    file, the working directory.

    Args:
        name: of the run.
        spec: the fields of `spec`, spelled as in a file, or a TrainingRunSpec.

    Raises:
        SpecError: with every mistake in it.
    """

    def __init__(self, name: str, spec: TrainingRunSpec | Mapping[str, JsonValue]) -> None:
        if isinstance(spec, TrainingRunSpec):
            spec = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        written: Document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": dict(spec),
        }
        self.model = validate_document(normalise_document(written, name), name)
        self._document = written
        self._remote: Target | None = None
        self._file = Path.cwd() / STDIN
        self._words = [STDIN]

    @classmethod
    def load(cls, file: Path | str, settings: Sequence[str] = ()) -> TrainingRun:
        """Return the run of a TrainingRun file.

        Args:
            file: path of the file.
            settings: values to replace, such as "spec.epochs=2".

        Raises:
            SpecError: with every mistake in it.
        """
        model = load_file(file, settings)
        run = cls(model.metadata.name, model.spec)
        run.model, run._file = model, Path(file).absolute()
        run._document = load_written(run._file, settings)
        run._words = [str(run._file), *(f"--set={each}" for each in settings)]
        return run

    @property
    def name(self) -> str:
        """Return the name of the run."""
        return self.model.metadata.name

    @property
    def spec(self) -> TrainingRunSpec:
        """Return what to train, with all defaults."""
        return self.model.spec

    @property
    def folder(self) -> Folder:
        """Return the folder of the run, which exists once it has begun."""
        storage = locate(self.spec.storage, home_of(self._file), "spec.storage")
        return folder_of(self.name, None, storage)

    @property
    def _target(self) -> Target:
        return self._remote or LocalTarget(self.name, self.folder)

    def run(self, *, fresh: bool = False) -> None:
        """Train until the run ends, resuming from the last checkpoint.

        A notebook shows a table and curves, a terminal a line of progress. An interrupt stops the
        run after a checkpoint.

        Args:
            fresh: start over; files of earlier attempts stay.

        Raises:
            TrainingFailedError: if the run does not succeed.
            KeyboardInterrupt: if it was interrupted; another call resumes it.
        """
        lines: list[str] = []

        def say(line: str) -> None:
            lines.append(line)
            print(line, flush=True)

        command = [sys.executable, "-m", "trainshed", "run", *self._words, *["--fresh"] * fresh]
        self._remote = None
        display = open_notebook(self.name) or choose_display(sys.stdout)
        try:
            code = follow_command(
                command, json.dumps(self._document), LogReader(display, say, 0.0).take
            )
        finally:
            display.close()
        if code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        if code != EXIT_SUCCEEDED:
            errors = [e.removeprefix(_ERROR) for e in lines if e.startswith(_ERROR)]
            result = read_result(self.folder)
            said = errors or ([result.message] if result else lines[-1:])
            raise TrainingFailedError("\n".join(said), code)

    def submit(self, address: str | None = None, *, fresh: bool = False) -> str:
        """Submit the run as a job to a Ray cluster, unless it is running, and return the job's ID.

        From here on `wait`, `stop`, `metrics` and `logs` are those of the job.

        Args:
            address: of the dashboard; None for RAY_ADDRESS, or this machine.
            fresh: start over; files of earlier attempts stay.

        Raises:
            ClusterError: if the cluster cannot be used.
        """
        jobs = Jobs(find_access(address, None, (), os.environ))
        job_id, _ = submit(jobs, self.model, self._file.parent, fresh=fresh)
        self._remote = JobTarget(jobs, job_id)
        return job_id

    def apply(
        self,
        namespace: str | None = None,
        *,
        context: str | None = None,
        storage: str | None = None,
    ) -> None:
        """Upload the code of the run and apply it to Kubernetes by kubectl; a stopped run resumes.

        From here on `wait`, `stop`, `metrics` and `logs` are those of the object.

        Args:
            namespace: of the run; None for that of the file, or of the context.
            context: of the kubeconfig; None for the current one.
            storage: address of the bucket for code; None for TRAINSHED_HOME.

        Raises:
            SpecError: if its code cannot be uploaded.
            ClusterError: if the cluster refuses it.
        """
        cluster = Kubectl(context, self.model.metadata.namespace or namespace)
        for line in apply_run(cluster, self.model, self._document, self._file, storage):
            print(line, flush=True)
        self._remote = ObjectTarget(cluster, self.name)

    def wait(self) -> None:
        """Wait until the run ends, whoever started it.

        Raises:
            TrainingFailedError: if it does not succeed.
            ClusterError: if it has not begun, or its cluster does not answer.
        """
        while (why := self._target.ended()) is None:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        if why:
            raise TrainingFailedError(why, EXIT_APPLICATION)

    def stop(self) -> None:
        """Stop the run after a checkpoint, and wait until it has stopped."""
        self._target.stop()
        while self._target.ended() is None:
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def metrics(self) -> DataFrame:
        """Return all metrics so far: a row for each report and evaluation, a column for each name.

        Steps that were lost and done again are in it once. Of a job or an object they are those of
        the last attempt, while its Ray head exists.
        """
        from pandas import DataFrame

        return DataFrame(metric_rows(self._target.attempts()))

    def logs(self) -> str:
        """Return what the driver of the last attempt has printed, here also its workers."""
        return self._target.logs()

    def predict(self, rows: Mapping[str, object] | Sequence[Mapping[str, object]]) -> Columns:
        """Return predictions of the trained model by column, as `trainshed.load` does.

        Args:
            rows: values by column, or one mapping for each row.
        """
        from trainshed.predict.trained_model import load_model

        return load_model(str(self.folder)).predict(rows)


def follow_command(command: Sequence[str], text: str, take: Callable[[str], None]) -> int:
    """Run a command, and hand over its lines; return its exit code.

    The command is in a session of its own, so that an interrupt reaches it once, from here.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    ) as child:
        if child.stdin is None or child.stdout is None:
            raise AssertionError("both are pipes")
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(text)
        while True:
            try:
                for line in child.stdout:
                    take(line.rstrip("\n"))
                return child.wait()
            except KeyboardInterrupt:
                child.send_signal(signal.SIGINT)
