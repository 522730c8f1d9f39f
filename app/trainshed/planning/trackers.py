"""Checks and explains the trackers of a run, before anything starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trainshed.data.sources.formats.optional_packages import (
    OptionalPackage,
    expected_packages,
    missing_of,
)
from trainshed_api.errors import Problem, RuleError, SpecError
from trainshed_api.tracking import expect_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed_api.tracking import TrackingSpec

_ENV_URI = "MLFLOW_TRACKING_URI"


def check_trackers(spec: TrackingSpec) -> None:
    """Refuse trackers without the package, or the address, that this process needs.

    Raises:
        SpecError: naming the field.
    """
    problems = []
    if spec.mlflow and not spec.mlflow.tracking_uri:
        try:
            expect_server(os.environ.get(_ENV_URI, ""))
        except RuleError as error:
            found = error.problems[0]
            field = f"{_ENV_URI}, because spec.tracking.mlflow has no trackingUri"
            problems.append(Problem(field, found.got, found.expected))
    if spec.wandb and (missing := missing_of([OptionalPackage("wandb", "wandb")])):
        expected = expected_packages(missing, "trainshed[wandb]")
        problems.append(Problem("spec.tracking.wandb", "a tracker without its package", expected))
    if problems:
        raise SpecError(problems)


def say_trackers(spec: TrackingSpec, folder: str) -> Iterator[str]:
    """Yield a line for each tracker; folder: of the run."""
    if spec.tensorboard:
        yield f"TensorBoard, event files in {folder}/tensorboard"
    if spec.mlflow:
        server = spec.mlflow.tracking_uri or os.environ.get(_ENV_URI, _ENV_URI)
        yield f"MLflow, experiment {spec.mlflow.experiment} at {server}"
    if spec.wandb:
        yield f"Weights & Biases, project {spec.wandb.project or 'of WANDB_PROJECT'}"
