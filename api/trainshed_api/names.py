"""Names and numbers that more than one room uses and nobody configures."""

from __future__ import annotations

from typing import Final, Literal

GROUP: Final = "trainshed.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "trainshed.dev/v1alpha1"
KIND: Final = "TrainingRun"
PLURAL: Final = "trainingruns"
SHORT_NAME: Final = "trun"

# Ray nodes (and the Pods behind them) say with this label to which group they belong.
NODE_GROUP_LABEL: Final = "trainshed.dev/group"

ENV_PREFIX: Final = "TRAINSHED_"
ENV_HOME: Final = "TRAINSHED_HOME"  # relative paths of a spec lie under it
ENV_SPEC: Final = "TRAINSHED_SPEC"  # the resolved TrainingRun as one JSON value
ENV_RUN_NAME: Final = "TRAINSHED_RUN_NAME"
ENV_STORAGE: Final = "TRAINSHED_STORAGE"
ENV_NUM_WORKERS: Final = "TRAINSHED_NUM_WORKERS"

EXIT_SUCCEEDED: Final = 0
EXIT_APPLICATION: Final = 1  # the user's program failed
EXIT_INVALID: Final = 2  # the spec, its files or this machine will not do; nothing started
EXIT_TRY_AGAIN: Final = 75  # somebody else holds this attempt (EX_TEMPFAIL of sysexits.h)
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT
EXIT_TERMINATED: Final = 143  # 128 + SIGTERM

Outcome = Literal["Succeeded", "Failed", "Stopped"]
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
STOPPED: Final = "Stopped"

# Where the wall time of a run goes, in the order of its life: keys of status.time and "seconds".
BUCKETS: Final[tuple[str, ...]] = (
    "queued",
    "suspended",
    "provisioning",
    "starting",
    "training",
    "waitingForData",
    "evaluating",
    "checkpointing",
    "stopping",
    "lost",
)
