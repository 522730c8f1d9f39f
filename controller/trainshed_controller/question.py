"""What a Ray head is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from trainshed_api.snapshot import Snapshot
    from trainshed_controller.model import Key


@dataclass(frozen=True)
class Question:
    """What only the head of a RayCluster knows of an attempt's job.

    is over: whether it runs no more. stop: the same, after it was asked to stop. last word: the
    snapshot that its driver's log ends with. uid: of the run; of the RayJob where the run is gone.
    """

    kind: Literal["is over", "stop", "last word"]
    run: Key
    uid: str
    attempt: int
    cluster: str
    job_id: str


@dataclass(frozen=True)
class RaysWord:
    """What a head said to a question; all None if nobody answered, or it does not know."""

    over: bool | None = None
    last_word: Snapshot | None = None
