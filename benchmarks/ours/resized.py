"""Resumes in the middle of an epoch with the same number of ranks or half; measures time and rows.

Warm: the coordinator is running, and four ranks were in the pass. Cold: a new job.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import ray

from benchmarks.ours import feeding
from benchmarks.resize import MODES, RANKS_AFTER, RANKS_BEFORE
from trainshed.coordinator.client import handle_of
from trainshed.data.sampler.epoch_pass import first_read, order_of, steps_for
from trainshed.data.sampler.permutation import EpochPermutation

if TYPE_CHECKING:
    from pydantic import JsonValue
    from ray.actor import ActorHandle

    from benchmarks.ours.feeding import Rank
    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass

EPOCH, STEPS_BEFORE = 1, 10
STORE_BYTES = 2**30


class ResizeTrial:
    """One dataset in all shuffle modes, whose passes stop and resume.

    Args:
        data: folder of the files, whose rows have a column `id`.
        row_bytes: size of a row.
        batch_size: rows in a step.
        notes: empty folder, for the IDs of the rows that tasks decode.
    """

    def __init__(self, data: Path, row_bytes: int, batch_size: int, notes: Path) -> None:
        self._batch_size = batch_size
        self._notes = {mode: notes / mode.replace(" ", "-") for mode in MODES}
        self.plans = {}
        for mode, folder in self._notes.items():
            folder.mkdir()
            record: JsonValue = {
                "use": "benchmarks.ours.feeding:record_ids",
                "options": {"folder": str(folder)},
            }
            self.plans[mode] = feeding.make_plan(
                folder.name, data, row_bytes, RANKS_BEFORE, shuffle=MODES[mode], transforms=[record]
            )

    def run_before(self, mode: str, client: Coordinator, ranks: list[ActorHandle[Rank]]) -> None:
        """Have ranks take the steps of a pass before the one to resume at, and stop."""
        plan = self.plans[mode]
        epoch_pass = self._make_pass(plan, len(ranks), client.join(0), STEPS_BEFORE)
        arguments = (plan, epoch_pass, handle_of(client), STEPS_BEFORE)
        ray.get([rank.begin.remote(*arguments) for rank in ranks])
        feeding.stop(ranks)

    def resume(
        self, mode: str, client: Coordinator, ranks: list[ActorHandle[Rank]]
    ) -> dict[str, float]:
        """Resume with these ranks.

        Returns:
            Seconds until the first step, number of decoded rows of earlier steps, and this number
            divided by the rows of a window and a row group.
        """
        plan = self.plans[mode]
        for file in self._notes[mode].iterdir():
            file.unlink()
        started = time.time()
        epoch_pass = self._make_pass(plan, len(ranks), client.join(0), 0)
        seconds = feeding.wait_for_first(ranks, plan, epoch_pass, client) - started
        rows = self._count_earlier_rows(mode, plan, epoch_pass)
        feeding.stop(ranks)
        client.join(0)  # ends the stream
        window = (self._window_steps(plan) - 1) * self._batch_size
        return {"seconds": seconds, "again": rows, "part": rows / (window + plan.counts.max())}

    def _make_pass(self, plan: DatasetPlan, world_size: int, group: int, earlier: int) -> EpochPass:
        """Return the pass from `earlier` steps before the step to resume at.

        This is the step that needs the most rows of earlier steps: the last step of the window in
        the middle of the epoch or, without windows, of the row group.
        """
        start = feeding.make_pass(plan, world_size, self._batch_size)
        start = replace(start, epoch=EPOCH, group=group)
        middle = steps_for(plan, start, int(plan.counts.sum())).full // 2 - 1
        window = self._window_steps(plan)
        step = middle - middle % window + window - 1
        return replace(start, first_step=step - earlier)

    def _window_steps(self, plan: DatasetPlan) -> int:
        return max(1, -(-plan.shuffle_buffer_rows // self._batch_size))

    def _count_earlier_rows(self, mode: str, plan: DatasetPlan, epoch_pass: EpochPass) -> float:
        """Return the number of decoded rows that are before the first step of a pass."""
        order = order_of(plan, epoch_pass, plan.counts)
        layout = steps_for(plan, epoch_pass, int(plan.counts.sum()))
        assert isinstance(order, EpochPermutation)  # only one dataset
        positions = np.empty(order.rows, dtype=np.int64)
        positions[order.ids(np.arange(order.rows, dtype=np.int64))] = np.arange(order.rows)
        files = [file.read_text(encoding="ascii") for file in self._notes[mode].iterdir()]
        ids = np.concatenate([np.fromstring(text, np.int64, sep=" ") for text in files])
        earlier = int((positions[ids] < layout.start(epoch_pass.first_step)).sum())
        # A row group is decoded from its start, also the rows that no transform receives.
        start = layout.start(first_read(plan, epoch_pass, layout))
        return earlier + order.pieces(start, start + 1)[0].start


def main(*, data: str, notes: str, row_bytes: int, batch_size: int) -> dict[str, float]:
    """Measure all modes, warm and then cold."""
    trial = ResizeTrial(Path(data), row_bytes, batch_size, Path(notes))
    plans = list(trial.plans.values())
    cases: dict[str, dict[str, float]] = {}
    with feeding.start_ray(["all"], STORE_BYTES) as address:
        client = feeding.start_coordinator(plans)
        before = feeding.start_ranks(["all"] * RANKS_BEFORE)
        after = {count: feeding.start_ranks(["all"] * count) for count in RANKS_AFTER}
        for mode in MODES:
            for count, ranks in after.items():
                trial.run_before(mode, client, before)
                cases[f"{mode}, {count}, warm"] = trial.resume(mode, client, ranks)
        for mode in MODES:
            for count in RANKS_AFTER:
                feeding.connect(address)
                client = feeding.start_coordinator(plans)
                ranks = feeding.start_ranks(["all"] * count)
                cases[f"{mode}, {count}, cold"] = trial.resume(mode, client, ranks)
    return {
        f"{case}: {name}": value for case, values in cases.items() for name, value in values.items()
    }
