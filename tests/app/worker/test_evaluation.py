"""Scores over all rows, on one rank; test_control.py has several."""

import contextlib
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from trainshed.worker.agreement import Control
from trainshed.worker.evaluation import (
    SECONDS_BETWEEN_MEETINGS,
    EvaluationStoppedError,
    evaluating,
    exact_means,
    until_stopped,
)


def batches_of(*sizes: int) -> Iterator[tuple[dict[str, Tensor], int]]:
    for size in sizes:
        yield {"x": torch.arange(size, dtype=torch.float32)}, size


def test_means_are_over_rows_not_batches() -> None:
    def score(_: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"x": batch["x"], "right": batch["x"] > 0}

    means = exact_means(batches_of(4, 1, 0), score, nn.Identity(), Control())
    assert means == {"x": 6 / 5, "right": 3 / 5}


def test_sums_are_exact_where_float32_would_not_be() -> None:
    def score(_: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"x": torch.full_like(batch["x"], 0.1)}

    means = exact_means(batches_of(*[1000] * 300), score, nn.Identity(), Control())
    assert means["x"] == pytest.approx(float(torch.tensor(0.1)), rel=1e-12)


def test_a_score_of_another_shape_is_refused() -> None:
    def score(_: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"loss": batch["x"].mean()}

    with pytest.raises(ValueError, match=r"loss has shape \(\), want \(4,\): one a row"):
        exact_means(batches_of(4), score, nn.Identity(), Control())


def test_no_row_has_no_mean() -> None:
    with pytest.raises(ValueError, match="evaluate: the dataset has no rows"):
        exact_means(batches_of(0), lambda _, batch: batch, nn.Identity(), Control())


def make_partly_frozen() -> nn.Sequential:
    module = nn.Sequential(nn.BatchNorm1d(1), nn.Sequential(nn.Dropout(), nn.BatchNorm1d(1)))
    module.train()
    list(module.modules())[-1].eval()
    return module


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_frozen_before_an_evaluation_is_so_after_it(fails: bool) -> None:
    module = make_partly_frozen()
    before = [part.training for part in module.modules()]

    with contextlib.suppress(ZeroDivisionError), evaluating(module):
        during = [part.training for part in module.modules()]
        if fails:
            raise ZeroDivisionError

    assert not any(during)
    assert [part.training for part in module.modules()] == before == [True, True, True, True, False]


def test_a_stop_is_heard_between_two_batches_of_an_evaluation() -> None:
    clock, seen = iter(range(100)), list[int]()
    step = SECONDS_BETWEEN_MEETINGS / 2
    batches = until_stopped(range(50), Control(), lambda: True, lambda: next(clock) * step)

    with pytest.raises(EvaluationStoppedError):
        seen.extend(batches)

    assert seen == [0, 1]


def test_an_evaluation_that_is_through_when_it_hears_of_a_stop_counts() -> None:
    assert list(until_stopped(range(3), Control(), lambda: True, lambda: 0.0)) == [0, 1, 2]
