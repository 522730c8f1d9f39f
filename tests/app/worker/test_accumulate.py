"""A step in parts: the same weights as at one go, on any number of workers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from tests.app.checkpoint.wrapped_training import Attempts, fsdp, make_jobs, run_all, with_spec
from tests.app.worker.ranks import on_ranks
from trainshed.checkpoint import store as checkpoint
from trainshed.data.loader.batches import Batch
from trainshed.worker.attempt_config import AttemptConfig
from trainshed.worker.step import Step, as_weight, parts_of
from trainshed.worker.step_sync import Control

NAME = __name__
# As `spec.accumulate` and `backward_step(clip_norm=)`.
LENGTHS = (100, 90, 5, 4, 0)
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
            clip_norm = cast("float | None", config.get("clip_norm"))
            if config["by_token"]:
                lengths = torch.tensor(LENGTHS)[batch["row"] % len(LENGTHS)]
                if run.step == 4:  # no worker has a token
                    lengths.zero_()
                loss = loss_of_tokens(outputs, batch["y"] > 0, lengths)
                run.backward_step(loss, clip_norm, weight=lengths.sum())
            else:
                run.backward_step(F.mse_loss(outputs, batch["y"].to(dtype)), clip_norm)


def loss_of_tokens(outputs: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean over all tokens of rows of such lengths; NaN where there is none."""
    token = torch.arange(max(LENGTHS))
    # logits has shape (rows, tokens, 2), targets (rows, tokens)
    scaled = outputs[:, None] * (token + 1) / len(token)
    logits = torch.stack([-scaled, scaled], dim=2)
    targets = labels.long()[:, None].expand(-1, len(token))
    targets = targets.masked_fill(token >= lengths[:, None], -100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


@dataclass(frozen=True)
class Way:
    """How some attempts take their steps."""

    accumulate: int
    clip_norm: float | None
    attempts: Attempts
    dtype: str = "float64"
    by_token: bool = False


def run_ways(job: AttemptConfig, ways: Sequence[Way], rank: int) -> list[str]:
    errors = []
    for way in ways:
        accumulated = with_spec(job, accumulate=way.accumulate)
        here = replace(accumulated, train=f"{NAME}:train")
        told = {"clip_norm": way.clip_norm, "dtype": way.dtype, "by_token": way.by_token}
        errors += run_all(here, [way.attempts], rank, told)
    return errors


def weights_of(home: Path, world_size: int, ways: Sequence[Way]) -> dict[str, torch.Tensor]:
    """Return all weights of the last checkpoint of each way."""
    job = make_jobs(home, world_size)
    errors = on_ranks(world_size, home, partial(run_ways, job, ways), within_seconds=300)
    assert errors == [[]] * world_size
    found: dict[str, torch.Tensor] = {}
    for way in ways:
        folder, _, _ = checkpoint.newest([job.folder / way.attempts.name / "ray"])
        assert folder
        assert folder.path
        model = checkpoint.load(folder.path, trust_objects=False)["model"]
        assert isinstance(model, dict)
        found[way.attempts.name] = torch.cat([value.flatten() for value in model.values()])
    return found


def test_steps_in_parts_and_at_other_sizes_come_to_the_same_weights(tmp_path: Path) -> None:
    ways = [
        Way(*how, Attempts(f"{name}, {mean}", ["DDP"]), by_token=mean == "tokens")
        for name, how in WAYS.items()
        for mean in ("rows", "tokens")
    ]
    found = [weights_of(tmp_path / str(num), num, ways) for num in (1, 3)]

    for mean in ("rows", "tokens"):
        whole, clipped = (found[0][f"{name}, {mean}"] for name in ("whole", "clipped"))
        for by_name in found:
            for want, names in (
                (whole, ("whole", "parts")),
                (clipped, ("clipped", "clipped parts")),
            ):
                for name in names:
                    got = by_name[f"{name}, {mean}"]
                    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)
        assert not torch.allclose(whole, clipped)


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
    parts = list(parts_of(batch, most, world_size=3))

    assert [part.rows for part in parts] == want
    assert torch.cat([part.tensors["x"] for part in parts]).tolist() == list(range(max(1, rows)))


def test_a_batch_beside_a_step_does_not_become_it() -> None:
    step = Step(2, accumulate=2)
    step.begin(Batch({}, 3, 8), counts=True, is_last=False)
    step.begin(Batch({}, 16, 16), counts=False, is_last=True)
    step.end(counts=False)

    assert (step.is_under_way, step.is_last_part) == (True, False)
    assert step.weigh(torch.tensor(1.0)) == 3 * 2 / 8


def gradient_of(lengths: Sequence[Sequence[int]], rank: int) -> tuple[float, float | None]:
    """Return the gradient of a step, and its scale; each row's loss is its number.

    lengths: tokens of each row of a rank; each row is a part.
    """
    mine = lengths[rank]
    step, control = Step(len(lengths), accumulate=len(mine)), Control()
    parameter = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    for number, tokens in enumerate(mine):
        is_last = number == len(mine) - 1
        step.begin(Batch({}, 1, len(lengths) * len(mine)), counts=True, is_last=is_last)
        loss = parameter * (1 + number + rank * len(mine))
        torch.autograd.backward(step.weigh(loss, as_weight(tokens, loss)))
        step.end(counts=True)
    scale = step.gradient_scale(control)
    assert parameter.grad is not None
    control.sum(parameter.grad)
    return float(parameter.grad) / len(lengths) * (scale or 1.0), scale


@pytest.mark.parametrize("lengths", [[[100, 90, 5, 4]], [[100, 90], [5, 4]], [[100, 90], [0, 0]]])
def test_each_token_counts_alike_wherever_it_is(lengths: list[list[int]], tmp_path: Path) -> None:
    tokens = [length for mine in lengths for length in mine]
    want = sum(n * row for row, n in enumerate(tokens, 1)) / sum(tokens)

    found = on_ranks(len(lengths), tmp_path, partial(gradient_of, lengths))
    assert [gradient for gradient, _ in found] == pytest.approx([want] * len(lengths))


def test_a_step_without_tokens_has_no_scale() -> None:
    assert gradient_of([[0, 0]], rank=0) == (0.0, None)


def weighed(*weights: float | Tensor | None) -> Step:
    step, loss = Step(1, accumulate=len(weights)), torch.tensor(1.0)
    for number, weight in enumerate(weights):
        step.begin(Batch({}, 1, len(weights)), counts=True, is_last=number == len(weights) - 1)
        step.weigh(loss, None if weight is None else as_weight(weight, loss))
        step.end(counts=True)
    return step


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), torch.tensor(-1)])
def test_a_weight_that_counts_nothing_is_refused(weight: float | Tensor) -> None:
    with pytest.raises(
        ValueError, match=r"backward_step: got weight=\S+; expected a finite number"
    ):
        weighed(3, weight).gradient_scale(Control())


def test_a_weight_of_several_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a weight of shape \(2,\); expected a single number"):
        weighed(torch.ones(2))


@pytest.mark.parametrize("weights", [(3, None), (None, 0)])
def test_a_weight_for_some_parts_of_a_step_is_refused(weights: tuple[float | None, ...]) -> None:
    with pytest.raises(ValueError, match="got a weight for some parts of a step only"):
        weighed(*weights)


def test_parts_of_a_step_that_was_left_do_not_count_in_the_next() -> None:
    step = weighed(50)
    step.leave()
    step.begin(Batch({}, 1, 1), counts=True, is_last=True)
    step.weigh(torch.tensor(1.0), torch.tensor(4.0))

    assert step.gradient_scale(Control()) == 1 / 4


def test_a_row_of_another_worker_counts_there_alone() -> None:
    step = Step(2)
    step.begin(Batch({}, 0, 1), counts=True, is_last=True)

    assert step.weigh(torch.tensor(1.0), torch.tensor(7.0)) == 0
    assert step.gradient_scale(Control()) is None
