"""Rows of a bucket come exactly once, however its server behaves while they are read."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import ray

from tests.app.conftest import set_environment
from tests.app.data import row_numbers
from tests.app.data.builders_plan import make_pass, make_plan
from tests.app.data.losses import Rank
from tests.app.data.numbered import FORMATS, write_files
from tests.app.ray_head import start_here
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from tests.s3_faults import SLOW_DOWN, Rule
from trainshed.data.loader.data_server import DataServer, ExecutionLimits
from trainshed.storage.bucket import Bucket

if TYPE_CHECKING:
    from ray.actor import ActorHandle

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

ROWS, FILES, BATCH = 300, 8, 20
SECONDS = 300.0


@pytest.fixture(scope="module")
def faulty(s3_server: S3Server) -> Iterator[FaultyS3]:
    """A proxy in front of the server, which Ray's processes are told of."""
    proxy = FaultyS3(s3_server)
    with pytest.MonkeyPatch.context() as patched:
        set_environment(patched, proxy.environment)
        with start_here(cpus=2):
            yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def bucket(faulty: FaultyS3, s3_server: S3Server) -> Bucket:
    return Bucket(f"s3://{s3_server.make_bucket()}", "rows")


def upload(folder: Path, to: Bucket) -> Bucket:
    """Copy a folder's files into a bucket."""
    for file in sorted(folder.iterdir()):
        for each in sorted(file.iterdir()) if file.is_dir() else [file]:
            to.write(str(each.relative_to(folder)), each.read_bytes())
    return to


@pytest.mark.parametrize("form", ["csv", "images"])
def test_nothing_is_lost_and_nothing_comes_twice(
    faulty: FaultyS3, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.whole_files.TASK_FILES", 60)
    rows = 100 if form == "images" else ROWS  # a request each
    at = upload(write_files(tmp_path, form, rows, FILES), bucket / form)
    plan = make_plan(
        None,
        at=at,
        row_bytes=2**18,
        may_learn=True,
        cache="none",
        shuffle={"mode": "blocks"},
        transforms=[{"use": f"{row_numbers.__name__}:widened"}],
        augment=[{"use": "tests.app.data.sample_functions:noise"}],
        feed={"lastBatch": "keep"},
        read={"format": form, "options": dict(FORMATS[form].options)},
    )
    actor = ray.remote(DataServer).options(num_cpus=0, max_concurrency=16)
    data_server = cast(
        "ActorHandle[DataServer]", actor.remote({"train": plan}, ExecutionLimits(2), print)
    )
    rank = cast("Any", ray.remote(Rank).options(num_cpus=0).remote())

    faulty.add(Rule("answer held", "GET", every=2, times=1))
    faulty.add(Rule(SLOW_DOWN, "GET", every=5))
    faulty.add(Rule("answer cut", "GET", every=6))
    epochs = []
    for epoch in range(2):
        at_epoch = replace(make_pass(epoch=epoch, world_size=1, batch_size=BATCH), group=0)
        ray.get(rank.begin.remote(plan, at_epoch, data_server, 0), timeout=SECONDS)
        coming = rank.take.remote("train")
        if not epoch:
            faulty.wait_until_held()
            faulty.release()
        epochs.append([number for step in ray.get(coming, timeout=SECONDS) for number, _ in step])
    faulty.heal()

    assert faulty.count("GET", f"rows/{form}/*") > 2 * FILES  # each of the faults has struck
    for numbers in epochs:
        assert sorted(numbers) == list(range(rows))
    assert epochs[0] != epochs[1]
    ray.kill(rank)
    ray.kill(data_server)
