"""The tracking section of a TrainingRun: the experiment trackers that a run logs to."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from trainshed_api.errors import Problem, RuleError, show_value
from trainshed_api.schema import NonEmpty, SpecModel, annotate

# Variables of the trackers' clients that hold a key or a password.
SECRET_VARIABLES = (
    "WANDB_API_KEY",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
)
SECRET_REMEDY = (
    "no secret in a TrainingRun. Set the variable where the run starts, or in a cluster by a "
    "Secret that ray.envFrom of the chart names"
)
_ADDRESS = r"^https?://[^@\s]+$"


def expect_server(uri: str) -> str:
    """Return the address of a server. Raises RuleError, which does not show a password in it."""
    if not re.match(_ADDRESS, uri):
        got = "an address with a user or a password" if "@" in uri else show_value(uri)
        expected = (
            "an address such as http://mlflow:5000. Set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD in the environment"
        )
        raise RuleError([Problem("", got, expected)])
    return uri


# The pattern is for the CRD: an error of pydantic's own would show the whole value.
_Server = Annotated[
    str, AfterValidator(expect_server), Field(json_schema_extra={"pattern": _ADDRESS})
]


class TensorBoardSpec(SpecModel):
    """Event files in the folder of the run."""


class MLflowSpec(SpecModel):
    """A tracking server of MLflow."""

    tracking_uri: _Server | None = Field(
        default=None,
        description="Address of the tracking server, such as http://mlflow:5000. The default is "
        "MLFLOW_TRACKING_URI of the environment in which the run starts.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    experiment: NonEmpty = Field(
        default="Default",
        description="Name of the experiment; it is created if it does not exist.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )


class WandbSpec(SpecModel):
    """A project of Weights & Biases."""

    project: NonEmpty | None = Field(
        default=None,
        description="Name of the project. The default is WANDB_PROJECT of the environment in "
        "which the run starts.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    entity: NonEmpty | None = Field(
        default=None,
        description="User or team that owns the project. The default is that of the API key.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )


class TrackingSpec(SpecModel):
    """The trackers of a run."""

    tensorboard: TensorBoardSpec | None = Field(
        default=None,
        description="{}: write event files of TensorBoard to the folder `tensorboard` of the run.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    mlflow: MLflowSpec | None = Field(
        default=None,
        description="Log to a tracking server of MLflow; {} for the one of the environment.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    wandb: WandbSpec | None = Field(
        default=None,
        description="Log to Weights & Biases; {} for the project of the environment.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
