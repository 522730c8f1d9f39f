"""Tells the coordinator what is left out of a fragment, from wherever it is read."""

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
    """Waits until it is known: rows that are used were told of before, and the limit was kept.

    Args:
        coordinator: the actor that counts.
    """

    coordinator: ActorHandle[Actor]

    def __call__(self, told: BadRecordList) -> None:
        """Tell it.

        Raises:
            DataError: when more is left out than may be.
        """
        remote: Callable[[BadRecordList], ray.ObjectRef[None]] = self.coordinator.leave_out.remote
        try:
            ray.get(remote(told))
        except RayTaskError as error:
            if isinstance(error.cause, DataError):
                raise_again(error.cause)
            raise
