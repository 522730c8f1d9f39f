"""The loader that Lightning continues in the middle of an epoch; `make test-trainers` runs this."""

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

if TYPE_CHECKING:
    from trainshed.lightning import ResumableLoader

pytestmark = [
    pytest.mark.trainers,
    # Lightning warns of PyTorch's old interfaces.
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(
        importlib.util.find_spec("lightning") is None,
        reason="the trainers are not installed: make test-trainers",
    ),
]


def a_loader(rows: int = 12) -> "ResumableLoader[tuple[torch.Tensor, ...]]":
    from trainshed.lightning import ResumableLoader

    return ResumableLoader(TensorDataset(torch.arange(rows)), batch_size=2)


def numbers(batches: Iterator[tuple[torch.Tensor, ...]]) -> list[int]:
    return [int(number) for (batch,) in batches for number in batch]


def test_a_loader_continues_after_its_batches() -> None:
    first, second = a_loader(), a_loader()
    batches = iter(first)
    next(batches), next(batches)

    second.load_state_dict(first.state_dict())

    assert numbers(iter(second)) == list(range(4, 12))


def test_an_epoch_of_other_workers_is_not_continued_in_its_middle() -> None:
    first, second = a_loader(12), a_loader(8)  # as with 2 and with 3 workers of 24 rows
    next(iter(first))

    with pytest.raises(ValueError, match=r"got .* 4 batches .* expected .* 6 batches"):
        second.load_state_dict(first.state_dict())


def test_other_workers_continue_at_the_end_of_an_epoch() -> None:
    first, second = a_loader(12), a_loader(8)
    list(first)

    second.load_state_dict(first.state_dict())

    assert numbers(iter(second)) == list(range(8))


class Stream(IterableDataset[int]):
    """Rows without a number of them."""

    def __iter__(self) -> Iterator[int]:
        yield from range(4)


def test_a_dataset_without_a_length_is_refused_before_its_first_batch() -> None:
    from trainshed.lightning import ResumableLoader

    with pytest.raises(TypeError, match="got a dataset without a length"):
        next(iter(ResumableLoader(Stream(), batch_size=2)))
