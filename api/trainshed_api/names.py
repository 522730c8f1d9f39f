"""Names and numbers that more than one package uses and nobody configures."""

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

# Where a spec has its datasets, as in error messages.
DATASETS: Final = "spec.data.datasets"

ENV_PREFIX: Final = "TRAINSHED_"
ENV_HOME: Final = "TRAINSHED_HOME"  # relative paths of a spec lie under it
ENV_SPEC: Final = "TRAINSHED_SPEC"  # the resolved TrainingRun as one JSON value
ENV_RUN_NAME: Final = "TRAINSHED_RUN_NAME"
ENV_STORAGE: Final = "TRAINSHED_STORAGE"
ENV_NUM_WORKERS: Final = "TRAINSHED_NUM_WORKERS"
ENV_SCRATCH: Final = "TRAINSHED_SCRATCH"  # the most that a Pod's /tmp may hold
# A controller sets these three, or none: its driver writes to <storage>/<namespace>/<name>-<uid8>
# and makes attempt N, no other.
ENV_NAMESPACE: Final = "TRAINSHED_NAMESPACE"
ENV_UID: Final = "TRAINSHED_UID"
ENV_ATTEMPT: Final = "TRAINSHED_ATTEMPT"
ENV_GROUPS: Final = "TRAINSHED_GROUPS"  # of the whole cluster, as groups.py writes them
# Where a driver posts its snapshots, and the bearer token that may do so for this attempt only.
ENV_PROGRESS_URL: Final = "TRAINSHED_PROGRESS_URL"
ENV_PROGRESS_TOKEN: Final = "TRAINSHED_PROGRESS_TOKEN"

# The FILE of `trainshed run` that is standard input.
STDIN: Final = "-"

# What a Ray job of a run executes; the run itself is in ENV_SPEC.
JOB_ENTRYPOINT: Final = "python -m trainshed run"
# Linux takes 128 KiB for one environment variable.
MAX_SPEC_BYTES: Final = 96 * 1024
MAX_SNAPSHOT_BYTES: Final = 64 * 1024
# The last line of a driver's log begins so; the rest is its final snapshot.
SNAPSHOT_LINE: Final = "trainshed.dev/snapshot: "
# After the grace period for a checkpoint: for result, report and the last word to the controller.
SECONDS_AFTER_GRACE: Final = 15

EXIT_SUCCEEDED: Final = 0
EXIT_APPLICATION: Final = 1  # the user's program failed
EXIT_INVALID: Final = 2  # the spec, its files or this machine will not do; nothing started
EXIT_TRY_AGAIN: Final = 75  # infrastructure, or another driver (EX_TEMPFAIL of sysexits.h)
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT
EXIT_TERMINATED: Final = 143  # 128 + SIGTERM

Outcome = Literal["Succeeded", "Failed", "Stopped"]
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
STOPPED: Final = "Stopped"

# Why a run failed: Invalid is never tried again, Infrastructure is no fault of the user's.
FailureCause = Literal["Invalid", "Application", "OutOfMemory", "Infrastructure"]
INVALID: Final = "Invalid"
APPLICATION: Final = "Application"
OUT_OF_MEMORY: Final = "OutOfMemory"
INFRASTRUCTURE: Final = "Infrastructure"

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

# Addresses of buckets: S3 and all that speaks like it, Google's, Azure's.
BUCKET_SCHEMES: Final = ("s3", "gs", "abfs", "abfss", "az")
# Addresses of single files that are read, where nothing is ever written.
WEB_SCHEMES: Final = ("http", "https")

# Reasons of a container that waits for its image: pkg/kubelet/images/types.go of Kubernetes.
NO_IMAGE: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
