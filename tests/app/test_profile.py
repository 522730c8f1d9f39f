"""A run records the steps that its file names, and its report says where."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from pydantic import JsonValue
from torch import nn
from torch.nn import functional as F

import trainshed
from tests.app.alone import Left, train_alone
from tests.app.builders_rows import write_rows
from tests.app.stopped_evaluation import ask_to_stop
from tests.builders import make_data
from trainshed.attempt.signals import Stop
from trainshed.report.load import read_run
from trainshed.report.provenance import list_provenance
from trainshed.storage.disk import Disk
from trainshed.worker.step_profiler import StepProfiler
from trainshed_api.names import STOPPED, SUCCEEDED
from trainshed_api.profile import ProfileSpec
from trainshed_api.progress import WarningEvent

ROWS, BATCH, EPOCHS = 24, 8, 2  # three steps in each epoch
stop: Stop | None = None


def train(config: dict[str, int]) -> None:
    """Train a line; may be asked to stop in a step."""
    run = trainshed.current()
    model = nn.Linear(4, 1)
    run.track(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for _ in run.epochs():
        for batch in run.batches("train"):
            if stop and run.step + 1 == config["stopIn"]:
                ask_to_stop(run, stop)
            run.backward_step(F.mse_loss(model(batch["x"]).squeeze(1), batch["y"]))


def train_on_its_own_rows() -> None:
    """Train in a loop of its own, which uses the run only to ask whether to stop."""
    trainshed.current().wants_stop()


def profiled(
    home: Path, steps: list[JsonValue], stop_in: int | None = None, function: str = "train"
) -> Left:
    """Train with a profile."""
    global stop  # noqa: PLW0603 - the function is in this process
    stop = None if stop_in is None else Stop()
    return train_alone(
        home,
        {
            "train": f"{__name__}:{function}",
            "config": {"stopIn": stop_in or 0},
            "epochs": EPOCHS,
            "batchSize": BATCH,
            "data": make_data(),
            "profile": {"steps": steps},
        },
        stop=stop,
    )


def traced(left: Left) -> Iterator[tuple[str, list[int]]]:
    """Yield the name of each trace, and the steps that are whole in it."""
    for path in sorted(left.path.glob("attempts/*/profile/*")):
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        marks = (re.fullmatch(r"ProfilerStep#(\d+)", event.get("name", "")) for event in events)
        yield path.name, sorted({int(mark[1]) for mark in marks if mark})


def test_steps_are_recorded_across_epochs_and_named_in_the_report(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", ROWS)
    left = profiled(tmp_path, [2, 5])

    assert left.verdict.outcome == SUCCEEDED, left.verdict.message
    assert list(traced(left)) == [("steps-2-5.json.gz", [2, 3, 4, 5])]
    path = f"{left.path}/attempts/1/profile/steps-2-5.json.gz"
    assert ("profile", path) in list_provenance(read_run(left.folder.at))["Run"]


def test_a_run_that_is_stopped_in_between_records_the_rest_when_it_resumes(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", ROWS)
    assert profiled(tmp_path, [2, 5], stop_in=2).verdict.outcome == STOPPED
    left = profiled(tmp_path, [2, 5])

    (first, before), (second, after) = traced(left)
    assert sorted({*before, *after}) == [2, 3, 4, 5]
    assert first == f"steps-2-{after[0] - 1}.json.gz"
    assert second == f"steps-{after[0]}-5.json.gz"


def test_a_stop_before_the_first_of_the_steps_ends_leaves_nothing_recording(
    tmp_path: Path,
) -> None:
    profiler = StepProfiler(ProfileSpec(steps=(2, 5)), Disk(tmp_path), print)
    profiler.end_step(1)
    assert torch.autograd._profiler_enabled()  # type: ignore[attr-defined]  # private

    profiler.finish(1, stopped=True)

    assert not torch.autograd._profiler_enabled()  # type: ignore[attr-defined]  # private
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ends_before_the_first_step_says_so(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", ROWS)
    left = profiled(tmp_path, [7, 9])

    warnings = [event.message for event in left.events if isinstance(event, WarningEvent)]
    assert warnings == [
        "spec.profile.steps: got [7, 9]; expected steps up to 6, where the run ended. "
        "Nothing was recorded"
    ]


def test_a_function_that_takes_no_batches_of_the_run_is_told_which_fields_it_ignores(
    tmp_path: Path,
) -> None:
    write_rows(tmp_path / "rows", ROWS)
    left = profiled(tmp_path, [2, 5], function="train_on_its_own_rows")

    assert left.verdict.outcome == SUCCEEDED, left.verdict.message
    warnings = [event.message for event in left.events if isinstance(event, WarningEvent)]
    assert warnings == [
        "the training function took no rows from trainshed.current() or "
        "ray.train.get_dataset_shard(): spec.batchSize, spec.profile, spec.data.datasets had no "
        "effect"
    ]
