"""Copies of a state that training no longer touches, and random numbers that go on."""

import random
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from trainshed.checkpoint.state import Buffers, random_state, seed_everything, set_random_state


def make_training() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer)
    return model, optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()


def same(left: object, right: object) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [tensor for item in inner for tensor in tensors(item)]


# ---------------------------------------------------------------------- copies


def test_a_copy_is_equal_and_stays_as_it_is_while_training_goes_on() -> None:
    model, optimizer = make_training()
    buffers = Buffers()
    weights = buffers.copy(model.state_dict(), "model")
    state = buffers.copy(optimizer.state_dict(), "state")
    before = [tensor.clone() for tensor in tensors([weights, state])]
    assert same(weights, dict(model.state_dict()))
    assert same(state, optimizer.state_dict())

    step(model, optimizer)

    assert same(tensors([weights, state]), before)
    assert not same(weights, dict(model.state_dict()))


def test_memory_is_used_again() -> None:
    model, optimizer = make_training()
    buffers = Buffers()
    first = buffers.copy(model.state_dict(), "model")
    step(model, optimizer)
    second = buffers.copy(model.state_dict(), "model")

    assert [t.data_ptr() for t in tensors(first)] == [t.data_ptr() for t in tensors(second)]
    assert same(second, dict(model.state_dict()))


@dataclass
class Plain:
    """A value that is no tensor."""

    numbers: list[int]


STATES: dict[str, dict[str, object]] = {
    "nothing": {},
    "numbers, texts, None": {"a": 1, "b": 2.5, "c": "text", "d": None, "e": True},
    "lists and tuples": {"a": [torch.ones(2), (torch.zeros(1), 3)], "b": ()},
    "a number without axes": {"step": torch.tensor(7.0)},
    "no rows": {"empty": torch.empty(0, 3)},
    "types": {str(t): torch.ones(2).to(t) for t in (torch.bfloat16, torch.int8, torch.bool)},
    "a view across": {"t": torch.arange(6.0).view(2, 3).T},
    "an ordered map": {"inner": OrderedDict(x=torch.ones(1))},
    "keys that read alike": {
        "a/b": torch.ones(2),
        "a": {"b": torch.zeros(2), 0: torch.full((2,), 5.0), "0": torch.full((2,), 6.0)},
    },
    "objects": {"plain": Plain([1, 2])},
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_any_state_is_copied(state: dict[str, object]) -> None:
    copied = Buffers().copy(state, "state")

    assert same(copied, state)
    memory = {tensor.data_ptr() for tensor in tensors(state) if tensor.numel()}
    assert not [tensor for tensor in tensors(copied) if tensor.data_ptr() in memory]


def test_objects_are_copied_deeply() -> None:
    plain = Plain([1])
    copied = Buffers().copy({"plain": plain}, "state")
    plain.numbers.append(2)

    assert copied == {"plain": Plain([1])}


def test_a_tensor_that_changes_its_shape_is_copied_anew() -> None:
    buffers = Buffers()
    buffers.copy({"t": torch.ones(2)}, "state")

    assert same(buffers.copy({"t": torch.ones(3)}, "state"), {"t": torch.ones(3)})


def test_copies_under_two_names_do_not_share_memory() -> None:
    buffers = Buffers()
    first = buffers.copy({"t": torch.ones(2)}, "first")
    buffers.copy({"t": torch.zeros(2)}, "second")

    assert same(first, {"t": torch.ones(2)})


# ------------------------------------------------------------- random numbers


def draw() -> list[float]:
    """Draw from all three generators; odd numbers of normal ones leave one over in each."""
    return [
        *torch.randn(3).tolist(),
        random.random(),
        *(random.gauss(0, 1) for _ in range(3)),
        *np.random.random(2).tolist(),
        *np.random.standard_normal(3).tolist(),
    ]


@pytest.mark.parametrize("drawn_before", [0, 1, 2])
def test_random_numbers_go_on_where_they_were(drawn_before: int) -> None:
    seed_everything(3, 0)
    for _ in range(drawn_before):
        draw()
    state = random_state()
    wanted = draw()
    draw()

    set_random_state(state)
    assert draw() == wanted


def test_states_are_of_one_length() -> None:
    seed_everything(3, 0)
    lengths = {len(random_state())}
    draw()
    lengths.add(len(random_state()))

    assert len(lengths) == 1


def test_seeds_and_ranks_give_numbers_of_their_own() -> None:
    drawn = []
    for seed, rank in ((0, 0), (0, 1), (1, 0), (0, 0)):
        seed_everything(seed, rank)
        drawn.append(tuple(draw()))

    assert drawn[0] == drawn[3]
    assert len(set(drawn)) == 3


def test_a_gpu_that_is_only_in_sight_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin_to_use() -> torch.Tensor:
        raise AssertionError("torch makes a context on the GPU")

    without = random_state()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", begin_to_use)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda _: begin_to_use())
    assert torch.equal(random_state(), without)
    set_random_state(without)


def test_the_state_of_a_gpu_in_use_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    used = torch.arange(16, dtype=torch.uint8)
    put_back: list[torch.Tensor] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: used)
    monkeypatch.setattr(torch.cuda, "set_rng_state", put_back.append)
    state = random_state()
    set_random_state(state)
    assert [kept.tolist() for kept in put_back] == [used.tolist()]
    # All ranks' states are gathered as one tensor, those of ranks without a GPU too.
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert len(random_state()) == len(state)


def test_a_state_of_an_earlier_release_without_gpus_comes_back() -> None:
    state = random_state()
    wanted = torch.rand(3)
    set_random_state(state[:-16])
    assert torch.equal(torch.rand(3), wanted)
