from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import ray
from pydantic import JsonValue
from ray.actor import ActorHandle

from tests.app.data.builders_plan import FUNCTIONS, MemoryBlocks, make_pass, make_plan, write_rows
from tests.app.ray_head import start_here
from trainshed.data.batches import Blocks, Feed
from trainshed.data.blocks import FedBlocks
from trainshed.data.feeder import Feeder, Limits
from trainshed.data.plan import DatasetPlan
from trainshed.data.schedule import Pass

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

GROUPS = ([5, 11], [1, 30, 8], [26])
Row = tuple[object, ...]
AUGMENTS: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]
STORE_BYTES = 90 * 2**20
WIDE = 2048
SECONDS = 600.0


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    with start_here(cpus=2, store_bytes=STORE_BYTES):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three times what the object store holds, in row groups of 64 MB and of 8 MB."""
    return write_rows(tmp_path_factory.mktemp("large"), [[8192] * 2, [1024] * 16], width=WIDE)


def start(plan: DatasetPlan) -> ActorHandle[Feeder]:
    actor = ray.remote(Feeder).options(num_cpus=0, max_concurrency=16)
    handle = cast("ActorHandle[Feeder]", actor.remote({plan.name: plan}, Limits(2)))
    cast("Any", handle).start.remote()  # Ray's types say that this never returns
    return handle


class Reader:
    """A rank in a process of its own, as in a run.

    With two in one process a test hangs once in some hundred passes: while one of its threads lets
    go of a block and the other is handed it, Ray 2.60 may lose the block's value.
    """

    def read(
        self, plan: DatasetPlan, at: Pass, feeder: ActorHandle[Feeder], rank: int
    ) -> list[Row]:
        """Return what is in the batches of a rank."""
        return list(_rows(plan, at, FedBlocks(plan, feeder, rank), rank))

    def count(self, plan: DatasetPlan, at: Pass, feeder: ActorHandle[Feeder], rank: int) -> int:
        """Return how many rows a rank gets, each of them whole."""
        rows = 0
        for batch in Feed(plan, FedBlocks(plan, feeder, rank), rank).batches(at):
            ids = batch.tensors["id"].numpy()
            assert np.array_equal(batch.tensors["x"].numpy()[:, 0], ids.astype(np.float32))
            rows += batch.rows
        return rows


@pytest.fixture(scope="module")
def readers() -> list[ActorHandle[Reader]]:
    actor = ray.remote(Reader).options(num_cpus=0)
    return [cast("ActorHandle[Reader]", actor.remote()) for _ in range(2)]


def _rows(plan: DatasetPlan, at: Pass, blocks: Blocks, rank: int) -> Iterator[Row]:
    for batch in Feed(plan, blocks, rank).batches(at):
        row = {name: tensor.tolist() for name, tensor in batch.tensors.items()}
        yield row["id"], row["x"], row.get("draw")


def expected(plan: DatasetPlan, at: Pass) -> list[list[Row]]:
    ranks = range(at.num_ranks)
    return [list(_rows(plan, at, MemoryBlocks(plan, rank), rank)) for rank in ranks]


@pytest.mark.parametrize("cache", ["none", "objects"])
@pytest.mark.parametrize("mode", ["none", "files", "blocks", "local", "global"])
def test_ray_data_sends_what_the_plan_says(
    folder: Path, readers: list[ActorHandle[Reader]], mode: str, cache: str
) -> None:
    shuffle: JsonValue = {"mode": mode} | ({"bufferSize": 13} if mode == "local" else {})
    plan = make_plan(folder, row_bytes=2**20, cache=cache, shuffle=shuffle, augment=AUGMENTS)
    feeder = start(plan)
    for at in (make_pass(epoch=1, epochs=3), make_pass(epoch=2, first_step=3, epochs=3)):
        seen = [reader.read.remote(plan, at, feeder, rank) for rank, reader in enumerate(readers)]
        assert ray.get(seen, timeout=SECONDS) == expected(plan, at)
    ray.kill(feeder)


@pytest.mark.parametrize("mode", ["none", "local"])
def test_a_dataset_larger_than_the_object_store_streams(
    large: Path, readers: list[ActorHandle[Reader]], mode: str
) -> None:
    shuffle: JsonValue = {"mode": mode} | ({"bufferSize": 4096} if mode == "local" else {})
    plan = make_plan(large, row_bytes=4 * WIDE, cache="none", shuffle=shuffle)
    feeder, at = start(plan), make_pass(batch_size=512)
    counts = [reader.count.remote(plan, at, feeder, rank) for rank, reader in enumerate(readers)]
    assert ray.get(counts, timeout=SECONDS) == [16384, 16384]
    ray.kill(feeder)
