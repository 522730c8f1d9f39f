"""Scores over all rows."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.app.worker.ranks import on_ranks
from trainshed.worker.evaluation import (
    SECONDS_BETWEEN_MEETINGS,
    EvaluationStoppedError,
    evaluating,
    exact_means,
    until_stopped,
)
from trainshed.worker.step_sync import Control


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

    with pytest.raises(ValueError, match=r"loss has shape \(\); expected \(4,\): one a row"):
        exact_means(batches_of(4), score, nn.Identity(), Control())


def test_a_score_is_divided_by_its_own_count() -> None:
    def score(_: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor | tuple[Tensor, int]]:
        tokens = 0 if len(batch["x"]) == 1 else 2 * len(batch["x"])
        return {"x": batch["x"], "loss": (torch.tensor(3.0 * tokens), tokens)}

    means = exact_means(batches_of(4, 1, 2, 0), score, nn.Identity(), Control())
    assert means == {"x": 7 / 7, "loss": 3.0}


@pytest.mark.parametrize("count", [0, -4.0, torch.tensor(float("nan"))])
def test_a_score_that_counts_nothing_is_refused(count: float | Tensor) -> None:
    with pytest.raises(
        ValueError, match=r"evaluate: loss has the count \S+ over the whole dataset"
    ):
        exact_means(batches_of(4), lambda _, __: {"loss": (1.0, count)}, nn.Identity(), Control())


@pytest.mark.parametrize("pair", [(1.0, torch.ones(2)), (1.0, 2.0, 3.0)])
def test_what_is_no_sum_and_count_is_refused(pair: tuple[float, float]) -> None:
    with pytest.raises(
        ValueError, match=r"loss is neither .* a value for each row, or \(sum, count\)"
    ):
        exact_means(batches_of(4), lambda _, __: {"loss": pair}, nn.Identity(), Control())


def test_scores_that_only_some_batches_have_are_refused() -> None:
    def score(_: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"x": batch["x"]} if len(batch["x"]) == 4 else {**batch, "late": batch["x"]}

    with pytest.raises(ValueError, match="got the scores late, x after x; expected the same names"):
        exact_means(batches_of(4, 1), score, nn.Identity(), Control())


def score_on_ranks(
    rows: tuple[int, ...], names: tuple[str, ...], rank: int
) -> dict[str, float] | str:
    def score(_: nn.Module, batch: dict[str, Tensor]) -> dict[str, tuple[Tensor, int]]:
        return {names[rank]: (batch["x"].sum() + 1, 2)}

    try:
        return exact_means(batches_of(rows[rank]), score, nn.Identity(), Control())
    except ValueError as error:
        return str(error)


def test_a_rank_without_rows_learns_the_scores_of_the_others(tmp_path: Path) -> None:
    found = on_ranks(3, tmp_path, partial(score_on_ranks, (0, 3, 2), ("loss", "loss", "loss")))
    assert found == [{"loss": (4 + 2) / 4}] * 3


def test_ranks_that_score_different_things_are_refused_on_all_of_them(tmp_path: Path) -> None:
    found = on_ranks(3, tmp_path, partial(score_on_ranks, (2, 0, 2), ("loss", "loss", "error")))
    assert all("expected the same names" in str(error) for error in found)


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
