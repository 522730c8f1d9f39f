"""Which shuffle is chosen for a dataset that trains and names no mode."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders import make_dataset
from trainshed.data.sampler.auto_shuffle import (
    MOST_BUFFER_ROWS,
    SHUFFLED_BYTES,
    choose_shuffle,
    num_sorted_labels,
)
from trainshed.data.sampler.dataset_plan import plan_dataset
from trainshed.data.sampler.sizes import CacheMemory, Measured
from trainshed_api.data import LOCAL_BUFFER
from trainshed_api.v1alpha1 import DatasetSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pydantic import JsonValue

ROW = 1000.0
LARGE = int(SHUFFLED_BYTES / ROW) + 1
FILLED = int(SHUFFLED_BYTES / ROW)


@dataclass(frozen=True)
class Case:
    """A dataset of `rows` rows of `row_bytes`, and the shuffle that is chosen."""

    want: tuple[str, int]
    rows: int = LARGE
    row_bytes: float = ROW
    labels: int = 0
    spec: "dict[str, JsonValue]" = field(default_factory=dict)


CASES: dict[str, Case] = {
    "rows of 256 MB": Case(("global", LOCAL_BUFFER), rows=FILLED),
    "fewer rows, sorted": Case(("global", LOCAL_BUFFER), rows=9, labels=3),
    "more rows": Case(("local", LOCAL_BUFFER)),
    "more rows, sorted by label": Case(("blocks", FILLED), labels=3),
    "large rows": Case(("local", 256), row_bytes=2.0**20),
    "rows larger than the buffer": Case(("local", 2), row_bytes=2.0**28),
    "large rows of which the default number is a buffer": Case(
        ("blocks", LOCAL_BUFFER + 1), row_bytes=SHUFFLED_BYTES / LOCAL_BUFFER, labels=2
    ),
    "small rows, sorted by label": Case(
        ("blocks", MOST_BUFFER_ROWS), rows=2**28, row_bytes=2.0, labels=3
    ),
    "workers that keep their rows": Case(
        ("local", LOCAL_BUFFER), rows=9, labels=3, spec={"cache": "workers"}
    ),
    "few rows that are read in each epoch": Case(
        ("blocks", FILLED), rows=9, labels=3, spec={"cache": "none"}
    ),
    "an epoch of some rows": Case(("local", LOCAL_BUFFER), rows=9, spec={"rowsPerEpoch": 5}),
    "a buffer of its own": Case(("none", 50), rows=9, spec={"shuffle": {"bufferSize": 50}}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_shuffle_follows_from_the_rows(name: str) -> None:
    case = CASES[name]
    spec = DatasetSpec.model_validate(make_dataset(**case.spec))
    measured = Measured(case.row_bytes, keeps_rows=True, num_sorted_labels=case.labels)

    chosen, _ = choose_shuffle(spec, measured, measured.size(case.rows))

    assert (chosen.mode, chosen.buffer_size) == case.want


def test_rows_of_a_function_are_not_shuffled() -> None:
    chosen, reason = choose_shuffle(DatasetSpec.model_validate(make_dataset()), None, None)

    assert chosen.mode == "none"
    assert reason == "only its function knows how many rows there are"


def test_a_named_mode_stays() -> None:
    read = {"use": "rows:make"}
    spec = DatasetSpec.model_validate({"read": read, "shuffle": {"mode": "local"}})

    plan = plan_dataset("train", spec, None, None, CacheMemory(0, 0), 1, trains=True)

    assert (plan.spec.shuffle.mode, plan.shuffle_reason) == ("local", "")


LABELS: dict[str, tuple[list[list[object]], int]] = {
    "sorted": ([[0, 0], [0, 1], [2, 2]], 3),
    "sorted downwards": ([[2, 2], [1, 1], [0, 0]], 3),
    "a label a file, in another order": ([[1, 1], [0, 0], [2, 2]], 3),
    "texts": ([["cat", "cat"], ["dog", None]], 0),
    "texts that are sorted": ([["cat", "cat"], ["dog", "dog"]], 2),
    "mixed": ([[0, 1], [1, 0], [2, 1]], 0),
    "one label": ([[0, 0], [0, 0]], 0),
    "no labels": ([], 0),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_are_sorted_if_those_of_a_place_are_alike_or_they_only_grow(case: str) -> None:
    places, want = LABELS[case]
    arrays: list[NDArray[np.generic]] = [
        np.asarray(place, dtype=object if isinstance(place[0], str) else None) for place in places
    ]

    assert num_sorted_labels(arrays) == want


def test_columns_of_arrays_are_no_labels() -> None:
    assert num_sorted_labels([np.zeros((2, 3)), np.ones((2, 3))]) == 0
