"""Batches reach a device whole, beside the step before, and do not fill its memory."""

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import cast

import pytest
import torch

from tests.app.fake_gpu import FakeGpu
from trainshed.data.loader.batch_structure import take_apart
from trainshed.data.loader.batches import Batch
from trainshed.data.loader.prefetch import Prefetched
from trainshed.worker.device_prefetcher import (
    MOST_STEPS_BEHIND,
    CudaStreams,
    DevicePrefetcher,
    streams_of,
)

SECONDS = 60.0


def made(number: int) -> Iterator[Batch]:
    for step in range(number):
        yield Batch({"x": torch.full((3,), float(step))}, rows=3, total=6)


def prefetched(
    batches: Iterator[Batch], prefetcher: DevicePrefetcher, depth: int = 100
) -> Prefetched[Batch]:
    return Prefetched(batches, depth, finish=prefetcher.stage)


def wait_for_one(batches: Prefetched[Batch]) -> None:
    """Wait until the thread has made a batch ahead."""
    deadline = time.monotonic() + SECONDS
    while not batches.has_next() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert batches.has_next()


def add_up(rows: torch.Tensor, sums: list[float]) -> None:
    sums.append(float(rows.sum()))


def train(gpu: FakeGpu, prefetcher: DevicePrefetcher, batches: Iterator[Batch]) -> list[float]:
    """Make a step of each batch: add its rows up, in the device's own time."""
    sums: list[float] = []
    for batch in prefetcher.held_back(prefetcher.carried(prefetched(batches, prefetcher))):
        rows = batch.tensors["x"]
        gpu.compute(partial(add_up, rows, sums))
    gpu.do()
    return sums


@pytest.mark.parametrize("copies_first", [True, False])
def test_a_step_sees_its_own_rows_however_slow_copies_are(copies_first: bool) -> None:
    gpu = FakeGpu(copies_first)

    assert train(gpu, DevicePrefetcher(gpu), made(30)) == [3.0 * step for step in range(30)]


def test_what_a_function_made_of_a_batch_is_carried_tensor_by_tensor() -> None:
    gpu = FakeGpu()
    prefetcher = DevicePrefetcher(gpu)

    def nested() -> Iterator[Batch]:
        for step in range(3):
            rows = [torch.full((length,), float(step)) for length in (2, 3)]
            structure, tensors = take_apart({"rows": rows, "step": step}, "0.")
            yield Batch(tensors, rows=2, total=4, nests=(structure,))

    seen: list[list[list[float]]] = []
    for batch in prefetcher.held_back(prefetcher.carried(prefetched(nested(), prefetcher))):
        made = cast("dict[str, list[torch.Tensor]]", batch.given)
        gpu.compute(partial(lambda rows: seen.append([row.tolist() for row in rows]), made["rows"]))
    gpu.do()

    assert seen == [[[float(step)] * 2, [float(step)] * 3] for step in range(3)]
    assert len(gpu.kept) == 6


def test_memory_of_a_batch_is_kept_until_its_step_is_done() -> None:
    gpu = FakeGpu()
    prefetcher = DevicePrefetcher(gpu)

    seen = [batch.tensors["x"] for batch in prefetcher.carried(prefetched(made(5), prefetcher))]

    assert [tensor.data_ptr() for tensor in gpu.kept] == [tensor.data_ptr() for tensor in seen]


def test_the_next_batch_is_copied_beside_the_step_of_the_present_one() -> None:
    gpu, seen = FakeGpu(), list[int]()
    prefetcher = DevicePrefetcher(gpu)
    batches = prefetched(made(5), prefetcher)
    carried = prefetcher.carried(batches)
    next(carried)
    wait_for_one(batches)

    present = next(carried)
    assert len(gpu.copying) == 3
    gpu.compute(lambda: seen.append(len(gpu.copying)))
    gpu.copies_first = False
    gpu.do()

    # Its step did not wait for the copy of the next one.
    assert seen == [1]
    assert present.tensors["x"].tolist() == [1.0] * 3


def test_a_batch_that_is_not_made_yet_holds_up_no_step() -> None:
    go_on = threading.Event()

    def slow() -> Iterator[Batch]:
        first, second = made(2)
        yield first
        assert go_on.wait(SECONDS)
        yield second

    gpu = FakeGpu()
    prefetcher = DevicePrefetcher(gpu)
    carried = prefetcher.carried(prefetched(slow(), prefetcher))

    first = next(carried)  # would wait for ever
    go_on.set()
    gpu.do()

    assert first.tensors["x"].tolist() == [0.0] * 3
    assert len(list(carried)) == 1


def test_batches_are_pinned_by_the_thread_that_makes_them() -> None:
    gpu = FakeGpu()

    train(gpu, DevicePrefetcher(gpu), made(3))

    assert gpu.pinned_by == {"prefetch"}


def test_an_error_comes_after_the_batches_before_it() -> None:
    def broken() -> Iterator[Batch]:
        yield from made(2)
        raise ValueError("no more rows")

    gpu, seen = FakeGpu(), list[float]()
    prefetcher = DevicePrefetcher(gpu)
    carried = prefetcher.carried(prefetched(broken(), prefetcher))

    def read() -> None:
        for batch in carried:
            gpu.do()
            seen.extend(batch.tensors["x"][:1].tolist())

    with pytest.raises(ValueError, match="no more rows"):
        read()
    assert seen == [0.0, 1.0]


def test_who_waits_for_nothing_is_held_back_before_memory_is_full() -> None:
    gpu, steps = FakeGpu(), list[int]()
    prefetcher = DevicePrefetcher(gpu)
    most_behind = 0
    for step, _ in enumerate(
        prefetcher.held_back(prefetcher.carried(prefetched(made(40), prefetcher)))
    ):
        gpu.compute(partial(steps.append, step))
        most_behind = max(most_behind, step - len(steps))

    assert most_behind <= MOST_STEPS_BEHIND + 1


def test_who_leaves_early_ends_the_thread() -> None:
    closed = threading.Event()

    def endless() -> Iterator[Batch]:
        try:
            while True:
                yield from made(1)
        finally:
            closed.set()

    gpu = FakeGpu()
    prefetcher = DevicePrefetcher(gpu)
    carried = prefetcher.carried(prefetched(endless(), prefetcher, depth=2))
    next(carried)

    carried.close()

    assert closed.wait(SECONDS)


@pytest.mark.parametrize("depth", [0, 2])
def test_on_a_cpu_batches_stay_what_they_are(depth: int) -> None:
    prefetcher = DevicePrefetcher(streams_of(torch.device("cpu")))
    there = list(made(3))

    carried = list(
        prefetcher.held_back(prefetcher.carried(prefetched(iter(there), prefetcher, depth)))
    )

    assert all(got is made for got, made in zip(carried, there, strict=True))


# ------------------------------------------------------------------- on a GPU


@pytest.mark.gpu
def test_rows_reach_a_gpu_whole_while_it_is_busy() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    prefetcher = DevicePrefetcher(CudaStreams(device))
    load = torch.randn(2048, 2048, device=device)
    # Large enough to be copied for a while; memory is used anew all along.
    rows = (torch.full((1 << 20,), float(step)) for step in range(50))
    batches = (Batch({"x": row}, rows=1 << 20, total=1 << 20) for row in rows)
    sums: list[torch.Tensor] = []
    for batch in prefetcher.held_back(prefetcher.carried(prefetched(batches, prefetcher, depth=4))):
        load = torch.tanh(load @ load)
        sums.append(batch.tensors["x"].double().sum())

    assert [total.item() for total in sums] == [float(step << 20) for step in range(50)]


@pytest.mark.gpu
def test_a_batch_is_pinned_before_it_is_sent_to_a_gpu() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    prefetcher = DevicePrefetcher(CudaStreams(device))

    assert all(prefetcher.stage(batch).tensors["x"].is_pinned() for batch in made(2))


@pytest.mark.gpu
def test_tensors_of_a_nest_lie_pinned_and_then_on_a_gpu() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    prefetcher = DevicePrefetcher(CudaStreams(device))
    structure, tensors = take_apart([torch.arange(3), {"x": torch.arange(5)}, "a"], "0.")
    batch = Batch(tensors, rows=3, total=3, nests=(structure,))

    assert all(tensor.is_pinned() for tensor in prefetcher.stage(batch).tensors.values())
    (carried,) = prefetcher.carried(prefetched(iter([batch]), prefetcher))
    first, second, word = cast("tuple[torch.Tensor, dict[str, torch.Tensor], str]", carried.given)
    assert (first.device, second["x"].device, word) == (device, device, "a")
    assert (first.tolist(), second["x"].tolist()) == ([0, 1, 2], [0, 1, 2, 3, 4])
