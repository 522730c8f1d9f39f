"""What a run's precision means to torch: the type of autocast, and how GPUs multiply float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from trainshed_api.v1alpha1 import Precision

_AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}
_ROUNDS_PRODUCTS = {"tensorfloat32": True, "float32": False}


def autocast_dtype(precision: Precision) -> torch.dtype | None:
    """Return the type that the forward pass computes in; None for that of the weights."""
    return _AUTOCAST.get(precision)


def set_float32_products(precision: Precision, device: torch.device) -> None:
    """Have a GPU round what it multiplies to TensorFloat32, or not; before the user's function.

    torch rounds in convolutions unless told not to, so float32 says so. Half precisions leave to
    torch what autocast leaves in float32, and CPUs do not round.
    """
    rounds = _ROUNDS_PRODUCTS.get(precision)
    if device.type != "cuda" or rounds is None:
        return
    # Of torch's two ways to say it the older one: once it was used the newer one may be, but what
    # was said in the newer one first cannot be read in the older, which users' code still speaks.
    torch.backends.cuda.matmul.allow_tf32 = rounds
    torch.backends.cudnn.allow_tf32 = rounds
