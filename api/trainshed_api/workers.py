"""The workers section of a TrainingRun: how many processes, and what each is given."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from trainshed_api.schema import MOST_COUNT, Bytes, Cores, Integer, SpecModel, annotate


class ResourcesSpec(SpecModel):
    """What one worker is given."""

    cpu: Cores = Field(
        default="1",
        description="CPU cores of each worker, such as 2, 0.5 or 500m.",
        json_schema_extra=annotate("both", "suspended"),
    )
    gpu: Integer = Field(
        default=0,
        ge=0,
        le=MOST_COUNT,
        description="GPUs of each worker.",
        json_schema_extra=annotate("both", "suspended"),
    )
    memory: Bytes | None = Field(
        default=None,
        description="Memory to reserve for each worker, such as 8Gi. The default reserves none.",
        json_schema_extra=annotate("both", "suspended"),
    )


class WorkersSpec(SpecModel):
    """The processes that train together."""

    model_config = ConfigDict(json_schema_extra={"planned": ["min", "max"]})

    count: Integer = Field(
        default=1,
        ge=1,
        le=MOST_COUNT,
        description="Number of workers.",
        json_schema_extra=annotate("both", "nextAttempt"),
    )
    resources: ResourcesSpec = Field(
        default_factory=ResourcesSpec,
        description="Resources of each worker.",
        json_schema_extra=annotate("both", "suspended"),
    )
    group: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        max_length=63,
        description="Group of nodes (label trainshed.dev/group) on which the workers run; empty "
        "means any. Ignored if no node has the label.",
        json_schema_extra=annotate("both", "suspended") | {"expected": "a label value such as gpu"},
    )
