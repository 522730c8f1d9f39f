"""An optimizer's state by names: it comes back to parameters that are in another order."""

import pytest
import torch
from torch import nn

from trainshed.checkpoint.optimizer_state import OtherParametersError, by_name, by_number, names_of


def make_training(*order: str) -> tuple[nn.Linear, torch.optim.SGD]:
    """Return a model after a step of an optimizer that has its parameters in an order."""
    model = nn.Linear(2, 1)
    named = dict(model.named_parameters())
    optimizer = torch.optim.SGD([named[name] for name in order], lr=0.1, momentum=0.9)
    for name, parameter in named.items():
        parameter.grad = torch.full_like(parameter, float(len(name)))
    optimizer.step()
    return model, optimizer


def test_a_state_finds_its_parameters_in_another_order() -> None:
    model, optimizer = make_training("weight", "bias")
    other, turned = make_training("bias", "weight")
    turned.state.clear()

    saved = by_name(optimizer.state_dict(), names_of(optimizer, model))
    turned.load_state_dict(by_number(saved, names_of(turned, other)))

    assert turned.state[other.weight]["momentum_buffer"].tolist() == [[6.0, 6.0]]
    assert turned.state[other.bias]["momentum_buffer"].tolist() == [4.0]


def test_a_state_by_numbers_is_taken_as_it_is() -> None:
    model, optimizer = make_training("weight", "bias")
    saved = optimizer.state_dict()

    assert by_number(saved, names_of(optimizer, model)) == saved


def test_a_state_of_an_own_form_stays_as_it_is() -> None:
    model, optimizer = make_training("weight", "bias")
    names = names_of(optimizer, model)
    own = {"slow": {0: 1.0}, "param_groups": [{"params": [0, 1]}]}

    assert by_name(own, names) == own
    assert by_number(own, names) == own


def test_parameters_beside_the_model_keep_their_numbers() -> None:
    model, _ = make_training("weight")
    optimizer = torch.optim.SGD([model.weight, nn.Parameter(torch.zeros(1))])

    assert names_of(optimizer, model) is None
    assert by_name(optimizer.state_dict(), None) == optimizer.state_dict()


def test_a_state_of_other_parameters_is_refused() -> None:
    model, optimizer = make_training("weight", "bias")
    other, fewer = make_training("weight")
    saved = by_name(optimizer.state_dict(), names_of(optimizer, model))

    with pytest.raises(OtherParametersError, match="not those of the checkpoint: bias"):
        by_number(saved, names_of(fewer, other))
