import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import ray
from pydantic import JsonValue
from ray.actor import ActorHandle

from tests.app.data.builders_plan import FUNCTIONS, MemoryBlocks, make_pass, make_plan, write_rows
from trainshed.data.batches import Feed
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


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


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


def read(plan: DatasetPlan, at: Pass, feeder: ActorHandle[Feeder]) -> list[list[Row]]:
    """Return the batches of all ranks, which read at the same time."""
    seen: list[list[Row]] = [[] for _ in range(at.num_ranks)]
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            for batch in Feed(plan, FedBlocks(plan, feeder, rank), rank).batches(at):
                row = {name: tensor.tolist() for name, tensor in batch.tensors.items()}
                seen[rank].append((row["id"], row["x"], row.get("draw")))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(at.num_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return seen


def expected(plan: DatasetPlan, at: Pass) -> list[list[Row]]:
    seen: list[list[Row]] = []
    for rank in range(at.num_ranks):
        rows = [
            {name: tensor.tolist() for name, tensor in batch.tensors.items()}
            for batch in Feed(plan, MemoryBlocks(plan, rank), rank).batches(at)
        ]
        seen.append([(row["id"], row["x"], row.get("draw")) for row in rows])
    return seen


@pytest.mark.parametrize("cache", ["none", "objects"])
@pytest.mark.parametrize("mode", ["none", "files", "blocks", "local", "global"])
def test_ray_data_sends_what_the_plan_says(folder: Path, mode: str, cache: str) -> None:
    shuffle: JsonValue = {"mode": mode} | ({"bufferSize": 13} if mode == "local" else {})
    plan = make_plan(folder, row_bytes=2**20, cache=cache, shuffle=shuffle, augment=AUGMENTS)
    feeder = start(plan)
    for at in (make_pass(epoch=1, epochs=3), make_pass(epoch=2, first_step=3, epochs=3)):
        assert read(plan, at, feeder) == expected(plan, at)
    ray.kill(feeder)


@pytest.mark.parametrize("mode", ["none", "local"])
def test_a_dataset_larger_than_the_object_store_streams(large: Path, mode: str) -> None:
    shuffle: JsonValue = {"mode": mode} | ({"bufferSize": 4096} if mode == "local" else {})
    plan = make_plan(large, row_bytes=4 * WIDE, cache="none", shuffle=shuffle)
    feeder = start(plan)
    rows = 0
    feeds = [Feed(plan, FedBlocks(plan, feeder, rank), rank) for rank in (0, 1)]
    at = make_pass(batch_size=512)
    for batches in zip(*(feed.batches(at) for feed in feeds), strict=True):
        for batch in batches:
            ids = batch.tensors["id"].numpy()
            assert np.array_equal(batch.tensors["x"].numpy()[:, 0], ids.astype(np.float32))
            rows += batch.rows
    assert rows == 32768
    ray.kill(feeder)
