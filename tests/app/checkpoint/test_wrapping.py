"""Which module is scored, by which names it is kept, and which wrappers are refused."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tests.app.builders_checkpoint import make_tracked
from tests.app.checkpoint.test_state import same
from tests.app.worker.ranks import on_ranks
from trainshed.checkpoint.tracked import TrackedObjects
from trainshed.checkpoint.wrapping import check_wrapping, inside, make_scaler, unwrapped
from trainshed.worker.evaluation import in_step
from trainshed.worker.step_sync import Control

compiled = cast("Callable[[nn.Module], nn.Module]", partial(torch.compile, backend="eager"))


def make_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1)))


def with_compiled_part() -> nn.Module:
    model = make_model()
    model[1] = compiled(model[1])
    return model


def compiled_in_place() -> nn.Module:
    model = make_model()
    model.compile(backend="eager")
    return model


COMPILED: dict[str, Callable[[], nn.Module]] = {
    "nothing": make_model,
    "the model": lambda: compiled(make_model()),
    "a part": with_compiled_part,
    "the model and a part": lambda: compiled(with_compiled_part()),
    "by its own method": compiled_in_place,
}


def track(model: nn.Module) -> TrackedObjects:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return make_tracked(model, optimizer)


@pytest.mark.parametrize("saved", COMPILED.values(), ids=COMPILED)
@pytest.mark.parametrize("loaded", COMPILED.values(), ids=COMPILED)
def test_weights_come_back_whatever_was_compiled(
    saved: Callable[[], nn.Module], loaded: Callable[[], nn.Module]
) -> None:
    before, after = track(saved()), track(loaded())
    weights = before.weights()
    after.load(weights | before.state())

    names = list(cast("dict[str, Tensor]", weights["model"]))
    assert names == [
        "0.weight",
        "0.bias",
        "1.0.weight",
        "1.0.bias",
    ]
    assert same(after.weights(), weights)


@pytest.mark.parametrize("saved", COMPILED.values(), ids=COMPILED)
@pytest.mark.parametrize("loaded", COMPILED.values(), ids=COMPILED)
def test_weights_of_a_release_that_kept_the_compiler_s_names_come_back(
    saved: Callable[[], nn.Module], loaded: Callable[[], nn.Module]
) -> None:
    before, after = track(saved()), track(loaded())
    after.load({"model": before.first.module.state_dict()} | before.state())

    assert same(after.weights(), before.weights())


def test_a_module_that_nothing_distributes_is_scored_as_it_is() -> None:
    model = make_model()
    assert unwrapped(model) is model
    fast = compiled(model)
    assert unwrapped(fast) is fast
    assert inside(fast) is model


@dataclass(frozen=True)
class Seen:
    """What a rank saw of its wrappers, in one go: ranks take their time to start."""

    scored: list[bool]
    refused: list[str]
    forwards: tuple[int, int]
    lacking: str
    scales: tuple[float, bool]


def see_all(rank: int) -> Seen:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    cpu = torch.device("cpu")
    shard = partial(FullyShardedDataParallel, device_id=cpu)
    model, fast = make_model(), compiled(make_model())
    scored = [
        unwrapped(compiled(DistributedDataParallel(model))) is model,
        unwrapped(DistributedDataParallel(model)) is model,
        unwrapped(DistributedDataParallel(fast)) is fast,
    ]
    part = make_model()
    part[1] = shard(part[1])
    by_two = make_model()
    fully_shard(by_two, mesh=init_device_mesh("cpu", (2,)))
    wrap = ModuleWrapPolicy({nn.Sequential})
    models = [
        by_two,
        part,
        shard(with_compiled_part()),
        shard(make_model(), use_orig_params=True),
        shard(make_model(), auto_wrap_policy=wrap),
        compiled(shard(make_model())),
        compiled(DistributedDataParallel(make_model())),
    ]
    return Seen(scored, [refusal(model) for model in models], *walk(rank), scale(rank, shard))


def refusal(model: nn.Module) -> str:
    try:
        check_wrapping(model)
    except TypeError as error:
        return str(error)
    return ""


def walk(rank: int) -> tuple[tuple[int, int], str]:
    """Evaluate where ranks have 3 and 1 batches, then where one has none."""
    mine, company = 0, 0
    control = Control()

    def keep_company(tensors: dict[str, Tensor]) -> None:
        nonlocal company
        company += len(tensors["x"])

    def batches(number: int) -> list[tuple[dict[str, Tensor], int]]:
        return [({"x": torch.zeros(1)}, 1)] * number + [({"x": torch.zeros(0)}, 0)]

    def is_stopped() -> bool:
        return False

    for _ in in_step(batches(1 if rank else 3), control, is_stopped, keep_company):
        mine += 1
    try:
        list(in_step(batches(0 if rank else 2), control, is_stopped, keep_company))
    except ValueError as error:
        return (mine, company), str(error)
    return (mine, company), ""


def scale(rank: int, shard: Callable[[nn.Module], nn.Module]) -> tuple[float, bool]:
    """Step with a gradient that overflows on one rank; return the scale and if weights moved."""
    model = shard(nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = make_scaler([model], "cpu", enabled=True)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    scaler.scale(model(torch.ones(1, 2)).sum()).backward()
    for parameter in model.parameters():
        if parameter.grad is not None and not rank:
            parameter.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    moved = any(
        not torch.equal(was, now) for was, now in zip(before, model.parameters(), strict=True)
    )
    return scaler.get_scale(), moved


def test_what_ranks_see_of_their_wrappers(tmp_path: Path) -> None:
    seen = on_ranks(2, tmp_path, see_all, within_seconds=300)

    assert all(rank.scored == [True, True, True] for rank in seen)
    assert seen[0].refused == seen[1].refused
    by_two, part, inner, orig, *fine = seen[0].refused
    assert by_two.startswith("track: parameter 0.weight is a DTensor")
    assert by_two.endswith('prepare_model(model, parallel_strategy="fsdp") instead')
    assert part.startswith("track: FSDP holds only the part 1 of the model; wrap the whole model")
    assert "that torch.compile was given before; compile what FSDP returns" in inner
    assert orig.startswith("track: FSDP with use_orig_params=True on CPUs")
    assert fine == ["", "", ""]
    assert [rank.forwards for rank in seen] == [(3, 0), (1, 2)]
    assert all("1 workers have no row of the dataset" in rank.lacking for rank in seen)
    assert [rank.scales for rank in seen] == [(2.0**15, False)] * 2
