"""Whatever is logged becomes means: of any type, on any device, in bounded memory."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import trainshed
from tests.app.checkpoint.wrapped_training import Attempts, make_jobs, run_all
from tests.app.worker.devices import Device
from tests.app.worker.ranks import on_ranks
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.manifest import Manifest
from trainshed.worker import metric_means as module
from trainshed.worker.attempt_config import AttemptConfig
from trainshed.worker.device_reads import Here, fetch
from trainshed.worker.metric_means import Logged
from trainshed.worker.step_sync import Control


def known(logged: Logged) -> dict[str, float]:
    logged.settle()
    return logged.means()


def test_what_was_logged_becomes_means_and_the_last_ones_are_kept() -> None:
    logged = Logged()
    for loss in (1.0, 2.0, 6.0):
        logged.add("loss", loss, 1)
    logged.add("rate", 0.5, 1)
    assert known(logged) == {"loss": 3.0, "rate": 0.5}

    logged.add("loss", 1.0, 1)
    assert known(logged) == {"loss": 1.0, "rate": 0.5}


NUMBERS: dict[str, float | torch.Tensor] = {
    "bfloat16": torch.tensor(2, dtype=torch.bfloat16),
    "int64": torch.tensor(2),
    "bool": torch.tensor(True) + torch.tensor(True).to(torch.int32),
    "of one element": torch.tensor([[2.0]]),
    "with a gradient": torch.tensor(2.0, requires_grad=True) * 1,
    "sparse": torch.tensor([2.0]).to_sparse(),
    "of NumPy": np.float64(2.0),
    "of Python": 2,
}


@pytest.mark.parametrize("case", NUMBERS)
def test_any_number_is_one(case: str) -> None:
    logged = Logged()
    logged.add("n", NUMBERS[case], 1)
    logged.add("n", 4.0, 1)

    assert known(logged) == {"n": 3.0}


NO_NUMBERS = {
    "of two elements": (torch.zeros(2), r"log: n has the shape \(2,\); expected a single number"),
    "on the device meta": (torch.empty((), device="meta"), r"log: n has no value \(device meta\)"),
    "complex": (torch.tensor(1j), "log: n has a complex value"),
    "too large": (10**400, "log: n is a int; expected a single number"),
    "a text": ("1.5", "log: n is a str; expected a single number"),
    "nothing": (None, "log: n is a NoneType; expected a single number"),
}


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_what_is_no_number_is_refused_where_it_is_logged(case: str) -> None:
    value, said = NO_NUMBERS[case]
    logged = Logged()

    with pytest.raises(ValueError, match=said):
        logged.add("n", value, 1)  # type: ignore[arg-type]  # on purpose
    assert known(logged) == {}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A device whose numbers are those of the type float32."""
    monkeypatch.setattr(module, "is_here", lambda tensor: tensor.dtype is not torch.float32)
    return Device()


def test_numbers_of_a_device_are_waited_for_by_nobody(device: Device) -> None:
    logged = Logged(device.fetch)
    for loss in (1.0, 2.0, 3.0):
        logged.add("loss", torch.tensor(loss), 1)
    assert known(logged) == {}

    # Of what came after the first one nothing is on its way before that is here.
    device.fetched[0].has_come = True
    assert known(logged) == {"loss": 1.0}
    logged.add("loss", torch.tensor(4.0), 1)
    device.fetched[1].has_come = True

    assert known(logged) == {"loss": 3.0}
    assert len(device.fetched) == 2


def test_a_number_here_and_one_of_a_device_have_one_mean(device: Device) -> None:
    logged = Logged(device.fetch)
    logged.add("loss", torch.tensor(1.0), 1)
    logged.add("loss", 4.0, 1)
    device.fetched[0].has_come = True

    assert known(logged) == {"loss": 2.5}


def test_at_the_end_all_is_waited_for(device: Device) -> None:
    logged = Logged(device.fetch)
    for loss in (1.0, 2.0, 6.0):
        logged.add("loss", torch.tensor(loss), 1)
    logged.add("other", torch.tensor(5.0), 1)

    logged.flush()

    # The first one went ahead; the mean is of all that came since somebody looked.
    assert logged.means() == {"loss": 3.0, "other": 5.0}


def test_memory_does_not_grow_while_nobody_looks(device: Device) -> None:
    logged = Logged(device.fetch)
    for number in range(10_000):
        logged.add("n", torch.tensor(float(number)), 1)

    (there,) = logged._on_device.values()
    assert len(there["n"].kept) < 300
    logged.flush()
    assert logged.means() == {"n": 4999.5}


def test_a_number_that_is_written_over_later_was_what_it_was(device: Device) -> None:
    logged, total = Logged(device.fetch), torch.tensor(0.0)
    logged.add("first", torch.tensor(0.0), 1)  # on its way: what follows is kept
    for number in (1.0, 2.0):
        total += number
        logged.add("total", total, 1)

    logged.flush()

    assert logged.means()["total"] == 2.0


def test_numbers_of_a_cpu_are_there_at_once() -> None:
    numbers = fetch(torch.tensor([1.0, 2.0]))

    assert isinstance(numbers, Here)
    assert numbers.is_there()
    assert numbers.values() == [1.0, 2.0]


def train(_config: dict[str, object]) -> None:
    """Log what differs by step and by worker; worker 1 alone logs `late`, from step 7 on."""
    run = trainshed.current()
    model = torch.nn.Linear(4, 1)
    run.track(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(model(batch["x"]).mean())
            run.log(loss=100 * run.rank + run.step)
            if run.rank and run.step >= 7:
                run.log(late=run.step)


def train_once(job: AttemptConfig, rank: int) -> list[str]:
    here = replace(job, train=f"{__name__}:train")
    return run_all(here, [Attempts("run", ["DDP"])], rank)


def step_of(manifest: Manifest) -> int:
    return manifest.position.step


def test_a_checkpoint_has_the_means_of_all_workers_since_the_one_before(tmp_path: Path) -> None:
    job = make_jobs(tmp_path, 2)
    assert on_ranks(2, tmp_path, partial(train_once, job), within_seconds=300) == [[], []]

    kept = checkpoint.candidates([job.folder / "run" / "ray"])
    manifests = [checkpoint.verify(each) for each in kept]
    found = {each.position.step: each.metrics for each in sorted(manifests, key=step_of)}
    assert len(found) > 6
    for before, (step, metrics) in zip([0, *found], found.items(), strict=False):
        logged = range(before, step)
        assert metrics["loss"] == 50 + sum(logged) / len(logged)
        if late := [number for number in logged if number >= 7]:
            assert metrics["late"] == sum(late) / len(late)


def test_one_worker_has_what_it_logged_since_the_last_call() -> None:
    logged = Logged()
    logged.add("loss", 1.0, 1)
    logged.settle()
    logged.add("loss", 5.0, 2)
    logged.add("rate", 0.5, 1)

    assert logged.means_of_ranks(Control()) == ({"loss": 3.0, "rate": 0.5}, {"loss": 2, "rate": 1})
    assert logged.means_of_ranks(Control()) == ({}, {})


@pytest.mark.gpu
def test_numbers_of_a_gpu_come_without_a_wait() -> None:
    logged = Logged()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number in range(100):
            there = torch.tensor(float(number)).pin_memory().to("cuda", non_blocking=True)
            logged.add("n", there, 1)
            logged.settle()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    logged.flush()

    assert 0.0 <= logged.means()["n"] <= 99.0
