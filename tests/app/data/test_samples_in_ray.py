"""Samples of data that Ray Data makes, keeps or streams give the rows that were written.

One Ray, and one feeder for all of them: their datasets are told apart by the sample's name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import ray

from tests.app.data.builders_samples import Sample, named_after, open_sample
from tests.app.data.sample_cases import IN_RAY
from tests.app.data.sample_files import DATABASE
from tests.app.ray_head import start_here
from trainshed.data.loader.data_server import DataServer, ExecutionLimits
from trainshed.data.loader.disk_cache import DiskCache
from trainshed.data.loader.row_sources import RemoteSource
from trainshed.storage.disk import Disk

if TYPE_CHECKING:
    from ray.actor import ActorHandle

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.usefixtures("empty_ledger")]


@dataclass(frozen=True)
class Fed:
    """All samples, and where those lie that are kept on disk."""

    samples: dict[str, Sample]
    disk_cache: Path


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fed]:
    home = tmp_path_factory.mktemp("samples")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FLIGHTS", str(home / "database" / DATABASE))  # Ray's processes are told
        with start_here(cpus=2):
            yield start(home)


def start(home: Path) -> Fed:
    """Write what the samples read, and start the feeder of them all."""
    samples = {}
    for name, case in IN_RAY.items():
        (home / name).mkdir()
        case.write(home / name)
        samples[name] = named_after(open_sample(home / name, name, case.settings), name)
    disk_cache = home / "kept"
    plans = {plan.name: plan for sample in samples.values() for plan in sample.plans.values()}
    actor = ray.remote(DataServer).options(num_cpus=0, max_concurrency=16)
    remote = actor.remote(plans, ExecutionLimits(2), print, DiskCache(Disk(disk_cache)))
    data_server = cast("ActorHandle[DataServer]", remote)
    cast("Any", data_server).start.remote()  # Ray's types say that this never returns
    return Fed(
        {
            name: replace(sample, blocks=lambda plan: RemoteSource(plan, data_server, 0))
            for name, sample in samples.items()
        },
        disk_cache,
    )


@pytest.mark.parametrize("name", IN_RAY)
def test_a_sample_gives_the_rows_that_were_written(fed: Fed, name: str) -> None:
    sample = fed.samples[name]

    IN_RAY[name].check(sample)
    for plan in sample.plans.values():
        on_disk = list((fed.disk_cache / plan.name).rglob("*.parquet"))
        assert bool(on_disk) is (plan.cache == "disk")
