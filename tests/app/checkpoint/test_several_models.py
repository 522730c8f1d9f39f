"""Further models that are tracked come back whatever each of them is wrapped in."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from tests.app.builders_checkpoint import make_tracked
from tests.app.checkpoint.test_state import same
from trainshed.checkpoint.manifest import TrackedObject, match_objects
from trainshed.checkpoint.state import objects_in
from trainshed.checkpoint.tracked import TrackedObjects
from trainshed_api.errors import SpecError


@pytest.fixture(autouse=True)
def in_group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Stepped(nn.Module):
    """A module whose part is called as wrappers call theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 1)


DDP = DistributedDataParallel


def as_it_is(model: nn.Module) -> nn.Module:
    return model


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "nothing": as_it_is,
    "DDP": DDP,
    "compile": lambda model: cast("nn.Module", torch.compile(model, backend="eager")),
    "compile(DDP)": lambda model: cast("nn.Module", torch.compile(DDP(model), backend="eager")),
}


def track(wrap: Callable[[nn.Module], nn.Module], value: float) -> TrackedObjects:
    """Track a model, and beside it a second one and an average, all of one value."""
    main, second, named = nn.Linear(2, 1), wrap(nn.Linear(2, 1)), wrap(Stepped())
    average = AveragedModel(wrap(nn.Linear(2, 1)))
    optimizer = torch.optim.SGD(second.parameters(), lr=0.1)
    for model in (main, second, named, average):
        for tensor in model.parameters():
            nn.init.constant_(tensor, value)
    return make_tracked(
        main,
        torch.optim.SGD(main.parameters(), lr=0.1),
        second=second,
        named=named,
        average=average,
        of_second=optimizer,
    )


@pytest.mark.parametrize("saved", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("loaded", WRAPPERS.values(), ids=WRAPPERS)
def test_further_models_come_back_from_any_wrapper_to_any_other(
    saved: Callable[[nn.Module], nn.Module], loaded: Callable[[nn.Module], nn.Module]
) -> None:
    before, after = track(saved, 3.0), track(loaded, 0.0)
    state = before.state()
    after.load(before.weights() | state)

    assert set(cast("Mapping[str, Tensor]", state["second"])) == {"weight", "bias"}
    assert set(cast("Mapping[str, Tensor]", state["named"])) == {"module.weight", "module.bias"}
    assert same(after.state(), state)


@pytest.mark.parametrize("saved", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("loaded", WRAPPERS.values(), ids=WRAPPERS)
def test_states_of_a_release_that_kept_the_wrappers_names_come_back(
    saved: Callable[[nn.Module], nn.Module], loaded: Callable[[nn.Module], nn.Module]
) -> None:
    before, after = track(saved, 3.0), track(loaded, 0.0)
    earlier = {
        name: part.state_dict()
        for name, part in zip(("second", "named", "average"), before.models[1:], strict=True)
    }
    after.load(before.weights() | before.state() | earlier)

    assert same(after.state(), before.state())


def test_every_model_and_optimizer_is_known_by_its_kind() -> None:
    tracked = track(DDP, 0.0)

    assert {name: each.kind for name, each in tracked.objects().items()} == {
        "model": "model",
        "optimizer": "optimizer",
        "scaler": "scaler",
        "second": "model",
        "named": "model",
        "average": "model",
        "of_second": "optimizer",
    }
    assert [tracked.trains(model) for model in tracked.models] == [True, True, False, False]


def test_a_further_model_synchronizes_in_every_part_of_a_step() -> None:
    # The function steps its optimizer, in which part nobody knows.
    tracked = track(DDP, 0.0)
    second = cast("DistributedDataParallel", tracked.models[1])
    with tracked.alone():
        assert second.require_backward_grad_sync


def test_models_with_their_optimizers_synchronize_in_the_last_part_of_a_step() -> None:
    models = [DDP(nn.Linear(2, 1)) for _ in range(2)]
    one, two = ((model, torch.optim.SGD(model.parameters(), lr=0.1)) for model in models)
    tracked = make_tracked(one=one, two=two)
    with tracked.alone():
        assert [model.require_backward_grad_sync for model in models] == [False, False]
    assert [model.require_backward_grad_sync for model in models] == [True, True]


def test_a_further_model_in_fsdp_is_refused() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    with pytest.warns(UserWarning, match="NO_SHARD"):  # of a group of one rank
        model = FullyShardedDataParallel(nn.Linear(2, 1), device_id=torch.device("cpu"))

    with pytest.raises(TypeError, match="track: got a model in FSDP for the keyword second"):
        make_tracked(nn.Linear(2, 1), second=model)


def test_a_checkpoint_of_models_beside_the_first_one_goes_on_in_either_form() -> None:
    def make(value: float) -> tuple[nn.Linear, torch.optim.Optimizer]:
        model = nn.Linear(2, 1)
        for tensor in model.parameters():
            nn.init.constant_(tensor, value)
            tensor.grad = torch.full_like(tensor, value)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer.step()
        return model, optimizer

    maker, by_maker = make(1.0)
    critic, by_critic = make(2.0)
    before = make_tracked(maker, by_maker, critic=critic, by_critic=by_critic)
    saved = before.weights() | before.state()
    # What the release before wrote says nothing of kinds.
    for held in (before.objects(), objects_in(saved)):
        after = make_tracked(maker=make(0.0), critic=make(0.0))
        names = match_objects(held, after.objects(), [], "here")
        after.load({name: saved[earlier] for name, earlier in names.items()})

        assert same(after.weights(), {"maker": saved["model"], "critic": saved["critic"]})
        for found, optimizer in zip(after.optimizers, (by_maker, by_critic), strict=True):
            assert same(found.state_dict(), optimizer.state_dict())


def test_optimizers_without_a_model_s_name_are_refused_where_they_are_several() -> None:
    names = ("model", "optimizer", "one", "two", "by_one", "by_two")
    kinds = {"by_one": "optimizer", "by_two": "optimizer", "optimizer": "optimizer"}
    held = {name: TrackedObject(kind=kinds.get(name, "model"), files=()) for name in names}
    tracked = {
        name: TrackedObject(kind="optimizer" if "." in name else "model", files=())
        for name in ("maker", "maker.optimizer", "one", "one.optimizer", "two", "two.optimizer")
    }

    with pytest.raises(SpecError, match=r"lacks one\.optimizer, two\.optimizer and also"):
        match_objects(held, tracked, [], "here")
    allowed = ["one", "two", "by_one", "by_two"]
    assert match_objects(held, tracked, allowed, "here") == {
        "maker": "model",
        "maker.optimizer": "optimizer",
        "one": "one",
        "two": "two",
    }


def test_the_name_of_a_model_in_allow_missing_stands_for_what_trains_it() -> None:
    model, optimizer = nn.Linear(2, 1), "optimizer"
    held = make_tracked(one=(model, torch.optim.SGD(model.parameters(), lr=0.1))).objects()
    tracked = held | {
        "two": TrackedObject(kind="model", files=("two.pt",)),
        "two.optimizer": TrackedObject(kind=optimizer, files=("state.pt",)),
    }

    assert "two" not in match_objects(held, tracked, ["two"], "here")
    with pytest.raises(SpecError, match="lacks two; expected"):
        match_objects(held, tracked, ["two.optimizer"], "here")
