"""Pictures on their way into a model and into the report. Shapes: see `models`."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainshed.programs.options import ImageOptions


def to_model_input(images: Tensor, options: ImageOptions) -> Tensor:
    """Return pictures (B, H, W) or (B, H, W, C) as float (B, C, H, W).

    Bytes 0..255 become -1..1; floats are taken as they are.

    Raises:
        ValueError: when the pictures are not what the options say.
    """
    with_channels = images.reshape(*images.shape[:3], *(images.shape[3:] or (1,)))
    expected = (options.image_size, options.image_size, options.channels)
    if tuple(with_channels.shape[1:]) != expected:
        raise ValueError(
            f'column "image": pictures have the shape {tuple(with_channels.shape[1:])}, but '
            f"spec.config.imageSize {options.image_size} and spec.config.channels "
            f"{options.channels} say {expected}"
        )
    # The strides of one channel look like channels-last to a convolution, and its gradients would
    # then not fit DDP's buckets: a copy has the plain ones.
    pixels = with_channels.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
    return pixels.float() / 127.5 - 1 if images.dtype == torch.uint8 else pixels.float()


class SampleImages:
    """The first pictures of an evaluation, each with its class and the predicted one."""

    def __init__(self, limit: int = 16) -> None:
        self._limit = limit
        self.clear()

    def clear(self) -> None:
        """Discard the collected images."""
        self._images: list[NDArray[np.uint8]] = []
        self.captions: list[str] = []
        self.good: list[bool] = []

    def add(self, images: Tensor, labels: Tensor, predictions: Tensor) -> None:
        """Keep pictures (B, H, W) or (B, H, W, C) until there are enough."""
        num_missing = self._limit - len(self.captions)
        if num_missing == 0 or len(images) == 0:
            return
        self._images.append(_to_bytes(images[:num_missing]))
        pairs = zip(labels[:num_missing].tolist(), predictions[:num_missing].tolist(), strict=True)
        for label, prediction in pairs:
            self.captions.append(f"{label} (predicted {prediction})")
            self.good.append(label == prediction)

    @property
    def images(self) -> NDArray[np.uint8]:
        """The collected images, (n, H, W) or (n, H, W, 3)."""
        return np.concatenate(self._images) if self._images else np.zeros((0, 1, 1), np.uint8)


def _to_bytes(images: Tensor) -> NDArray[np.uint8]:
    if images.shape[3:] == (1,):
        images = images.squeeze(3)
    if images.dtype != torch.uint8:
        # Floats have no fixed scale: the minimum becomes black, the maximum white.
        low, high = images.aminmax()
        images = ((images - low) / (high - low).clamp(min=1e-12) * 255).to(torch.uint8)
    array: NDArray[np.uint8] = images.cpu().numpy()
    return array
