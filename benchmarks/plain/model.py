"""The MLP that every side trains, its optimizer, and a training step of the plain sides."""

import itertools

import torch
from torch import nn, optim


def build_mlp(inputs: int, hidden: list[int], classes: int) -> nn.Sequential:
    """Return a multilayer perceptron with ReLU between its layers."""
    widths = [inputs, *hidden]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


def build_optimizer(model: nn.Module) -> optim.Optimizer:
    """Return the optimizer."""
    return optim.AdamW(model.parameters(), lr=1e-3)


def train_step(
    model: nn.Module, optimizer: optim.Optimizer, features: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Train on one batch and return the loss."""
    loss = nn.functional.cross_entropy(model(features), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]  # untyped in PyTorch
    optimizer.step()
    return loss.detach()
