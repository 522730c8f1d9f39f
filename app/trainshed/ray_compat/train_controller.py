"""Ray Train's controller, at home in the coordinator's process.

Ray Train gives it an actor, so a process: two to three seconds of a core at every start, for
something that looks after the workers ten times a second.

Private to Ray 2.60, the pinned release; tests/app/test_plain_functions.py asks it what only its
actor could be asked.
"""

from __future__ import annotations

import asyncio
import math
import numbers
from typing import TYPE_CHECKING, Any

from ray._private.dict import flatten_dict
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.controller import controller
from ray.train.v2._internal.execution.controller.controller import TrainController

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ray.train import Result
    from ray.train._internal.session import _TrainingResult
    from ray.train.v2.api.reported_checkpoint import ReportedCheckpoint


def score_of(metrics: Mapping[str, object], name: str | None, mode: str) -> tuple[bool, float]:
    """Return what checkpoints are sorted by: the best one has the largest.

    Ray Train's own multiplies whatever it finds. A checkpoint between two evaluations has no score,
    and the JSON of Ray's snapshot has null for an infinite one: both ended the next attempt.

    Args:
        metrics: of a checkpoint.
        name: of the metric that decides; None where none does.
        mode: min or max.
    """
    value = metrics.get(name) if name else None
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        return False, 0.0
    return True, float(value) if mode == "max" else -float(value)


class RankedCheckpoints(CheckpointManager):
    """Ray Train's record of checkpoints, in which those without a score rank last."""

    def _get_checkpoint_score(  # type: ignore[override]  # a float is no Number to mypy
        self, checkpoint: _TrainingResult
    ) -> tuple[bool, float]:
        config = self._checkpoint_config
        # As Ray Train names what is nested.
        metrics = flatten_dict(checkpoint.metrics)
        name, mode = config.checkpoint_score_attribute, config.checkpoint_score_order
        return score_of(metrics, name, mode or "max")


class TrainControllerHost:
    """Runs Ray Train's controller in the calling thread, and answers other calls during that.

    Args:
        arguments: of Ray Train's controller.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        # Never closed: what Ray Train has left to do in it ends with this process.
        self._loop = asyncio.new_event_loop()
        self._controller: TrainController | None = None

    def run(self) -> Result:
        """Train to the end; the result holds what went wrong."""
        return self._loop.run_until_complete(self._run())

    async def _run(self) -> Result:
        controller.CheckpointManager = RankedCheckpoints  # type: ignore[attr-defined]  # imported
        self._controller = TrainController(**self._arguments)
        await self._controller.run()  # type: ignore[no-untyped-call]
        return self._controller.get_result()

    def get_all_reported_checkpoints(self, *arguments: Any) -> list[ReportedCheckpoint]:
        """Answer `ray.train.get_all_reported_checkpoints` of a worker; waits as it says."""
        assert self._controller
        answer = self._controller.get_all_reported_checkpoints(*arguments)
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result()
