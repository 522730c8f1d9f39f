"""Kubernetes object metadata, as far as a file sets it; what the API server adds is dropped."""

from __future__ import annotations

from pydantic import Field

from trainshed_api.schema import NonEmpty, SpecModel, annotate

# What the API server writes into an object that it hands back; it says nothing about the run.
SERVER_METADATA = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "finalizers",
        "managedFields",
        "ownerReferences",
        "selfLink",
    }
)


class Metadata(SpecModel):
    """Kubernetes object metadata, as far as a file sets it."""

    name: str = Field(
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        max_length=40,
        description="Name of the run.",
        json_schema_extra=annotate("both", "never")
        | {"expected": "at most 40 of a-z, 0-9 and -, a letter first and no - last"},
    )
    namespace: NonEmpty | None = Field(
        default=None,
        description="Namespace in a cluster; ignored on a laptop.",
        json_schema_extra=annotate("controller", "never"),
    )
    labels: dict[str, str] = Field(
        default_factory=dict,
        description="Kubernetes labels; they do not affect the run.",
        json_schema_extra=annotate("controller", "live"),
    )
    annotations: dict[str, str] = Field(
        default_factory=dict,
        description="Kubernetes annotations; they do not affect the run.",
        json_schema_extra=annotate("controller", "live"),
    )
