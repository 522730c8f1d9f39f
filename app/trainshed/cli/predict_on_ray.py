"""`trainshed predict --workers N`: predictions by workers of Ray, here or as a job of a cluster."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from trainshed.cli.cluster import connect, follow_run
from trainshed.cli.run_location import is_address
from trainshed_api.errors import Problem, SpecError
from trainshed_api.names import EXIT_INVALID

if TYPE_CHECKING:
    from trainshed.jobs.access import DashboardAccess
    from trainshed.predict.ray_prediction import PredictionProgress
    from trainshed_api.formats import FormatName

DEFAULT_WORKERS = 2
SECONDS_BETWEEN_LINES, SECONDS_TO_FIRST_FILE = 5.0, 30.0
_MOUNTED = "an absolute path that all nodes of the cluster mount"


@dataclass(frozen=True)
class PredictionRequest:
    """What the command line asks for.

    Args:
        run: as the user names it.
        source: a path or an address.
        form: format of the files; None to infer it.
        options: of the format, "name=value" each.
        columns: to read; empty for all.
        scores: whether to include the scores of all classes.
        batch_size: rows of a batch.
        code: folder of the user's modules; None for the working directory.
        gpu: whether to predict with GPUs; None for those of this machine, if it has some.
    """

    run: str
    source: str
    form: FormatName | None
    options: tuple[str, ...]
    columns: tuple[str, ...]
    scores: bool
    batch_size: int
    code: Path | None
    gpu: bool | None

    def words(self, output: str, workers: int) -> list[str]:
        """Return the words of the command that a job executes in its working directory."""
        return [
            *("predict", self.run, self.source, "--output", output, "--workers", str(workers)),
            *("--batch-size", str(self.batch_size)),
            *(["--format", self.form] if self.form else []),
            *(word for option in self.options for word in ("--option", option)),
            *(["--columns", ",".join(self.columns)] if self.columns else []),
            *["--scores"] * self.scores,
            *["--gpu"] * (self.gpu is True),
            *["--cpu"] * (self.gpu is False),
        ]


def submit_prediction(
    request: PredictionRequest, output: str, workers: int, access: DashboardAccess
) -> int:
    """Submit a prediction as a job, or follow its job; return the exit code of the job.

    Raises:
        SpecError: for a path that a cluster cannot read.
        ClusterError: if the cluster does not answer, or refuses the job.
    """
    from trainshed.jobs.submission import submit_command

    _check_reachable(request, output)
    jobs = connect(access)
    words = request.words(output, workers)
    job_id, runs = submit_command(jobs, "predict", words, request.code)
    click.echo(f"{job_id} {'is running already' if runs else 'was submitted'}", err=True)
    code = follow_run(jobs, jobs.get(job_id))
    paths = [each for each in (request.run, request.source, output) if each.startswith("/")]
    if code == EXIT_INVALID and paths:
        click.echo(f"note: all nodes of the cluster must mount {', '.join(paths)}", err=True)
    return code


def _check_reachable(request: PredictionRequest, output: str) -> None:
    """Refuse relative paths: the job has another working directory."""
    problems = [
        Problem(field, text, f"an address such as {example}, or {_MOUNTED}")
        for field, text, example in (
            ("SOURCE", request.source, "s3://bucket/rows"),
            ("--output", output, "s3://bucket/predictions.parquet"),
        )
        if not _has_a_place(text)
    ]
    named = "/" not in request.run and not request.run.endswith((".yaml", ".yml"))
    if not (named or _has_a_place(request.run)):
        expected = (
            f"an address such as s3://bucket/runs/local/digits, {_MOUNTED}, or the name of a run "
            "in the cluster's TRAINSHED_HOME"
        )
        problems.append(Problem("RUN", request.run, expected))
    if problems:
        raise SpecError(problems)


def _has_a_place(text: str) -> bool:
    return is_address(text) or Path(text).is_absolute()


def predict_by_workers(request: PredictionRequest, output: str, workers: int) -> None:
    """Predict by workers of the Ray cluster that this process is in, or of a Ray here.

    Raises:
        SpecError: naming the wrong argument of the command.
        DataError: if rows cannot be read or predicted.
        InfrastructureError: if a retry may succeed.
    """
    from trainshed.display.formatting import say_count
    from trainshed.planning.machine import this_machine
    from trainshed.planning.paths import locate
    from trainshed.predict.batch_prediction import BatchPrediction, open_rows
    from trainshed.predict.part_folder import PartFolder
    from trainshed.predict.ray_prediction import WorkerInput, predict_on_ray
    from trainshed.predict.trained_model import load_model
    from trainshed.ray_train.ray_cluster import in_cluster, joined
    from trainshed.storage.disk import Disk

    code, batch_rows, scores = request.code or Path.cwd(), request.batch_size, request.scores
    sys.path.insert(0, str(code.absolute()))
    model = load_model(request.run, "cpu")
    given = open_rows(request.source, model, request.form, request.options, request.columns)
    prediction = BatchPrediction(model, given, batch_rows, with_scores=scores)
    folder = locate(output, Disk(Path.cwd()), "--output")
    parts = PartFolder(folder, prediction.identity(), len(prediction.fragments), prediction.schema)
    parts.begin()
    gpus = this_machine(request.gpu is not False and not in_cluster()).gpus
    has_gpu = model.uses_gpu and (bool(gpus) if request.gpu is None else request.gpu)
    checkpoint = str(model.checkpoint)
    wanted = WorkerInput(checkpoint, given, batch_rows, scores, str(code.absolute()), has_gpu)
    with joined(workers, gpus), ProgressLines(has_gpu) as lines:
        rows = predict_on_ray(wanted, parts, workers, lines)
    click.echo(f"{say_count(rows)} rows predicted: {folder}")


class ProgressLines:
    """Prints how far a prediction is, at most one line every few seconds and one at the end.

    As a context it also prints what a worker needs if no file is written for a while: a cluster
    without such resources starts none.

    Args:
        has_gpu: whether each worker needs a GPU.
        first_seconds: until a file should be written.
    """

    def __init__(self, has_gpu: bool, first_seconds: float = SECONDS_TO_FIRST_FILE) -> None:
        self._printed = time.monotonic()
        self._needs = "1 CPU and 1 GPU" if has_gpu else "1 CPU"
        self._wait = threading.Timer(first_seconds, self._print_needs)

    def __enter__(self) -> Self:
        self._wait.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wait.cancel()

    def _print_needs(self) -> None:
        text = (
            f"no file is written yet; each worker needs {self._needs} that is free in the cluster"
        )
        click.echo(text, err=True)

    def __call__(self, progress: PredictionProgress) -> None:
        """Take the next progress in."""
        self._wait.cancel()
        now = time.monotonic()
        is_last = progress.files == progress.all_files
        if not is_last and now - self._printed < SECONDS_BETWEEN_LINES:
            return
        self._printed = now
        text = f"{progress.files} of {progress.all_files} files written"
        click.echo(f"{text}, {progress.rows} rows predicted", err=True)
