"""trainshed.dev/v1alpha1 TrainingRun: every field's name, default, bound and meaning, once.

Error texts, the docs table and the CRD come from this model. No I/O, no reading of files.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from trainshed_api.checkpoint import BestSpec, CheckpointSpec
from trainshed_api.code import CodeSpec
from trainshed_api.data import (
    DatasetSpec,
    DataSpec,
    DtypeName,
    FeedSpec,
    ShuffleMode,
    ShuffleSpec,
)
from trainshed_api.errors import RuleError
from trainshed_api.failure import FailurePolicySpec, FailureRule
from trainshed_api.fitting import TRAIN_ONLY, cross_field_errors
from trainshed_api.frameworks import FrameworkName
from trainshed_api.metadata import SERVER_METADATA, Metadata
from trainshed_api.placement import ClusterSpec, DedicatedSpec, EnvFromSpec, ImageReference
from trainshed_api.profile import ProfileSpec
from trainshed_api.rows import ReadSpec
from trainshed_api.schema import (
    MOST_COUNT,
    Boolean,
    Count,
    Environment,
    FunctionName,
    Integer,
    JsonObject,
    NonEmpty,
    Seconds,
    SpecModel,
    annotate,
)
from trainshed_api.tracking import TrackingSpec
from trainshed_api.transforms import AugmentSpec, CollateSpec, TaskSpec, TransformSpec
from trainshed_api.workers import ResourcesSpec, WorkersSpec

__all__ = [
    "AugmentSpec",
    "BestSpec",
    "CheckpointSpec",
    "ClusterSpec",
    "CodeSpec",
    "CollateSpec",
    "DataSpec",
    "DatasetSpec",
    "DedicatedSpec",
    "DtypeName",
    "FailurePolicySpec",
    "FailureRule",
    "FeedSpec",
    "FrameworkName",
    "Metadata",
    "Precision",
    "ProfileSpec",
    "ReadSpec",
    "ResourcesSpec",
    "ShuffleMode",
    "ShuffleSpec",
    "TaskSpec",
    "TrackingSpec",
    "TrainingRunResource",
    "TrainingRunSpec",
    "TransformSpec",
    "WorkersSpec",
]

Precision = Literal["float32", "tensorfloat32", "bfloat16", "float16"]

# A day: an uninstall waits for it.
_MOST_GRACE_SECONDS = 86_400


class TrainingRunSpec(SpecModel):
    """What to train, on what data, with which workers."""

    model_config = ConfigDict(json_schema_extra={"planned": []})

    train: FunctionName | None = Field(
        default=None,
        description="module:function that trains: Ray Train's train_loop_per_worker, without an "
        "argument or with `config` as the only one. Set this or `entrypoint`.",
        json_schema_extra=annotate("app", "never"),
    )
    entrypoint: tuple[NonEmpty, ...] | None = Field(
        default=None,
        min_length=1,
        description="Command that starts Ray Train itself, such as [python, train.py]. Set this "
        "or `train`.",
        json_schema_extra=annotate("app", "never"),
    )
    config: JsonObject = Field(
        default_factory=dict,
        description="Free form; passed to the training function unchanged. A function "
        "`check_config(config)` in its module can refuse it before anything starts.",
        json_schema_extra=annotate("app", "never", only_with="train"),
    )
    framework: FrameworkName = Field(
        default="torch",
        description="Framework of the training function.",
        json_schema_extra=annotate("app", "never"),
    )
    epochs: Count | None = Field(
        default=None,
        description="Passes over the data; omit it if the training function counts epochs itself.",
        json_schema_extra=annotate("app", "nextAttempt", only_with="train"),
    )
    batch_size: Integer = Field(
        default=64,
        ge=1,
        le=MOST_COUNT,
        description="Rows in one step, over all workers.",
        json_schema_extra=annotate("app", "never", only_with="train"),
    )
    accumulate: Integer = Field(
        default=1,
        ge=1,
        le=MOST_COUNT,
        description="Gradient accumulation: the number of parts in which a worker processes its "
        "rows of a step, so that a step fits into memory. batchSize remains the "
        "number of rows of the whole step.",
        json_schema_extra=annotate("app", "never", only_with="train"),
    )
    precision: Precision = Field(
        default="float32",
        description="Type of the forward pass (autocast). tensorfloat32 is float32 with products "
        "rounded to 10 bits, which is faster on GPUs from Ampere on; on CPUs it is "
        "float32.",
        json_schema_extra=annotate("app", "never", only_with="train"),
    )
    sync_batch_norm: Boolean = Field(
        default=False,
        description="true: BatchNorm computes its statistics over the rows of all workers, on "
        "GPUs. false: over the rows of each worker.",
        json_schema_extra=annotate("app", "never", only_with="train"),
    )
    seed: Integer = Field(
        default=0,
        ge=0,
        le=2**32 - 1,
        description="Seed of all random numbers: weights, row order, augmentation.",
        json_schema_extra=annotate("app", "never"),
    )
    reproducible: Boolean = Field(
        default=False,
        description="true: two runs are bit-equal, which is slower; a configuration that cannot "
        "be reproduced is refused.",
        json_schema_extra=annotate("app", "suspended"),
    )
    code: CodeSpec = Field(
        default_factory=CodeSpec,
        description="Your own code, and packages that it needs.",
        json_schema_extra=annotate("both", "suspended"),
    )
    env: Environment = Field(
        default_factory=dict,
        repr=False,  # Ray quotes what it cannot pickle, with all that it has
        description="Environment variables of the workers. Do not set secrets here; name their "
        "Secret in envFrom, or set them in the Pods of the cluster.",
        json_schema_extra=annotate("both", "nextAttempt"),
    )
    data: DataSpec = Field(
        default_factory=DataSpec,
        description="The datasets, and the CPUs that prepare them.",
        json_schema_extra=annotate("both", "never", only_with="train"),
    )
    workers: WorkersSpec = Field(
        default_factory=WorkersSpec,
        description="The processes that train together.",
        json_schema_extra=annotate("both", "suspended"),
    )
    storage: NonEmpty = Field(
        default="runs",
        description="Folder for checkpoints, metrics and reports of runs. A relative path is "
        "below TRAINSHED_HOME, or, if that is not set, below the folder of the "
        "TrainingRun file.",
        json_schema_extra=annotate("both", "never"),
    )
    checkpoint: CheckpointSpec = Field(
        default_factory=CheckpointSpec,
        description="When checkpoints are written and how many are kept.",
        json_schema_extra=annotate("app", "suspended", only_with="train"),
    )
    tracking: TrackingSpec | None = Field(
        default=None,
        description="Experiment trackers that get parameters, metrics and the result; several at "
        "once are allowed.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    profile: ProfileSpec | None = Field(
        default=None,
        description="Record a trace of some steps with torch.profiler.",
        json_schema_extra=annotate("app", "nextAttempt", only_with="train"),
    )
    cluster: ClusterSpec | None = Field(
        default=None,
        description="The RayCluster to run on. The default is the one that the chart installed. "
        "Ignored on a laptop.",
        json_schema_extra=annotate("controller", "suspended"),
    )
    image: ImageReference | None = Field(
        default=None,
        description="Image of all Ray nodes of a dedicated cluster, by its digest, in a repository "
        "that the class of the cluster allows. It has to contain Trainshed. The default is the "
        "image of the class. Ignored on a laptop.",
        json_schema_extra=annotate("controller", "suspended"),
    )
    env_from: tuple[EnvFromSpec, ...] = Field(
        default=(),
        max_length=20,
        description="Secrets and ConfigMaps whose keys become environment variables of all Ray "
        "nodes of a dedicated cluster, such as `- secretRef: {name: wandb}`; the class of the "
        "cluster has to allow each. Variables of the class win. Ignored on a laptop.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    failure_policy: FailurePolicySpec = Field(
        default_factory=FailurePolicySpec,
        description="What to do after a failed attempt in a cluster.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    priority: Integer = Field(
        default=0,
        ge=-1_000_000,
        le=1_000_000,
        description="Among the runs queued for a shared cluster, the highest priority starts "
        "first, then the oldest.",
        json_schema_extra=annotate("controller", "live"),
    )
    suspend: Boolean = Field(
        default=False,
        description="true: the run stops after a checkpoint and releases its resources. false: it"
        " resumes.",
        json_schema_extra=annotate("controller", "live"),
    )
    grace_period_seconds: Integer = Field(
        default=60,
        ge=0,
        le=_MOST_GRACE_SECONDS,
        description="Seconds that a run has to write a checkpoint when it is stopped.",
        json_schema_extra=annotate("both", "nextAttempt"),
    )
    provisioning_deadline_seconds: Integer = Field(
        default=900,
        ge=0,
        le=MOST_COUNT,
        description="Maximum seconds until the program of an attempt starts; 0 turns it off.",
        json_schema_extra=annotate("controller", "live"),
    )
    active_deadline_seconds: Integer = Field(
        default=0,
        ge=0,
        le=MOST_COUNT,
        description="Maximum seconds of the run, without the time in the queue or suspended; 0 "
        "turns it off.",
        json_schema_extra=annotate("controller", "live"),
    )
    first_step_deadline_seconds: Integer = Field(
        default=3600,
        ge=0,
        le=MOST_COUNT,
        description="Maximum seconds until the workers call the training function, and then from "
        "its first request for a batch (or for rounds) to the end of the first step. "
        "An attempt that takes longer counts as lost; 0 turns it off. Ignored for an "
        "entrypoint; for a function with its own training loop it ends when the "
        "function is called.",
        json_schema_extra=annotate("controller", "live"),
    )
    stall_deadline_seconds: Integer = Field(
        default=1800,
        ge=0,
        le=MOST_COUNT,
        description="Seconds without a new step after which an attempt counts as lost; 0 turns it"
        " off. firstStepDeadlineSeconds applies before the first step.",
        json_schema_extra=annotate("controller", "live"),
    )
    ttl_seconds_after_finished: Seconds | None = Field(
        default=None,
        description="Seconds after its end until the TrainingRun is deleted; by default never. "
        "Its files in storage remain.",
        json_schema_extra=annotate("controller", "live"),
    )

    @model_validator(mode="after")
    def _fields_fit_together(self) -> Self:
        if problems := list(cross_field_errors(self)):
            raise RuleError(problems)
        return self

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the spec as JSON values, defaults filled, without what an entrypoint refuses."""
        refused = set(TRAIN_ONLY) if self.train is None else set()
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=refused)


class TrainingRunResource(SpecModel):
    """One training run."""

    api_version: Literal["trainshed.dev/v1alpha1"] = Field(
        description="Version of this format.", json_schema_extra=annotate("both", "never")
    )
    kind: Literal["TrainingRun"] = Field(
        description="Kind of the object.", json_schema_extra=annotate("both", "never")
    )
    metadata: Metadata = Field(
        description="Kubernetes object metadata.", json_schema_extra=annotate("both", "never")
    )
    spec: TrainingRunSpec = Field(
        description="What to train.", json_schema_extra=annotate("both", "never")
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_what_the_server_writes(cls, value: object) -> object:
        # An object that is read back from a cluster has more than a file may say.
        if not isinstance(value, dict):
            return value
        written = {key: item for key, item in value.items() if key != "status"}
        if isinstance(metadata := written.get("metadata"), dict):
            kept = {key: item for key, item in metadata.items() if key not in SERVER_METADATA}
            written["metadata"] = kept
        return written

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the whole object with every default filled, as it would be written to a file."""
        metadata = self.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": metadata,
            "spec": self.spec.to_dict(),
        }
