"""Bit-equal training: deterministic kernels, fixed threads, gradients added in rank order.

No `from __future__ import annotations` here: DDP looks at the hook's annotations while it runs.
"""

import os

import torch
import torch.distributed as dist

from trainshed.checkpoint.wrapping import inside


def prepare() -> None:
    """Make kernels deterministic or fail, before any tensor exists."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def sum_in_rank_order(model: torch.nn.Module) -> None:
    """Make a DDP model add gradients the same way whatever bucket a parameter is in.

    DDP lays its buckets out anew after the first step, and a ring all-reduce adds in an order that
    depends on the place within the bucket: from three ranks on, a resumed run would differ in its
    first step. Adding all ranks' gradients in rank order does not depend on the place.
    """
    wrapper = inside(model)
    if isinstance(wrapper, torch.nn.parallel.DistributedDataParallel):
        wrapper.register_comm_hook(None, _mean_in_rank_order)


def _mean_in_rank_order(
    state: object,  # noqa: ARG001 - DDP's signature
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # exported at run time only
) -> torch.futures.Future[torch.Tensor]:
    mine: torch.Tensor = bucket.buffer()
    ranks = dist.get_world_size()
    gathered = [torch.empty_like(mine) for _ in range(ranks)]
    work = dist.all_gather(gathered, mine, async_op=True)
    assert work is not None

    def mean(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        done.wait()
        total = gathered[0]
        for other in gathered[1:]:
            total.add_(other)
        return total.div_(ranks)

    return work.get_future().then(mean)
