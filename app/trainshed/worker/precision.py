"""Applies a run's precision to torch: the type of autocast, and TensorFloat32 on GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from trainshed_api.v1alpha1 import Precision

_AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}
_ROUNDS_PRODUCTS = {"tensorfloat32": True, "float32": False}


def autocast_dtype(precision: Precision) -> torch.dtype | None:
    """Return the type of the forward pass; None for the type of the weights."""
    return _AUTOCAST.get(precision)


def set_float32_products(precision: Precision, device: torch.device) -> None:
    """Enable or disable TensorFloat32 on GPUs; before the user's function.

    torch uses it in convolutions by default, so float32 disables it. Half precisions keep torch's
    setting for what autocast leaves in float32, and CPUs do not round.
    """
    rounds = _ROUNDS_PRODUCTS.get(precision)
    if device.type != "cuda" or rounds is None:
        return
    # Uses the older of torch's two interfaces: the newer one works after it, but the older one
    # cannot read what was set by the newer one, and users' code still calls it.
    torch.backends.cuda.matmul.allow_tf32 = rounds
    torch.backends.cudnn.allow_tf32 = rounds
