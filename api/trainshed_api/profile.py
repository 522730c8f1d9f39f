"""The profile section of a TrainingRun: the steps of which a trace is recorded."""

from __future__ import annotations

from pydantic import Field

from trainshed_api.schema import Count, SpecModel, annotate

PROFILED_STEPS = "the first step, then the last one, such as [10, 20]"


class ProfileSpec(SpecModel):
    """Which steps to profile."""

    steps: tuple[Count, ...] = Field(
        min_length=2,
        max_length=2,
        description="The first and the last step to record, such as [10, 20]; the run's first step "
        "is 1. Rank 0 records them with torch.profiler, and the report names the file. Steps are "
        "those of `trainshed.current().batches()`.",
        json_schema_extra=annotate("app", "nextAttempt") | {"expected": PROFILED_STEPS},
    )
