"""ResNet-18 and ResNet-50, which every side trains on a GPU, their optimizer and loss.

He et al., Deep Residual Learning for Image Recognition, 2015, table 1; the 3x3
convolution at the start of a stage has stride 2, as in ResNet v1.5.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import nn, optim
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeVar

    T = TypeVar("T")

CLASSES = 10
# Number of blocks in each stage, and output channels of a block divided by the stage's width.
SHAPES: dict[str, tuple[Sequence[int], int]] = {
    "ResNet-18": ((2, 2, 2, 2), 1),
    "ResNet-50": ((3, 4, 6, 3), 4),
}
STEM, WIDTHS = 64, (64, 128, 256, 512)


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class _Block(nn.Module):
    """Two 3x3 convolutions, or one between two of 1x1, with a shortcut."""

    def __init__(self, inputs: int, width: int, expansion: int, stride: int) -> None:
        super().__init__()
        outputs = width * expansion
        sizes = (3, 3) if expansion == 1 else (1, 3, 1)
        widths = (inputs, *[width] * (len(sizes) - 1), outputs)
        strided = sizes.index(3)
        layers: list[nn.Module] = []
        for number, (size, (before, after)) in enumerate(
            zip(sizes, itertools.pairwise(widths), strict=True)
        ):
            convolution = _convolution(before, after, size, stride if number == strided else 1)
            layers += [convolution, nn.ReLU(inplace=True)]
        self.convolutions = nn.Sequential(*layers[:-1])
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else _convolution(inputs, outputs, 1, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return convolutions plus shortcut, shape (images, channels, height, width)."""
        return F.relu(self.convolutions(images) + self.shortcut(images), inplace=True)


def build_residual(name: str) -> nn.Sequential:
    """Return a network of SHAPES in channels_last, the fastest memory format on a GPU."""
    counts, expansion = SHAPES[name]
    layers: list[nn.Module] = [
        _convolution(3, STEM, 7, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = STEM
    for stage, (width, count) in enumerate(zip(WIDTHS, counts, strict=True)):
        for block in range(count):
            layers.append(_Block(inputs, width, expansion, 2 if stage and not block else 1))
            inputs = width * expansion
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def build_optimizer(model: nn.Module) -> optim.Optimizer:
    """Return SGD with momentum."""
    return optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def loss_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of uint8 images (rows, height, width, 3)."""
    pixels = images.permute(0, 3, 1, 2).float() / 255
    return F.cross_entropy(model(pixels), labels)


def synchronized(batches: Iterable[T]) -> Iterator[T]:
    """Yield batches, then wait for the GPU, so that the time of an epoch includes all steps."""
    yield from batches
    torch.cuda.synchronize()
