"""How the ranks of TensorFlow come together: addresses that torch's group has told them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import torch

from trainshed.worker.address import free_address
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    import tensorflow as tf

    from trainshed.worker.step_sync import Control


def prepare(threads: int, *, has_gpu: bool) -> None:
    """Set TensorFlow up before it makes anything.

    Args:
        threads: of an operation.
        has_gpu: whether this worker has one, as torch sees it.

    Raises:
        SpecError: where TensorFlow does not see it.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    devices = tf.config.list_physical_devices("GPU")
    if has_gpu and not devices:
        expected = (
            "0: TensorFlow sees none here; tensorflow[and-cuda] in spec.code.pip brings its CUDA"
        )
        raise SpecError([Problem("spec.workers.resources.gpu", "1", expected)])
    for device in devices:
        # Else it takes all of the device's memory at once.
        tf.config.experimental.set_memory_growth(device, enable=True)


def join(control: Control, rank: int, world_size: int) -> tf.distribute.Strategy:
    """Return the strategy by which all ranks train one model. A collective."""
    import tensorflow as tf

    if world_size == 1:
        return tf.distribute.get_strategy()
    address, port = free_address()
    workers = _addresses(control, f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
    told = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    os.environ["TF_CONFIG"] = json.dumps(told)
    return tf.distribute.MultiWorkerMirroredStrategy()


def _addresses(control: Control, mine: str) -> list[str]:
    # As long as an address of IPv6 in brackets with its port may be.
    padded = torch.zeros(64, dtype=torch.uint8)
    padded[: len(mine)] = torch.frombuffer(bytearray(mine.encode()), dtype=torch.uint8)
    return [bytes(told.tolist()).rstrip(b"\0").decode() for told in control.gather(padded)]
