"""The RayCluster that a TrainingRun runs on, and what a dedicated one gets from the run."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from trainshed_api.errors import Problem, RuleError
from trainshed_api.schema import DnsName, ObjectName, SpecModel, annotate

# By digest: every attempt of a run has the same program.
ImageReference = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)+"
        r"(:[A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?@sha256:[0-9a-f]{64}$",
        max_length=512,
        json_schema_extra={
            "expected": "an image with its digest, such as "
            "registry.example.com/team/train@sha256:DIGEST"
        },
    ),
]


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


class ObjectReference(SpecModel):
    """An object of the run's namespace."""

    name: ObjectName = Field(
        description="Name of the object.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )


class EnvFromSpec(SpecModel):
    """A Secret or ConfigMap whose keys become environment variables, as in a container."""

    secret_ref: ObjectReference | None = Field(
        default=None,
        description="A Secret. Set this or `configMapRef`.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )
    config_map_ref: ObjectReference | None = Field(
        default=None,
        description="A ConfigMap. Set this or `secretRef`.",
        json_schema_extra=annotate("controller", "nextAttempt"),
    )

    @model_validator(mode="after")
    def _one_object(self) -> Self:
        if (self.secret_ref is None) == (self.config_map_ref is None):
            got = f"{'both' if self.secret_ref else 'neither'} of them"
            raise RuleError([Problem("", got, "exactly one: secretRef or configMapRef")])
        return self
