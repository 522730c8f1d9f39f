"""What an attempt was given to begin with is its own, whatever becomes of whose it was."""

import json
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.app.builders_checkpoint import hold, make_manifest, make_tracked
from tests.app.builders_rows import write_rows
from tests.builders import make_data, make_run
from trainshed.attempt.launch import make_job
from trainshed.attempt.launch_config import Launch
from trainshed.checkpoint import ray_snapshot
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.manifest import Position
from trainshed.checkpoint.state import random_state
from trainshed.data.sampler.description import describe
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.worker.checkpoint_saver import CheckpointSaver
from trainshed.worker.step_sync import Control


def test_a_checkpoint_that_its_owner_deletes_is_restored_all_the_same(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    tracked = make_tracked(model)
    given_model = {name: torch.ones_like(each) for name, each in model.state_dict().items()}
    given = checkpoint.write(
        Disk(tmp_path / "theirs"),
        hold(given_model, {**tracked.state(), "random": [random_state(), random_state()]}),
        make_manifest(30),
        trust_objects=False,
    )
    place = RunLocation(Disk(tmp_path))
    prepared = prepare(make_run(train="tests.app.processes:children", epochs=3), place)
    attempt = prepared.folder.claim(prepared.spec_hash, fresh=False)
    job = make_job(Launch(prepared, place, given, [], time.time()), attempt)
    ray_snapshot.seed(job.checkpoints, given)
    given.remove(first=checkpoint.MANIFEST)

    saver = CheckpointSaver(job, Control(), 0, 1)
    saver.restore(tracked)
    attempt.close()

    assert saver.start == given, "that is what the user is told"
    assert saver.position.step == 30
    assert float(model.weight.detach().sum()) == 2.0


@pytest.mark.parametrize("step_in_epoch", [0, 4])
def test_an_earlier_release_can_read_what_is_written_at_an_epochs_end_alone(
    step_in_epoch: int, tmp_path: Path
) -> None:
    model = nn.Linear(2, 1)
    tracked = make_tracked(model)
    write_rows(tmp_path / "rows", 90)
    place = RunLocation(Disk(tmp_path))
    prepared = prepare(make_run(train="tests.app.processes:children", data=make_data()), place)
    attempt = prepared.folder.claim(prepared.spec_hash, fresh=False)
    job = make_job(Launch(prepared, place, None, [], time.time()), attempt)
    saver = CheckpointSaver(job, Control(), 0, 1)
    plan = job.plans["train"]
    saver.describe_data = lambda: {"train": known} if (known := describe(plan, None)) else {}
    saver.begin(
        tracked, Position(epoch=1, step_in_epoch=step_in_epoch, step=10), {}, (), lambda: None
    )
    saver.wait()
    attempt.close()

    (written,) = checkpoint.candidates([job.checkpoints])
    manifest = json.loads(written.read(checkpoint.MANIFEST))
    # Earlier releases had this field without a default.
    assert isinstance(manifest["data"]["train"]["blockRows"], int) is (step_in_epoch == 0)
    assert checkpoint.verify(written).position.step == 10
