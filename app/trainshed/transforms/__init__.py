"""Functions for `transforms` and `augment` of a TrainingRun: numpy columns in, numpy columns out.

Pure: the same batch gives the same result, and the input batch is not changed.
Random functions draw from `rng`, whose numbers depend on the row. No torch, no Ray, no I/O.
Shape letters: B rows of a batch, H and W height and width, C channels.
"""

from trainshed.transforms.batch_checks import Batch
from trainshed.transforms.colour import color_jitter, random_gray
from trainshed.transforms.crop_and_flip import (
    random_crop_flip,
    random_erasing,
    random_flip,
    random_resized_crop,
)
from trainshed.transforms.decode import decode_image, decode_random_resized_crop
from trainshed.transforms.sequences import windows
from trainshed.transforms.tabular import normalize, rename

__all__ = [
    "Batch",
    "color_jitter",
    "decode_image",
    "decode_random_resized_crop",
    "normalize",
    "random_crop_flip",
    "random_erasing",
    "random_flip",
    "random_gray",
    "random_resized_crop",
    "rename",
    "windows",
]
