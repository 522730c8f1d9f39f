"""A loss that is no number is known, and no device is waited for unless somebody has to know."""

import math

import pytest
import torch

from tests.app.worker.devices import Device
from trainshed.worker.device_reads import Losses

BAD = {"NaN": math.nan, "infinite": math.inf, "of one element": [math.nan]}


@pytest.mark.parametrize("case", BAD)
def test_on_a_cpu_it_is_known_at_once(case: str) -> None:
    losses = Losses()
    for step, loss in enumerate([1.0, BAD[case], 2.0, math.nan], 7):
        losses.add(step, torch.tensor(loss))

    assert losses.first_bad(waits=False) == 8


def test_numbers_are_no_bad_losses() -> None:
    losses = Losses()
    assert losses.first_bad(waits=True) is None
    losses.add(1, torch.tensor(1.0, dtype=torch.bfloat16))
    assert losses.first_bad(waits=False) is None


def test_of_a_device_it_is_known_when_it_has_come() -> None:
    device = Device()
    losses = Losses(device.fetch)
    losses.add(1, torch.tensor(1.0))
    losses.add(2, torch.tensor(math.nan))
    assert losses.first_bad(waits=False) is None
    losses.add(3, torch.tensor(math.nan))
    assert losses.first_bad(waits=False) is None

    device.fetched[0].has_come = True

    assert losses.first_bad(waits=False) == 2
    assert not any(slow.was_waited_for for slow in device.fetched)


def test_who_has_to_know_waits_for_all() -> None:
    device = Device()
    losses = Losses(device.fetch)
    losses.add(1, torch.tensor(1.0))
    assert losses.first_bad(waits=False) is None
    losses.add(2, torch.tensor(math.nan))

    assert losses.first_bad(waits=True) == 2


def test_the_first_one_stays_the_first() -> None:
    device = Device()
    losses = Losses(device.fetch)
    for step in (4, 5):
        losses.add(step, torch.tensor(math.nan))
        assert losses.first_bad(waits=True) == 4


def test_memory_is_one_copy_and_what_came_since() -> None:
    device = Device()
    losses = Losses(device.fetch)
    for step in range(100):
        losses.add(step, torch.tensor(1.0))
        losses.first_bad(waits=False)

    assert len(device.fetched) == 1
