"""A stop takes effect while a run waits for rows, and costs no step that is done."""

from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from tests.app.alone import Left, train_alone
from tests.app.failing_runs import Spec, make_spec, write_numbers
from tests.app.stopped_while_waiting import READ, stop_while_waiting
from trainshed_api.names import STOPPED, SUCCEEDED
from trainshed_api.progress import CheckpointSaved

COLLATE: Spec = {"collate": {"use": "tests.app.waiting_functions:hold"}}
MOST_SECONDS = 20.0


class Way(NamedTuple):
    """What is waited for.

    Args:
        held: dataset of which some rows do not arrive.
        steps: done before.
        feed: of that dataset.
        train: name of the function.
    """

    held: str
    steps: int
    feed: Spec = COLLATE
    train: str = "train"


ON_DEMAND = COLLATE | {"prefetchBatches": 0}
WAYS = {
    "a step's rows": Way("train", 3),
    "a step's rows that are not prefetched": Way("train", 3, ON_DEMAND),
    "an evaluation's rows": Way("valid", 5),
    "an evaluation's rows that are not prefetched": Way("valid", 5, ON_DEMAND),
    "rows of another dataset in a step": Way("other", 3, COLLATE, "train_on_two"),
}


@pytest.mark.parametrize("case", WAYS)
def test_a_stop_takes_effect_while_all_wait_for(case: str, tmp_path: Path) -> None:
    way = WAYS[case]
    write_numbers(tmp_path)

    left, seconds = stop_while_waiting(tmp_path, spec_of(way), way.steps)

    assert left.verdict.outcome == STOPPED
    assert left.verdict.message == f"Suspended: stopped after step {way.steps}"
    saved = [event.step for event in left.events if isinstance(event, CheckpointSaved)]
    assert saved[-1] == way.steps
    assert seconds < MOST_SECONDS


def test_the_step_that_waited_for_another_dataset_is_repeated_with_the_same_random_numbers(
    tmp_path: Path,
) -> None:
    way = WAYS["rows of another dataset in a step"]
    for home in (tmp_path / "whole", tmp_path / "parts"):
        write_numbers(home)

    whole = train_alone(tmp_path / "whole", spec_of(way))
    stop_while_waiting(tmp_path / "parts", spec_of(way), way.steps)
    resumed = train_alone(tmp_path / "parts", spec_of(way))

    assert resumed.finished.outcome == SUCCEEDED, resumed.finished.message
    for name, weights in weights_of(whole).items():
        torch.testing.assert_close(weights_of(resumed)[name], weights, rtol=0, atol=0)


@pytest.mark.parametrize("reads", [0, 1], ids=["to look at columns", "to fill its matrix"])
def test_a_stop_takes_effect_while_xgboost_waits_for_rows(reads: int, tmp_path: Path) -> None:
    write_numbers(tmp_path)
    held = READ | {"transforms": [{"use": "tests.app.waiting_functions:hold_rows"}]}
    data: Spec = {"cpus": 1, "datasets": {"train": held}}
    spec = make_spec(train="tests.app.waiting_functions:boost", config={}, data=data)
    del spec["epochs"], spec["batchSize"]

    left, seconds = stop_while_waiting(tmp_path, spec | {"framework": "xgboost"}, 0, reads)

    assert left.verdict.outcome == STOPPED
    assert left.verdict.message == "Suspended: stopped before the first step"
    assert seconds < MOST_SECONDS


def spec_of(way: Way) -> Spec:
    """Return a run of which some rows do not arrive."""
    datasets: Spec = {"train": READ, "other" if way.held == "other" else "valid": READ}
    datasets[way.held] = READ | {"feed": way.feed}
    data: Spec = {"cpus": 1, "datasets": datasets}
    function = f"tests.app.waiting_functions:{way.train}"
    return make_spec(train=function, config={}, data=data)


def weights_of(left: Left) -> dict[str, torch.Tensor]:
    """Return the weights of a run's last checkpoint."""
    last = [event for event in left.events if isinstance(event, CheckpointSaved)][-1]
    weights: dict[str, torch.Tensor] = torch.load(Path(last.path) / "model.pt", weights_only=True)
    return weights
