"""A step on a GPU waits for nothing: torch itself raises where the host would."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from trainshed.data.loader.batches import Batch
from trainshed.data.loader.prefetch import Prefetched
from trainshed.worker.device_prefetcher import DevicePrefetcher, streams_of
from trainshed.worker.device_reads import Losses

pytestmark = pytest.mark.gpu


@contextmanager
def no_waits() -> Iterator[None]:
    """Have each wait of the host for the device be an error."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def make_batches(count: int) -> Iterator[Batch]:
    for step in range(count):
        yield Batch({"x": torch.full((8, 4), float(step))}, rows=8, total=8)


def test_no_step_waits_for_its_device() -> None:
    device = torch.device("cuda", 0)
    prefetcher, losses = DevicePrefetcher(streams_of(device)), Losses()
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = Prefetched(make_batches(30), 4, finish=prefetcher.stage)

    with no_waits():
        for step, batch in enumerate(prefetcher.carried(batches)):
            loss = model(batch.tensors["x"]).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.add(step, loss.detach())
            assert losses.first_bad(waits=False) is None
            prefetcher.hold_back()
