"""Batches on their way to the device that trains: pinned ahead, copied beside the step before.

The thread that makes batches pins them. The one that trains queues the copy of the next batch as
soon as it has the present one, on a stream beside that of the step, if somebody has made it by
then: nobody waits for a batch that is not needed yet. Only the thread that trains talks to streams
(fetch.py says why).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from trainshed.data.loader.batches import Batch
    from trainshed.data.loader.prefetch import Prefetched

    Tensors = dict[str, torch.Tensor]

# Batches whose step the device still has before it; it lacks no work long before that. Without an
# end the thread that trains, which waits for nothing, would fill the device's memory with batches.
MOST_STEPS_BEHIND = 8


class Mark(Protocol):
    """A point in what a device has to do."""

    def synchronize(self) -> None:
        """Wait until the device has come to it."""
        ...


class Streams(Protocol):
    """A device that copies and computes side by side."""

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor in memory that the device reads by itself; by any thread."""
        ...

    def copy(self, tensors: Tensors) -> tuple[Tensors, Mark]:
        """Begin to copy pinned tensors to the device; return them there, and the copy's end."""
        ...

    def compute_after(self, mark: Mark, tensors: Tensors) -> None:
        """Let what is computed from now on wait for a mark, and keep the tensors until it is."""
        ...

    def mark(self) -> Mark:
        """Return the end of what is computed up to now."""
        ...


class CudaStreams:
    """A CUDA device; what is computed is on the stream that is current in the thread that trains.

    Args:
        device: with its number.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._copying: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return it in pinned memory."""
        # In a thread of its own the current device is the first one, where it has no business.
        with torch.cuda.device(self._device):
            return tensor.pin_memory()

    def copy(self, tensors: Tensors) -> tuple[Tensors, torch.cuda.Event]:
        """Begin to copy on the stream beside."""
        copied: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._copying):
            there = {
                name: tensor.to(self._device, non_blocking=True) for name, tensor in tensors.items()
            }
            copied.record(self._copying)
        return there, copied

    def compute_after(self, mark: Mark, tensors: Tensors) -> None:
        """Let the current stream wait, and the allocator for it."""
        assert isinstance(mark, torch.cuda.Event)
        computing = torch.cuda.current_stream(self._device)
        computing.wait_event(mark)
        for tensor in tensors.values():
            # It is of the other stream's memory, which would be used anew once it is let go of.
            tensor.record_stream(computing)

    def mark(self) -> torch.cuda.Event:
        """Return the end of what the current stream has to do."""
        marked: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        marked.record(torch.cuda.current_stream(self._device))
        return marked


def streams_of(device: torch.device) -> Streams | None:
    """Return the streams of a device; None where nothing goes on side by side, as on a CPU."""
    return CudaStreams(device) if device.type == "cuda" else None


@dataclass(frozen=True)
class _Sent:
    """A batch on the device, and the end of its copy."""

    batch: Batch
    copied: Mark


class DevicePrefetcher:
    """Brings the batches of one worker to its device; all but `stage` by the thread that trains.

    Args:
        streams: of the device; None for the CPU, where batches stay as they are.
    """

    def __init__(self, streams: Streams | None) -> None:
        self._streams = streams
        self._behind: deque[Mark] = deque()

    def stage(self, batch: Batch) -> Batch:
        """Make a batch ready to be carried, ahead and in any thread."""
        streams = self._streams
        if streams is None:
            return batch
        pinned = {name: streams.pin(tensor) for name, tensor in batch.tensors.items()}
        return replace(batch, tensors=pinned)

    def carried(self, batches: Prefetched[Batch]) -> Generator[Batch, None, None]:
        """Yield staged batches on the device; the next one is on its way by then, if it is made."""
        try:
            if self._streams is None:
                yield from batches
            else:
                yield from self._one_ahead(batches, self._streams)
        finally:
            batches.close()

    def hold_back(self) -> None:
        """End a step: wait where the device is many of them behind."""
        if self._streams is None:
            return
        self._behind.append(self._streams.mark())
        if len(self._behind) > MOST_STEPS_BEHIND:
            self._behind.popleft().synchronize()

    def held_back(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches on the device, each a step of its own."""
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
            del batch  # its memory may be used again while the next one is waited for


def _send(batch: Batch, streams: Streams) -> _Sent:
    tensors, copied = streams.copy(batch.tensors)
    return _Sent(replace(batch, tensors=tensors), copied)
