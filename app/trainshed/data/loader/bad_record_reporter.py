"""Reports the bad records of a fragment to the coordinator, from any process that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import ray
from ray.exceptions import RayTaskError

from trainshed.data.sources.errors import DataError, raise_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from ray.actor import ActorHandle

    from trainshed.data.sampler.bad_records import BadRecordList


Actor = TypeVar("Actor")


@dataclass(frozen=True)
class BadRecordReporter(Generic[Actor]):
    """Waits for the coordinator: rows are used only if the limit was not exceeded before.

    Args:
        coordinator: the actor that counts.
    """

    coordinator: ActorHandle[Actor]

    def __call__(self, told: BadRecordList) -> None:
        """Report it.

        Raises:
            DataError: if the limit is exceeded.
        """
        remote: Callable[[BadRecordList], ray.ObjectRef[None]] = self.coordinator.leave_out.remote
        try:
            ray.get(remote(told))
        except RayTaskError as error:
            if isinstance(error.cause, DataError):
                raise_again(error.cause)
            raise
