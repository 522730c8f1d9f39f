"""A multilayer perceptron: rows of numbers in, logits or one predicted number out."""

from collections.abc import Sequence

from torch import nn

from trainshed.programs.options import fault


def build(inputs: int, widths: Sequence[int], outputs: int, dropout: float = 0.0) -> nn.Sequential:
    """Return the network: features (B, F) to (B, outputs); `widths` are its hidden layers.

    Raises:
        SpecError: when a layer would have no units.
    """
    check_sizes(inputs, widths)
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def check_sizes(inputs: int, widths: Sequence[int]) -> None:
    """Refuse a network that would have no units in a layer.

    Raises:
        SpecError: naming the option.
    """
    if inputs < 1:
        raise fault("inputs", inputs, "at least 1 number in a row")
    if any(width < 1 for width in widths):
        raise fault("widths", list(widths), "at least 1 unit in each hidden layer")
