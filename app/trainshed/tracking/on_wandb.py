"""Weights & Biases: a run of a project, by its own client."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import wandb

from trainshed.tracking.tracker import SECONDS_TO_END
from trainshed_api.names import SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.tracking.tracker import Point, TrackedRun
    from trainshed_api.names import Outcome
    from trainshed_api.tracking import WandbSpec


class Wandb:
    """Logs to one run, whose ID is that of the tracked run."""

    name = "Weights & Biases"

    def __init__(self, spec: WandbSpec) -> None:
        self._spec = spec

    def begin(self, run: TrackedRun) -> Mapping[str, int]:
        """Create the run or resume it; the service knows its last step, an offline run does not."""
        folder = os.environ.get("WANDB_DIR") or run.folder.path or tempfile.gettempdir()
        self._run = wandb.init(
            project=self._spec.project,
            entity=self._spec.entity,
            id=run.id,
            name=run.name,
            resume="allow",
            reinit="create_new",
            # An attempt may have more epochs or workers than the one before it.
            allow_val_change=True,
            dir=str(folder),
            config={**run.parameters, **run.facts},
            # Standard output is that of the run's events. At its exit the process waits no longer.
            settings=wandb.Settings(
                console="off",
                silent=True,
                init_timeout=SECONDS_TO_END,
                finish_timeout=SECONDS_TO_END,
            ),
        )
        # The service takes no step before its last one.
        before = self._run.starting_step - 1
        return dict.fromkeys(self._run.summary.keys(), before)

    def log(self, points: Sequence[Point]) -> None:
        """Hand metrics to the client, which sends them."""
        for point in points:
            self._run.log(dict(point.values), step=point.step)

    def end(self, outcome: Outcome, facts: Mapping[str, str]) -> None:
        """Hand over the result, and wait until all of it is sent."""
        self._run.summary.update({"outcome": outcome, **facts})
        self._run.finish(exit_code=0 if outcome == SUCCEEDED else 1)
