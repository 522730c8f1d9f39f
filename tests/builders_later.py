"""A TrainingRun as a later release reads it: with a field and a section more in each place."""

from pydantic import Field

from tests.builders import make_document
from trainshed_api.data import DatasetSpec, DataSpec, FeedSpec
from trainshed_api.schema import SpecModel, annotate
from trainshed_api.v1alpha1 import TrainingRunSpec


class LaterSection(SpecModel):
    """A section that the first release did not have."""

    depth: int = Field(default=3, json_schema_extra=annotate("app", "never"))
    threads: int = Field(default=1, json_schema_extra=annotate("app", "suspended"))


class LaterFeed(FeedSpec):
    """The feed of a later release."""

    layout: str = Field(default="rows", json_schema_extra=annotate("app", "never"))
    pin: bool = Field(default=True, json_schema_extra=annotate("app", "suspended"))
    section: LaterSection = Field(
        default_factory=LaterSection, json_schema_extra=annotate("app", "never")
    )
    choice: LaterSection | None = Field(default=None, json_schema_extra=annotate("app", "never"))


class LaterDataset(DatasetSpec):
    """A dataset of a later release."""

    feed: LaterFeed = Field(default_factory=LaterFeed, json_schema_extra=annotate("app", "never"))


class LaterData(DataSpec):
    """The data section of a later release."""

    datasets: dict[str, LaterDataset] = Field(  # type: ignore[assignment] # a dict is invariant
        default_factory=dict, json_schema_extra=annotate("app", "never")
    )


class LaterSpec(TrainingRunSpec):
    """The spec of a later release."""

    data: LaterData = Field(default_factory=LaterData, json_schema_extra=annotate("app", "never"))
    swap: str = Field(default="none", json_schema_extra=annotate("app", "never"))
    section: LaterSection = Field(
        default_factory=LaterSection, json_schema_extra=annotate("app", "never")
    )


def make_later_spec(**spec: object) -> LaterSpec:
    """Return a spec as a later release reads it, such as make_later_spec(seed=1)."""
    return LaterSpec.model_validate(make_document(**spec)["spec"])  # type: ignore[arg-type]
