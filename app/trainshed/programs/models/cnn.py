"""A small convolutional network: good on 8x8 digits in seconds, on 32x32 pictures in minutes."""

from typing import Literal

from pydantic import Field
from torch import nn

from trainshed.programs.options import ImageOptions, fault


class CnnOptions(ImageOptions):
    """Options of `model: cnn`."""

    model: Literal["cnn"] = Field(default="cnn", description="A small convolutional network.")
    width: int = Field(
        default=32, ge=1, description="Channels of the first stage; each stage doubles them."
    )
    depth: int = Field(
        default=2, ge=1, description="Number of stages; each halves height and width."
    )
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Dropout probability before the last layer; 0 to below 1.",
    )


def build(options: CnnOptions) -> nn.Sequential:
    """Return the network: pictures (B, C, H, W) to logits (B, K).

    Strided convolutions instead of pooling: pooling has no deterministic backward on a
    GPU. Group instead of batch statistics: those would depend on how a batch is split.

    Raises:
        SpecError: when the stages cannot halve the picture.
    """
    shrink = 2**options.depth
    if options.image_size % shrink:
        size = options.image_size
        # The lowest set bit of a number is the largest power of two that divides it.
        most = (size & -size).bit_length() - 1
        expected = (
            f"at most {most}: each stage halves a picture, and spec.config.imageSize is {size}"
        )
        raise fault("depth", options.depth, expected)
    layers: list[nn.Module] = []
    channels = options.channels
    for stage in range(options.depth):
        layers += _stage(channels, options.width * 2**stage)
        channels = options.width * 2**stage
    side = options.image_size // shrink
    head = [nn.Flatten(), nn.Dropout(options.dropout)]
    return nn.Sequential(*layers, *head, nn.Linear(channels * side * side, options.classes))


def _stage(channels_in: int, channels_out: int) -> list[nn.Module]:
    # (B, channels_in, H, W) -> (B, channels_out, H / 2, W / 2)
    groups = 8 if channels_out % 8 == 0 else 1
    return [
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1),
        nn.GroupNorm(groups, channels_out),
        nn.ReLU(),
        nn.Conv2d(channels_out, channels_out, kernel_size=3, stride=2, padding=1),
        nn.GroupNorm(groups, channels_out),
        nn.ReLU(),
    ]
