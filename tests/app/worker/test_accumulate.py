"""A step in parts: the same weights as at one go, on any number of workers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import trainshed
from tests.app.checkpoint.wrapped_training import Attempts, fsdp, make_jobs, run_all
from tests.app.worker.ranks import on_ranks
from trainshed.checkpoint import files as checkpoint
from trainshed.data.feed.batches import Batch
from trainshed.worker.job import Job
from trainshed.worker.step import Step, parts_of

NAME = __name__
# As `spec.accumulate` and `backward_step(clip_norm=)`.
WAYS = {"whole": (1, None), "parts": (3, None), "clipped": (1, 0.1), "clipped parts": (3, 0.1)}


def train(config: dict[str, object]) -> None:
    """Train a network without what hangs on a worker's own rows."""
    torch.manual_seed(3)
    dtype = getattr(torch, str(config["dtype"]))
    run = trainshed.current()
    network = nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 1)).to(dtype)
    wrap = fsdp if config["wrapper"] == "FSDP" else nn.parallel.DistributedDataParallel
    model = wrap(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run.track(model, optimizer)
    for _ in run.epochs():
        for batch in run.batches("train"):
            if run.step == config["broken_at"]:
                raise RuntimeError("BrokenError")
            outputs = model(batch["x"].to(dtype)).squeeze(1)
            loss = F.mse_loss(outputs, batch["y"].to(dtype))
            run.backward_step(loss, clip_norm=cast("float | None", config.get("clip_norm")))


@dataclass(frozen=True)
class Way:
    """How some attempts take their steps."""

    accumulate: int
    clip_norm: float | None
    attempts: Attempts
    dtype: str = "float64"


def run_ways(job: Job, ways: Sequence[Way], rank: int) -> list[str]:
    errors = []
    for way in ways:
        here = replace(job, accumulate=way.accumulate, train=f"{NAME}:train")
        told = {"clip_norm": way.clip_norm, "dtype": way.dtype}
        errors += run_all(here, [way.attempts], rank, told)
    return errors


def weights_of(home: Path, num_ranks: int, ways: Sequence[Way]) -> dict[str, torch.Tensor]:
    """Return all weights of the last checkpoint of each way."""
    job = make_jobs(home, num_ranks)
    errors = on_ranks(num_ranks, home, partial(run_ways, job, ways), within_seconds=300)
    assert errors == [[]] * num_ranks
    found: dict[str, torch.Tensor] = {}
    for way in ways:
        folder, _, _ = checkpoint.newest([job.folder / way.attempts.name / "ray"])
        assert folder
        assert folder.path
        model, _ = checkpoint.load(folder.path, trust_objects=False)
        assert isinstance(model, dict)
        found[way.attempts.name] = torch.cat([value.flatten() for value in model.values()])
    return found


def test_steps_in_parts_and_at_other_sizes_come_to_the_same_weights(tmp_path: Path) -> None:
    ways = [Way(*how, Attempts(name, ["DDP"])) for name, how in WAYS.items()]
    found = [weights_of(tmp_path / str(num), num, ways) for num in (1, 3)]

    for by_name in found:
        for name, want in (("parts", "whole"), ("clipped parts", "clipped")):
            for got in (by_name[name], by_name[want]):
                torch.testing.assert_close(got, found[0][want], rtol=1e-9, atol=1e-12)
    assert not torch.allclose(found[0]["whole"], found[0]["clipped"])


def test_a_sharded_model_takes_its_steps_in_parts_too(tmp_path: Path) -> None:
    # FSDP computes norms in float32.
    ways = [
        Way(*WAYS[name], Attempts(f"{wrapper} {name}", [wrapper]), "float32")
        for name in ("parts", "clipped parts")
        for wrapper in ("DDP", "FSDP")
    ]
    found = weights_of(tmp_path, 2, ways)

    for name in ("parts", "clipped parts"):
        torch.testing.assert_close(
            found[f"FSDP {name}"], found[f"DDP {name}"], rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize(
    ("rows", "total", "most", "want"),
    [
        (7, 20, 3, [3, 2, 2]),
        (5, 15, 1, [5]),
        # Another rank has two rows only: all make as many parts.
        (3, 8, 3, [2, 1]),
        (2, 8, 3, [1, 1]),
        # One that counts for nothing is a part of one row.
        (0, 2, 3, [0]),
    ],
)
def test_every_rank_has_as_many_parts_which_differ_by_a_row_at_most(
    rows: int, total: int, most: int, want: list[int]
) -> None:
    batch = Batch({"x": torch.arange(max(1, rows))}, rows, total)
    parts = list(parts_of(batch, most, num_ranks=3))

    assert [part.rows for part in parts] == want
    assert torch.cat([part.tensors["x"] for part in parts]).tolist() == list(range(max(1, rows)))


def test_a_batch_beside_a_step_does_not_become_it() -> None:
    step = Step(2, accumulate=2)
    step.begin(Batch({}, 3, 8), counts=True, is_last=False)
    step.begin(Batch({}, 16, 16), counts=False, is_last=True)
    step.end(counts=False)

    assert (step.is_under_way, step.is_last_part) == (True, False)
    assert step.weigh(torch.tensor(1.0)) == 3 * 2 / 8
