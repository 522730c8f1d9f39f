"""What tests show on CPUs, on a GPU: bits after a lost driver, several models, a compiled one.

Each run starts a Ray of its own: the loss of its driver ends that Ray, and a shared one has no GPU.
"""

from functools import partial
from pathlib import Path
from typing import cast

import pytest
import torch
from pydantic import JsonValue
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from tests.app.builders_rows import write_rows
from tests.app.processes import Mark
from tests.app.ray_run import finish, run_folder, start, write_run
from tests.app.ray_run import trainshed as run_trainshed
from tests.app.recovery import (
    assert_same_weights,
    last_weights,
    make_spec,
    resumed_step,
    wait_for_the_end_of_its_ray,
)
from tests.app.train_functions import die, make_network, regress_as
from trainshed_api.names import EXIT_SUCCEEDED

pytestmark = [pytest.mark.gpu, pytest.mark.ray, pytest.mark.timeout(600)]

PATIENCE_SECONDS = 150
FIRST_SCALE = torch.amp.GradScaler("cpu").get_scale()
MOST = 0.01


def regress_compiled(config: dict[str, object]) -> None:
    """Train what `regress` trains, compiled."""
    run = trainshed.current()
    network = cast("nn.Module", torch.compile(make_network()))
    regress_as(run, network, lambda: die(config, run.step, run.rank))


def train_two(config: dict[str, object]) -> None:
    """Train two models, each by its own loss; that of the first overflows in float16 at first."""
    run = trainshed.current()
    first, second = (nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)) for _ in range(2))
    one, two = (torch.optim.Adam(model.to(run.device).parameters()) for model in (first, second))
    run.track(first, one, second=(second, two))
    scaler = torch.amp.GradScaler(run.device.type, enabled=config["precision"] == "float16")
    for _ in run.epochs():
        for batch in run.batches("train"):
            with run.autocast():
                error = F.mse_loss((first(batch["x"]) + second(batch["x"])).squeeze(1), batch["y"])
                small = F.mse_loss(second(batch["x"]).squeeze(1), batch["y"]) / 100
            large = error * 100
            match config["way"]:
                case "by hand":
                    step_by_hand(scaler, one, large)
                    step_by_hand(scaler, two, small, MOST)
                    scaler.update()
                case way:
                    step = partial(run.backward_step, weight=16 if way == "weighted" else None)
                    step(large, optimizer=one)
                    step(small, optimizer=two, clip_norm=MOST)


def step_by_hand(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, loss: Tensor, most: float = 1e9
) -> None:
    """Step an optimizer by its gradients of a loss, as PyTorch's guide to AMP does."""
    parameters = optimizer.param_groups[0]["params"]
    gradients = torch.autograd.grad(scaler.scale(loss), parameters, retain_graph=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(parameters, most)
    scaler.step(optimizer)


def write_on_gpu(
    folder: Path, name: str, precision: str, train: str = "regress", **config: JsonValue
) -> Path:
    """Write a run of one worker with a GPU; `train` is a function of this module or `regress`."""
    folder.mkdir()
    write_rows(folder / "rows", 210)
    config["precision"] = precision
    spec = make_spec(folder, config, shuffle={"mode": "global"}, cache="none", workers=1)
    spec["workers"] = {"count": 1, "resources": {"cpu": "500m", "gpu": 1}}
    if train != "regress":
        spec["train"] = f"{__name__}:{train}"
    return write_run(folder, name, **spec, precision=precision)


def train_to_the_end(file: Path) -> Path:
    """Run a file, which succeeds, and return it."""
    output = run_trainshed("run", str(file), timeout_seconds=PATIENCE_SECONDS)
    assert output.code == EXIT_SUCCEEDED, output.stderr
    return file


@pytest.mark.parametrize(
    ("precision", "train"),
    [
        ("float32", "regress"),
        ("bfloat16", "regress"),
        ("float16", "regress"),
        ("bfloat16", "regress_compiled"),
    ],
)
def test_losing_the_driver_changes_no_bit_on_a_gpu(
    tmp_path: Path, precision: str, train: str
) -> None:
    left_alone = train_to_the_end(write_on_gpu(tmp_path / "alone", "plain", precision, train))

    run = str(run_folder(tmp_path / "killed" / "killed.yaml"))
    killed = write_on_gpu(tmp_path / "killed", "killed", precision, train, killDriverAt=18, run=run)
    mark = Mark()
    driver = start("run", str(killed), environment=mark.environment)
    driver.wait(PATIENCE_SECONDS)
    wait_for_the_end_of_its_ray(mark)
    first = finish(driver)
    assert first.code == -9, first.stderr
    second = run_trainshed("run", str(killed), timeout_seconds=PATIENCE_SECONDS)
    assert second.code == EXIT_SUCCEEDED, second.stderr

    assert resumed_step(second) == 16
    assert_same_weights(last_weights(left_alone), last_weights(killed))


@pytest.mark.parametrize(
    ("precision", "way"), [("float16", "plain"), ("float32", "weighted"), ("bfloat16", "weighted")]
)
def test_losses_of_two_models_step_as_by_hand_on_a_gpu(
    tmp_path: Path, precision: str, way: str
) -> None:
    want, got = (
        train_to_the_end(write_on_gpu(tmp_path / name, name, precision, "train_two", way=each))
        for name, each in (("want", "by hand"), ("got", way))
    )

    for model in ("model", "second"):
        assert_same_weights(last_weights(want, model), last_weights(got, model))
    if precision == "float16":
        assert last_scale(got) < FIRST_SCALE


def last_scale(file: Path) -> float:
    """Return the scale of the gradients in a run's last checkpoint."""
    state = max(run_folder(file).glob("attempts/*/ray/checkpoint_*/state.pt"), key=str)
    return float(torch.load(state, weights_only=False)["scaler"]["scale"])
