"""Which fields a function with its own loop ignores, and what the run says of them."""

from dataclasses import dataclass

import pytest
from pydantic import JsonValue

from tests.builders import make_data, make_dataset, make_run
from trainshed.planning.ignored_fields import warning_for_loops, warning_for_shards

SPEC: dict[str, JsonValue] = {
    "batchSize": 32,
    "epochs": 2,
    "checkpoint": {"everyEpochs": 2, "keep": 1},
    "data": make_data(make_dataset(shuffle={"mode": "local"}, feed={"lastBatch": "keep"})),
}


@dataclass(frozen=True)
class Case:
    """A spec, whether the function asked for the run, and the fields that are named to it."""

    spec: dict[str, JsonValue]
    asked: bool
    want: list[str]


CASES = {
    "nothing that was left at its default is named": Case({"data": make_data()}, False, []),
    "what only the run's own loop obeys": Case(
        SPEC,
        False,
        [
            "spec.epochs",
            "spec.checkpoint.everyEpochs",
            "spec.batchSize",
            "spec.data.datasets.train.feed.lastBatch",
        ],
    ),
    "a loop of the run leaves its batches": Case(
        SPEC, True, ["spec.batchSize", "spec.data.datasets.train.feed.lastBatch"]
    ),
    "a value that is the default counts when it was set": Case(
        {"precision": "float32", "data": make_data()}, False, ["spec.precision"]
    ),
    "BatchNorm is shared where the run is told of the model": Case(
        {"syncBatchNorm": True, "data": make_data()}, False, ["spec.syncBatchNorm"]
    ),
    "TensorFloat32 acts in any loop": Case(
        {"precision": "tensorfloat32", "data": make_data()}, False, []
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_function_with_shards_is_told(case: Case) -> None:
    message = warning_for_shards(make_run(**case.spec).spec, case.asked)
    named = [] if message is None else message.partition(": ")[2].partition(" are ignored")[0]
    assert named == (", ".join(case.want) or [])


def test_function_that_asks_for_nothing_is_told_of_its_datasets_too() -> None:
    message = warning_for_loops(make_run(**SPEC).spec, asked_for_run=False)
    assert message
    assert message.endswith("feed.lastBatch, spec.data.datasets had no effect")


def test_function_without_data_and_settings_is_left_alone() -> None:
    assert warning_for_loops(make_run().spec, asked_for_run=False) is None
