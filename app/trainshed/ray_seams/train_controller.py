"""Ray Train's controller, at home in the coordinator's process.

Ray Train gives it an actor, so a process: two to three seconds of a core at every start, for
something that looks after the workers ten times a second.

Private to Ray 2.60, the pinned release; tests/app/test_plain_functions.py asks it what only its
actor could be asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ray.train.v2._internal.execution.controller.controller import TrainController

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ray.train import Result
    from ray.train.v2.api.reported_checkpoint import ReportedCheckpoint


class Controller:
    """Runs Ray Train's controller in the thread that asks, and answers others meanwhile.

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
        self._controller = TrainController(**self._arguments)
        await self._controller.run()  # type: ignore[no-untyped-call]
        return self._controller.get_result()

    def get_all_reported_checkpoints(self, *arguments: Any) -> list[ReportedCheckpoint]:
        """Answer `ray.train.get_all_reported_checkpoints` of a worker; waits as it says."""
        assert self._controller
        answer = self._controller.get_all_reported_checkpoints(*arguments)
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result()
