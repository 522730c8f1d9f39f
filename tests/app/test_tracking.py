"""What run.track takes, and that a checkpoint of other objects is refused."""

import json
from pathlib import Path
from typing import cast

import pytest
import torch
from pydantic import JsonValue
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel

import trainshed
from tests.app.alone import Left, train_alone
from tests.app.builders_rows import write_rows
from tests.builders import make_data
from trainshed.checkpoint import store as checkpoint
from trainshed_api.names import FAILED, SUCCEEDED

FIELD = "spec.checkpoint.allowMissing"


class Counter:
    """An object that counts what was loaded into it."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, object]:
        return {"count": self.count}

    def load_state_dict(self, state_dict: dict[str, object], /) -> None:
        self.count = cast("int", state_dict["count"])


def train(config: dict[str, object]) -> None:
    """Train a line, with a counter under each name that `config["names"]` has."""
    run = trainshed.current()
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if config["optimizer"] else None
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer) if optimizer else None
    counters = {name: Counter() for name in cast("list[str]", config["names"])}
    for _ in range(cast("int", config.get("times", 1))):
        run.track(model, optimizer, scheduler, **counters)
    for _ in run.epochs():
        for batch in run.batches("train"):
            if optimizer:
                run.backward_step(F.mse_loss(model(batch["x"]).squeeze(1), batch["y"]))
        for counter in counters.values():
            counter.count += 1


def run(home: Path, *names: str, allowed: tuple[str, ...] = (), **config: JsonValue) -> Left:
    """Train one more epoch than the attempt before, tracking counters of these names."""
    epochs = len(list(home.glob("runs/local/*/attempts/*"))) + 1
    if epochs == 1:
        write_rows(home / "rows", 24)
    spec: dict[str, JsonValue] = {
        "train": f"{__name__}:train",
        "config": {"optimizer": True, **config, "names": list(names)},
        "epochs": epochs,
        "batchSize": 8,
        "checkpoint": {"allowMissing": list(allowed)},
        "data": make_data(),
    }
    return train_alone(home, spec)


def count_of(left: Left, name: str) -> object:
    """Return what the newest checkpoint holds of a counter."""
    folder, _, _ = checkpoint.newest([left.folder.checkpoints(number) for number in (1, 2)])
    assert folder
    assert folder.path
    saved = checkpoint.load(folder.path, trust_objects=False)
    return cast("dict[str, int]", saved[name])["count"]


def make_earlier(left: Left) -> None:
    """Make the checkpoints what the release before wrote, whose manifests name no objects."""
    for folder in checkpoint.candidates([left.folder.checkpoints(1)]):
        manifest = json.loads(folder.read(checkpoint.MANIFEST)) | {"format": 1}
        del manifest["objects"]
        folder.write(checkpoint.MANIFEST, json.dumps(manifest).encode())


def test_what_is_tracked_goes_on(tmp_path: Path) -> None:
    run(tmp_path, "average")
    left = run(tmp_path, "average")

    assert left.verdict.outcome == SUCCEEDED, left.verdict.message
    assert count_of(left, "average") == 2


@pytest.mark.parametrize("format_1", [False, True])
def test_a_checkpoint_of_other_objects_is_refused_with_both_lists(
    format_1: bool, tmp_path: Path
) -> None:
    first = run(tmp_path, "average", "sampler")
    if format_1:
        make_earlier(first)
    left = run(tmp_path, "mean", "sampler")

    assert left.verdict.outcome == FAILED
    assert f"{FIELD}: got [], but " in left.verdict.message
    assert "lacks mean and also holds average, which" in left.verdict.message
    assert left.verdict.message.startswith("SpecError: ")


def test_an_optimizer_that_the_checkpoint_lacks_is_refused(tmp_path: Path) -> None:
    run(tmp_path, optimizer=False)
    left = run(tmp_path)

    assert left.verdict.outcome == FAILED
    assert "lacks optimizer, scheduler; expected" in left.verdict.message


def test_names_in_allow_missing_start_fresh_or_are_dropped(tmp_path: Path) -> None:
    run(tmp_path, "average", "sampler")
    left = run(tmp_path, "mean", "sampler", allowed=("mean", "average"))

    assert left.verdict.outcome == SUCCEEDED, left.verdict.message
    assert (count_of(left, "mean"), count_of(left, "sampler")) == (1, 2)


@pytest.mark.parametrize("format_1", [False, True])
def test_a_model_alone_is_taken_from_a_run_that_had_an_optimizer(
    format_1: bool, tmp_path: Path
) -> None:
    first = run(tmp_path)
    if format_1:
        make_earlier(first)
    left = run(tmp_path, optimizer=False)

    assert left.verdict.outcome == SUCCEEDED, left.verdict.message
    assert left.started.resumed_from


def test_a_second_call_is_refused(tmp_path: Path) -> None:
    left = run(tmp_path, times=2)

    assert left.verdict.outcome == FAILED
    assert "track: called a second time; expected one call" in left.verdict.message


@pytest.mark.parametrize("name", ["random", "scaler"])
def test_a_name_that_the_checkpoint_uses_itself_is_refused(name: str, tmp_path: Path) -> None:
    left = run(tmp_path, name)

    assert left.verdict.outcome == FAILED
    assert f"track: got the keyword {name}; expected another name" in left.verdict.message


def train_average() -> None:
    """Train a line, average it after each step by a hook, and score the average beside it."""
    run = trainshed.current()
    model = nn.Linear(4, 1)
    average = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.register_step_post_hook(lambda *_: average.update_parameters(model))
    run.track(model, optimizer, average=average)

    def score(module: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"isAverage": torch.full((len(batch["x"]),), float(module is average))}

    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(F.mse_loss(model(batch["x"]).squeeze(1), batch["y"]))
        assert int(average.n_averaged) == run.step == 3
        assert run.evaluate(score, "train") == {"train.isAverage": 0.0}
        run.evaluate(score, "train", average)


def test_a_further_model_is_scored_where_it_is_named(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 24)
    left = train_alone(
        tmp_path,
        {
            "train": f"{__name__}:train_average",
            "epochs": 1,
            "batchSize": 8,
            "accumulate": 2,
            "data": make_data(),
        },
    )

    assert left.verdict.outcome == SUCCEEDED, left.verdict.message
    assert left.finished.metrics["train.isAverage"] == 1.0
