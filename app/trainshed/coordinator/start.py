"""Starts the coordinator's actor; others than its driver find it by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import ray

from trainshed.coordinator.actor import BAD_RECORDS, REPORTED_CHECKPOINTS, Coordinator
from trainshed.coordinator.client import client_of

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from trainshed_api.v1alpha1 import TrainingRunSpec

# Programs of the user's find the actor of their run by its name, in a namespace of our own.
NAMESPACE = "trainshed"


def start(spec: TrainingRunSpec, started: float, name: str | None = None) -> Coordinator:
    """Start the actor on this node and return what calls it; the caller keeps it alive.

    Args:
        spec: of the run.
        started: when the driver's process began, seconds since 1970.
        name: under which other programs find it in NAMESPACE; None for nobody else.
    """
    node = ray.get_runtime_context().get_node_id()
    # Every rank may wait in a call for each dataset, while pushes and looks must still get through;
    # one call trains.
    concurrency = spec.workers.count * (len(spec.data.datasets) + 1) + 9
    groups = {REPORTED_CHECKPOINTS: 2 * spec.workers.count, BAD_RECORDS: 2}
    # Ray documents the argument and leaves it out of its types.
    actor = ray.remote(concurrency_groups=groups)(Coordinator).options(  # type: ignore[call-overload]
        num_cpus=0,
        max_concurrency=concurrency,
        label_selector={"ray.io/node-id": node},
        name=name,
        namespace=NAMESPACE if name else None,
    )
    handle = actor.remote(started)
    return client_of(cast("ActorHandle[Coordinator]", handle))
