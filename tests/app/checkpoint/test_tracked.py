"""What is tracked goes into a checkpoint and comes back from it."""

import math

import torch
from torch import nn

from tests.app.builders_checkpoint import make_tracked
from tests.app.checkpoint.test_state import same
from trainshed.checkpoint.tracked import TrackedObjects
from trainshed.worker.metric_means import Logged
from trainshed_api.progress import Progress


class Average:
    """Something of the user's that must survive."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, object]:
        """Return the value."""
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, object], /) -> None:
        """Take the value over."""
        self.value = float(str(state["value"]))


def train_and_track(average: float, *, steps: int = 0) -> tuple[TrackedObjects, Average]:
    torch.manual_seed(steps)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(steps):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        scheduler.step()
    mine = Average(average)
    return make_tracked(model, optimizer, scheduler, average=mine), mine


def test_all_that_is_tracked_comes_back() -> None:
    trained, _ = train_and_track(0.25, steps=3)
    other, average = train_and_track(0.0)
    other.load(trained.weights() | trained.state())

    assert set(trained.state()) == {"scaler", "average", "optimizer", "scheduler"}
    assert same(other.weights(), trained.weights())
    assert average.value == 0.25
    [optimizer] = other.optimizers
    assert optimizer.param_groups[0]["lr"] == 0.1 * 0.5**3
    assert optimizer.state_dict()["state"][0]["step"] == 3


def test_what_a_checkpoint_lacks_stays_as_it_is() -> None:
    trained, _ = train_and_track(0.25, steps=3)
    other, average = train_and_track(0.75)
    state = {name: part for name, part in trained.state().items() if name != "average"}
    other.load(trained.weights() | state)

    assert average.value == 0.75


def test_a_step_whose_gradients_overflow_is_skipped_and_its_norm_is_null() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # The scale of the first step is too large, that of the second one is not.
    scaler = torch.amp.GradScaler("cpu", init_scale=3e38, backoff_factor=1e-30)
    tracked, logged = make_tracked(model, optimizer, scaler=scaler), Logged()
    before, seen = model.weight.detach().clone(), []
    for step in (1, 2):
        tracked.backward(model(torch.full((2, 3), 10.0)).sum())
        logged.add("gradientNorm", tracked.clip(1.0, optimizer), step)
        tracked.step(optimizer)
        logged.settle()
        line = Progress(time=1.0, metrics={**logged.means()}).to_line()
        seen.append((Progress.model_validate_json(line), torch.equal(model.weight, before)))

    (skipped, stayed), (taken, stayed_again) = seen
    assert (skipped.metrics, stayed) == ({"gradientNorm": None}, True)
    assert not stayed_again
    assert taken.metrics["gradientNorm"]
    assert math.isfinite(taken.metrics["gradientNorm"])
