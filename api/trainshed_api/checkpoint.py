"""The checkpoint section of a TrainingRun: when to save, how many to keep, where to start."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainshed_api.schema import MOST_COUNT, Boolean, Integer, NonEmpty, SpecModel, annotate


class BestSpec(SpecModel):
    """Which checkpoint is the best one."""

    metric: NonEmpty = Field(
        description="Name of a reported metric, such as valid.accuracy.",
        json_schema_extra=annotate("app", "suspended"),
    )
    mode: Literal["max", "min"] = Field(
        description="Whether the highest or the lowest value is best.",
        json_schema_extra=annotate("app", "suspended"),
    )


class CheckpointSpec(SpecModel):
    """When checkpoints are written, how many are kept, and where a run starts."""

    every_epochs: Integer = Field(
        default=1,
        ge=0,
        le=MOST_COUNT,
        description="Epochs between two checkpoints; 0 turns them off.",
        json_schema_extra=annotate("app", "suspended"),
    )
    every_steps: Integer = Field(
        default=0,
        ge=0,
        le=MOST_COUNT,
        description="Steps between two checkpoints; 0 turns them off.",
        json_schema_extra=annotate("app", "suspended"),
    )
    keep: Integer = Field(
        default=3,
        ge=1,
        le=MOST_COUNT,
        description="Number of checkpoints to keep: the latest, and with `best` also the best "
        "ones.",
        json_schema_extra=annotate("app", "suspended"),
    )
    best: BestSpec | None = Field(
        default=None,
        description="Which checkpoint is the best one. By default only the latest are kept.",
        json_schema_extra=annotate("app", "suspended"),
    )
    trust_objects: Boolean = Field(
        default=False,
        description="true: tracked state may contain objects of any class, which can run code "
        "when a checkpoint is loaded. false: plain values and tensors only.",
        json_schema_extra=annotate("app", "suspended"),
    )
    allow_missing: tuple[NonEmpty, ...] = Field(
        default=(),
        description="Names of tracked objects that may be missing. An object that the checkpoint "
        "lacks starts fresh, and one that the function no longer tracks is dropped. "
        "Any other difference is refused.",
        json_schema_extra=annotate("app", "suspended"),
    )
    resume: NonEmpty = Field(
        default="latest",
        description="latest: resume from the newest checkpoint of this run. never: start over. "
        "Or the path of a checkpoint to start from; later attempts resume from their own.",
        json_schema_extra=annotate("app", "suspended"),
    )

    @property
    def is_written(self) -> bool:
        """Say whether any checkpoint is asked for."""
        return bool(self.every_epochs or self.every_steps)
