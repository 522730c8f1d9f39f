"""Models that play against each other train as one worker would, and resume to the same bits."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import trainshed
from tests.app.checkpoint.test_state import same
from tests.app.checkpoint.wrapped_training import (
    Attempts,
    BrokenError,
    fsdp,
    make_jobs,
    run_all,
    with_spec,
)
from tests.app.worker.ranks import on_ranks
from trainshed.checkpoint import store as checkpoint
from trainshed.worker.attempt_config import AttemptConfig

NAME, DDP = __name__, DistributedDataParallel
MODELS = ("maker", "critic", "guide")
WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "DDP": DDP,
    # Gradients are then parts of one tensor, which the next backward pass writes to.
    "views": partial(DDP, gradient_as_bucket_view=True),
    "compiled": lambda model: cast("nn.Module", torch.compile(DDP(model), backend="eager")),
    "FSDP": fsdp,
}


def train(config: dict[str, object]) -> None:
    """Train a maker against a critic, and a guide that has a loss in every second step only."""
    torch.manual_seed(3)
    run = trainshed.current()
    dtype = torch.float32 if config["wrapper"] == "FSDP" else torch.float64
    wrap = WRAPPERS[str(config["wrapper"])]
    maker, guide = (wrap(nn.Sequential(nn.Linear(2, 4)).to(dtype)) for _ in range(2))
    critic = wrap(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).to(dtype))
    by_maker = torch.optim.AdamW(maker.parameters(), lr=0.02)
    by_critic = torch.optim.AdamW(critic.parameters(), lr=0.05)
    by_guide = torch.optim.SGD(guide.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(by_critic, 0.9)
    run.track(
        maker=(maker, by_maker), critic=(critic, by_critic, schedule), guide=(guide, by_guide)
    )
    for _ in run.epochs():
        for batch in run.batches("train"):
            if run.step == config["broken_at"]:
                raise BrokenError
            x = batch["x"].to(dtype)
            made, guided = maker(x[:, :2]), guide(x[:, :2])
            run.backward_step(-critic(made + guided.detach()).mean(), 0.5, optimizer=by_maker)
            loss = (critic(made.detach()) - critic(x)).mean()
            run.backward_step(loss, 0.5, optimizer=by_critic)
            if run.step % 2:
                run.backward_step((guided - made.detach()).square().mean(), optimizer=by_guide)


def run_parts(job: AttemptConfig, runs: list[Attempts], accumulate: int, rank: int) -> list[str]:
    accumulated = with_spec(job, accumulate=accumulate)
    return run_all(replace(accumulated, train=f"{NAME}:train"), runs, rank)


def train_all(
    home: Path, world_size: int, runs: list[Attempts], accumulate: int = 2
) -> dict[str, dict[str, object]]:
    """Return what the last checkpoint of each run holds."""
    job = make_jobs(home, world_size)
    work = partial(run_parts, job, runs, accumulate)
    assert on_ranks(world_size, home, work, within_seconds=300) == [[]] * world_size
    found: dict[str, dict[str, object]] = {}
    for attempts in runs:
        folder, manifest, refused = checkpoint.newest([job.folder / attempts.name / "ray"])
        assert folder
        assert folder.path
        assert manifest
        assert not refused
        assert {f"{name}.pt" for name in MODELS} < manifest.files.keys()
        found[attempts.name] = checkpoint.load(folder.path, trust_objects=False)
    return found


def weights_of(saved: dict[str, object]) -> Tensor:
    states = [cast("dict[str, Tensor]", saved[name]) for name in MODELS]
    return torch.cat([value.flatten() for state in states for value in state.values()])


def test_models_that_accumulate_resume_to_the_same_bits_on_any_number_of_workers(
    tmp_path: Path,
) -> None:
    runs = [
        Attempts("whole", ["DDP"]),
        Attempts("resumed", ["DDP", "compiled", "views", "DDP"]),
        Attempts("views", ["views"]),
    ]
    one = train_all(tmp_path / "one", 1, runs[:2])
    two = train_all(tmp_path / "two", 2, runs)
    at_once = train_all(tmp_path / "at once", 1, runs[:1], accumulate=1)

    for found in (one, two):
        assert [name for name in found if not same(found[name], found["whole"])] == []
    for found in (two, at_once):
        torch.testing.assert_close(
            weights_of(found["whole"]), weights_of(one["whole"]), rtol=1e-9, atol=1e-12
        )


def test_each_of_several_models_may_be_sharded(tmp_path: Path) -> None:
    whole, resumed = Attempts("whole", ["FSDP"]), Attempts("resumed", ["FSDP", "FSDP"])
    found = train_all(tmp_path, 2, [whole, resumed], accumulate=1)
    plain = train_all(tmp_path / "plain", 2, [Attempts("plain", ["DDP"])], accumulate=1)["plain"]

    assert same(found["resumed"], found["whole"])
    torch.testing.assert_close(
        weights_of(found["whole"]).double(), weights_of(plain), rtol=1e-3, atol=1e-5
    )
