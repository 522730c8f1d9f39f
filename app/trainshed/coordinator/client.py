"""The coordinator's actor, called like an object in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import ray

if TYPE_CHECKING:
    from collections.abc import Callable

    from ray.actor import ActorHandle

    from trainshed.coordinator.actor import Coordinator

# Methods without an answer, whose callers do not wait until they have run.
NOT_AWAITED = frozenset(
    {"load", "spend", "mark", "begin", "report", "hold", "place", "lose", "end", "tell", "stop"}
)


class RemoteCoordinator:
    """Calls the methods of the actor by their names, and waits for what they return.

    Args:
        handle: of the actor.
    """

    def __init__(self, handle: ActorHandle[Coordinator]) -> None:
        self.handle = handle

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):  # pickle looks for some before there is a handle
            raise AttributeError(name)
        remote = getattr(self.handle, name).remote

        def call(*arguments: object, **named: object) -> object:
            answer = remote(*arguments, **named)
            return None if name in NOT_AWAITED else ray.get(answer)

        return call


def client_of(handle: ActorHandle[Coordinator]) -> Coordinator:
    """Return what calls an actor, with the types of its class."""
    return cast("Coordinator", RemoteCoordinator(handle))


def handle_of(coordinator: Coordinator) -> ActorHandle[Coordinator]:
    """Return the handle of a coordinator that is an actor."""
    assert isinstance(coordinator, RemoteCoordinator)
    return coordinator.handle
