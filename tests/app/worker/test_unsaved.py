"""A checkpoint that the storage does not take, or takes too slowly, is said with what to do."""

import time

import pytest
from torch import nn

from tests.app.builders_checkpoint import make_manifest, make_tracked
from tests.app.conftest import set_environment
from tests.builders import make_run
from tests.faulty_s3 import FaultyS3
from tests.s3_faults import Refusal, Rule
from trainshed.attempt.launch import make_job
from trainshed.attempt.launch_config import Launch
from trainshed.checkpoint.manifest import Position
from trainshed.checkpoint.writer import WriteResult
from trainshed.failures import InfrastructureError
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.bucket import Bucket
from trainshed.worker.checkpoint_saver import CheckpointSaver
from trainshed.worker.step_sync import Control


def test_credentials_that_end_are_said_at_the_end_with_what_to_do(
    in_bucket: Bucket, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, faulty_s3.environment)
    prepared = prepare(
        make_run(train="tests.app.processes:children", epochs=3), RunLocation(in_bucket)
    )
    attempt = prepared.folder.claim(prepared.spec_hash, fresh=False)
    job = make_job(
        Launch(prepared, RunLocation(prepared.folder.at), None, [], time.time()), attempt
    )
    tracked = make_tracked(nn.Linear(2, 1))
    saver = CheckpointSaver(job, Control(), 0, 1)
    faulty_s3.add(Rule(Refusal(400, "ExpiredToken")))
    saver.begin(tracked, Position(epoch=1, step=10), {}, (), lambda: None)
    saver.wait()

    said = saver.unsaved
    assert said
    assert said.startswith(
        "step 10: [Errno 13] access was denied, or the credentials have expired: "
    )
    assert "renew them and start the run again; it resumes from its last checkpoint" in said
    with pytest.raises(
        InfrastructureError, match="training is done but its checkpoint is not: step 10"
    ):
        saver.check_last()
    attempt.close()
    faulty_s3.heal()

    saver.begin(tracked, Position(epoch=2, step=20), {}, (), lambda: None)
    saver.wait()
    assert not saver.unsaved


@pytest.mark.parametrize(("put_seconds", "want"), [(0.0, False), (30.0, False), (31.0, True)])
def test_two_checkpoints_on_their_way_at_a_stop_have_to_fit_its_grace(
    put_seconds: float, want: bool
) -> None:
    written = WriteResult(make_manifest(10), None, None, put_seconds)

    assert written.is_too_slow_for(60) is want
