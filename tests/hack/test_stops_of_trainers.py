"""Trainers of other frameworks stop after a step, and the next attempt continues after it.

On one worker in this process, with the real packages; `make test-trainers` installs them.
"""

import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import ray
import ray.train
import torch.distributed as dist
from ray.train.v2._internal.execution.train_fn_utils import LocalTrainFnUtils

from hack.stops.draw import Stop
from hack.stops.judge import judge
from hack.stops.marks import Plan
from tests.app.reporting_alone import transfer
from tests.hack.test_stops_alone import PROGRAMS, Alone
from trainshed.ray_train.report_relay import HeldUp
from trainshed.worker.active_run import running

if TYPE_CHECKING:
    from trainshed.worker.current import Run

TRAINERS = ("accelerate", "lightning", "transformers")
# The second of three epochs has the steps 13 to 24 on one worker.
STEP = 15
pytestmark = [
    pytest.mark.trainers,
    # Lightning warns of PyTorch's old interfaces.
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(
        importlib.util.find_spec("lightning") is None,
        reason="the trainers are not installed: make test-trainers",
    ),
]


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Lightning's callback be made without a Ray; end the process group that it leaves."""
    context = SimpleNamespace(get_job_id=lambda: "alone")
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_stops_after_a_step(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, traces = [], []
    for stops in (False, True):
        folder = tmp_path / ("stopped" if stops else "reference")
        alone = Alone(PROGRAMS[name], folder, monkeypatch)
        store_reports(monkeypatch, folder / "reports")
        if stops:
            ends.append(alone.attempt(Plan("training", STEP), stops=True))
            # The step in which it is asked may be past the place where its trainer looks.
            assert max(step for step, *_ in alone.trace().effective) <= STEP + 1
        ends.append(alone.attempt(Plan()))
        traces.append(alone.trace())

    reference, stopped = traces
    drawn = Stop(name, "training", "terminate", STEP)
    assert judge(drawn, reference, stopped, ends[1:], keeps_steps=True) == []


def store_reports(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have checkpoints of reports kept in a folder, and the newest given to the next attempt."""
    folder.mkdir()

    def report(
        _: LocalTrainFnUtils,
        metrics: Mapping[str, object],
        checkpoint: ray.train.Checkpoint | None = None,
        *__: object,
        **___: object,
    ) -> None:
        run = cast("Run", running())
        worker = HeldUp(run._loop._coordinator)
        with worker.on_report(), transfer(worker, is_saved=checkpoint is not None):
            if checkpoint:
                shutil.copytree(checkpoint.path, folder / f"{len(list(folder.iterdir())):03}")

    def get_checkpoint(_: LocalTrainFnUtils) -> ray.train.Checkpoint | None:
        newest = max(folder.iterdir(), default=None)
        return None if newest is None else ray.train.Checkpoint.from_directory(newest)

    patch.setattr(LocalTrainFnUtils, "report", report)
    patch.setattr(LocalTrainFnUtils, "get_checkpoint", get_checkpoint)
