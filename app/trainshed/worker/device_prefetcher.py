"""Moves batches to the device: pinned ahead, copied during the previous step.

The thread that prepares batches pins them. The training thread queues the copy of the next batch
when it takes the current one, on a second stream, if the next one is ready by then: nothing waits
for a batch that is not needed yet. Only the training thread uses streams (see device_reads.py).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from trainshed.data.loader.batches import Batch
    from trainshed.data.loader.prefetch import Prefetched

    Tensors = dict[str, torch.Tensor]

# Maximum number of batches queued on the device; it is never idle with these. Without a limit the
# training thread, which never waits, would fill the device's memory with batches.
MOST_STEPS_BEHIND = 8


class Mark(Protocol):
    """A point in the device's queue."""

    def synchronize(self) -> None:
        """Wait until the device reaches it."""
        ...


class Streams(Protocol):
    """A device that copies and computes in parallel."""

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor in memory that the device can read directly; from any thread."""
        ...

    def copy(self, tensors: Tensors) -> tuple[Tensors, Mark]:
        """Start to copy pinned tensors to the device; return the copies, and the end of copying."""
        ...

    def compute_after(self, mark: Mark, tensors: Tensors) -> None:
        """Make later computation wait for a mark, and keep the tensors until it is reached."""
        ...

    def mark(self) -> Mark:
        """Return the end of the computation queued so far."""
        ...


class CudaStreams:
    """A CUDA device; it computes on the current stream of the training thread.

    Args:
        device: with its number.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._copying: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return it in pinned memory."""
        # In another thread the current device is the first one, which this must not use.
        with torch.cuda.device(self._device):
            return tensor.pin_memory()

    def copy(self, tensors: Tensors) -> tuple[Tensors, torch.cuda.Event]:
        """Start to copy on the second stream."""
        copied: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._copying):
            there = {
                name: tensor.to(self._device, non_blocking=True) for name, tensor in tensors.items()
            }
            copied.record(self._copying)
        return there, copied

    def compute_after(self, mark: Mark, tensors: Tensors) -> None:
        """Make the current stream wait, and tell the allocator."""
        assert isinstance(mark, torch.cuda.Event)
        computing = torch.cuda.current_stream(self._device)
        computing.wait_event(mark)
        for tensor in tensors.values():
            # The memory belongs to the other stream, which would reuse it once it is released.
            tensor.record_stream(computing)

    def mark(self) -> torch.cuda.Event:
        """Return the end of the current stream's queue."""
        marked: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        marked.record(torch.cuda.current_stream(self._device))
        return marked


def streams_of(device: torch.device) -> Streams | None:
    """Return the streams of a device; None if it does not copy in parallel, as a CPU."""
    return CudaStreams(device) if device.type == "cuda" else None


@dataclass(frozen=True)
class _Sent:
    """A batch on the device, and the end of its copy."""

    batch: Batch
    copied: Mark


@dataclass(eq=False)
class DevicePrefetcher:
    """Moves the batches of one worker to its device; all but `stage` on the training thread.

    Args:
        streams: of the device; None for the CPU, where batches do not move.
    """

    streams: Streams | None
    _behind: deque[Mark] = field(default_factory=deque)

    def stage(self, batch: Batch) -> Batch:
        """Prepare a batch for the copy, ahead and in any thread."""
        streams = self.streams
        if streams is None:
            return batch
        pinned = {name: streams.pin(tensor) for name, tensor in batch.tensors.items()}
        return replace(batch, tensors=pinned)

    def carried(self, batches: Prefetched[Batch]) -> Generator[Batch, None, None]:
        """Yield staged batches on the device; the copy of the next one has begun if it is ready."""
        try:
            if self.streams is None:
                yield from batches
            else:
                yield from self._one_ahead(batches, self.streams)
        finally:
            batches.close()

    def hold_back(self) -> None:
        """End a step: wait if the device is many steps behind."""
        if self.streams is None:
            return
        self._behind.append(self.streams.mark())
        if len(self._behind) > MOST_STEPS_BEHIND:
            self._behind.popleft().synchronize()

    def held_back(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches on the device, with a step for each."""
        for batch in batches:
            yield batch
            self.hold_back()

    def _one_ahead(
        self, batches: Prefetched[Batch], streams: Streams
    ) -> Generator[Batch, None, None]:
        sent: _Sent | None = None
        while True:
            if sent is None:
                batch = next(batches, None)
                if batch is None:
                    return
                sent = _send(batch, streams)
            batch = sent.batch
            streams.compute_after(sent.copied, batch.tensors)
            sent = _send(next(batches), streams) if batches.has_next() else None
            yield batch
            del batch  # frees its memory while the next one is awaited


def _send(batch: Batch, streams: Streams) -> _Sent:
    tensors, copied = streams.copy(batch.tensors)
    return _Sent(replace(batch, tensors=tensors), copied)
