"""Resumes in the middle of an epoch with the same number of ranks or half; measures time and rows.

Warm: the coordinator is running, and four ranks were in the pass. Cold: a new job.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import ray

from benchmarks.ours import feeding
from benchmarks.plain.program import start
from benchmarks.resize import BEFORE, MODES, NOW
from trainshed.coordinator.client import handle_of
from trainshed.data.sampler.epoch_pass import first_read, order_of
from trainshed.data.sampler.permutation import EpochPermutation

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from benchmarks.ours.feeding import Rank
    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass

EPOCH, STEPS_BEFORE = 1, 10
STORE_BYTES = 2**30


class Resizing:
    """One data set in all modes, and who goes on in each of them.

    Args:
        data: its folder; rows have numbers.
        row_bytes: of each.
        batch_size: rows of a step.
        notes: an empty folder.
    """

    def __init__(self, data: Path, row_bytes: int, batch_size: int, notes: Path) -> None:
        self._batch_size = batch_size
        self._notes = {mode: notes / mode.replace(" ", "-") for mode in MODES}
        for folder in self._notes.values():
            folder.mkdir()
        self.plans = {
            mode: feeding.plan_of(
                folder.name,
                data,
                row_bytes,
                shuffle=MODES[mode],
                transforms=[
                    {"use": "benchmarks.ours.feeding:noted", "options": {"folder": str(folder)}}
                ],
            )
            for mode, folder in self._notes.items()
        }

    def before(self, mode: str, client: Coordinator, ranks: list[ActorHandle[Rank]]) -> None:
        """Have ranks in the middle of a pass, up to the step that others go on at; they leave."""
        plan = self.plans[mode]
        at = self._at(plan, len(ranks), client.join(0), STEPS_BEFORE)
        ray.get([rank.begin.remote(plan, at, handle_of(client), STEPS_BEFORE) for rank in ranks])
        feeding.leave(ranks)

    def go_on(
        self, mode: str, client: Coordinator, ranks: list[ActorHandle[Rank]]
    ) -> dict[str, float]:
        """Let ranks go on that are there.

        Returns:
            Seconds to the first step, the rows that were read and are none of the steps to come,
            and these as a part of a window and a row group.
        """
        plan = self.plans[mode]
        self._forget(mode)
        began = time.time()
        at = self._at(plan, len(ranks), client.join(0), 0)
        seconds = feeding.first_batches(ranks, plan, at, client) - began
        done = self._done(mode, plan, at)
        feeding.leave(ranks)
        client.join(0)  # ends the stream
        return {"seconds": seconds, "again": done, "part": done / self._most(plan, at)}

    def _at(self, plan: DatasetPlan, world_size: int, group: int, earlier: int) -> EpochPass:
        """Return the pass from the worst step in the middle on, or from a few steps earlier.

        That is the last one of a window and, without windows, of a row group.
        """
        start = feeding.pass_of(plan, world_size, self._batch_size, epoch=EPOCH, group=group)
        middle = feeding.steps_of(plan, start).full // 2 - 1
        span = self._span(plan)
        step = middle - middle % span + span - 1
        return feeding.pass_of(
            plan, world_size, self._batch_size, epoch=EPOCH, group=group, first_step=step - earlier
        )

    def _span(self, plan: DatasetPlan) -> int:
        return max(1, -(-plan.shuffle_buffer_rows // self._batch_size))

    def _most(self, plan: DatasetPlan, at: EpochPass) -> float:
        """Return the rows of a window and a row group."""
        window = (self._span(plan) - 1) * at.batch_size
        return window + float(plan.counts.max())

    def _done(self, mode: str, plan: DatasetPlan, at: EpochPass) -> float:
        """Return the rows that tasks decoded and that come before the first step of a pass."""
        base, steps = order_of(plan, at, plan.counts), feeding.steps_of(plan, at)
        assert isinstance(base, EpochPermutation)  # nothing is mixed here
        place = np.empty(base.rows, dtype=np.int64)
        place[base.ids(np.arange(base.rows, dtype=np.int64))] = np.arange(base.rows)
        files = [file.read_text(encoding="ascii") for file in self._notes[mode].iterdir()]
        ids = np.concatenate([np.fromstring(each, np.int64, sep=" ") for each in files])
        first = steps.start(at.first_step)
        again = int((place[ids] < first).sum())
        # A row group is decoded from its beginning, which no transform sees.
        start = steps.start(first_read(plan, at, steps))
        return again + base.pieces(start, start + 1)[0].start

    def _forget(self, mode: str) -> None:
        for file in self._notes[mode].iterdir():
            file.unlink()


def main(*, data: str, notes: str, row_bytes: int, batch_size: int) -> dict[str, float]:
    """Measure all modes, warm and then cold."""
    resizing = Resizing(Path(data), row_bytes, batch_size, Path(notes))
    plans = list(resizing.plans.values())
    found: dict[str, float] = {}
    with feeding.nodes(["all"], STORE_BYTES) as cluster:
        client = feeding.feed(plans)
        before = feeding.ranks_on(["all"] * BEFORE)
        after = {count: feeding.ranks_on(["all"] * count) for count in NOW}
        for mode in MODES:
            for count, ranks in after.items():
                resizing.before(mode, client, before)
                note(found, f"{mode}, {count}, warm", resizing.go_on(mode, client, ranks))
        for mode in MODES:
            for count in NOW:
                cluster.join_anew()
                client = feeding.feed(plans)
                ranks = feeding.ranks_on(["all"] * count)
                note(found, f"{mode}, {count}, cold", resizing.go_on(mode, client, ranks))
    return found


def note(found: dict[str, float], case: str, measured: dict[str, float]) -> None:
    """Add what was measured of a case."""
    found |= {f"{case}: {name}": value for name, value in measured.items()}


if __name__ == "__main__":
    start(main)
