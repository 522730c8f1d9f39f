"""Bit-equal training: deterministic kernels, fixed threads, gradients added in rank order.

No `from __future__ import annotations` here: DDP reads the hook's annotations at run time.
"""

import os

import torch
import torch.distributed as dist

from trainshed.checkpoint.wrapping import inside


def prepare() -> None:
    """Make kernels deterministic or fail, before any tensor exists."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def sum_in_rank_order(model: torch.nn.Module) -> None:
    """Make a DDP model add gradients in the same order whatever bucket a parameter is in.

    DDP rebuilds its buckets after the first step, and a ring all-reduce adds in an order that
    depends on the position in the bucket: with three or more ranks the first step of a resumed run
    would differ. Adding all ranks' gradients in rank order is independent of the position.
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
