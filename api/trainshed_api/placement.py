"""The RayCluster that a TrainingRun runs on: a shared or a dedicated one."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from trainshed_api.errors import Problem, RuleError
from trainshed_api.schema import DnsName, SpecModel, annotate


class DedicatedSpec(SpecModel):
    """A RayCluster that is made for this run and goes with each of its attempts."""

    cluster_class: DnsName = Field(
        default="default",
        alias="class",
        description="Class of the cluster, one of those in the chart's values.",
        json_schema_extra=annotate("controller", "suspended"),
    )


class ClusterSpec(SpecModel):
    """The RayCluster that a run takes its workers from."""

    shared: DnsName | None = Field(
        default=None,
        description="Name of a RayCluster in the namespace of the run; the run is queued until "
        "the cluster has free capacity. Set this or `dedicated`.",
        json_schema_extra=annotate("controller", "suspended"),
    )
    dedicated: DedicatedSpec | None = Field(
        default=None,
        description="A separate RayCluster for each attempt. Set this or `shared`.",
        json_schema_extra=annotate("controller", "suspended"),
    )

    @model_validator(mode="after")
    def _one_cluster(self) -> Self:
        if (self.shared is None) == (self.dedicated is None):
            got = "both shared and dedicated" if self.shared else "neither shared nor dedicated"
            expected = "exactly one: shared (a RayCluster's name) or dedicated (a class)"
            raise RuleError([Problem("", got, expected)])
        return self
