"""The current step: its parts, the weights of their losses, and the step of the model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from trainshed.data.sampler.batch_layout import part_spans
from trainshed.worker.device_reads import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.loader.batches import Batch
    from trainshed.worker.device_reads import Fetched
    from trainshed.worker.step_sync import Control


def parts_of(batch: Batch, most: int, world_size: int) -> Iterator[Batch]:
    """Yield a batch in parts, as far as every rank has a row for each; views of tensors.

    A collated batch is made from each part separately.
    """
    for number, (start, stop) in enumerate(part_spans(batch.rows, batch.total, most, world_size)):
        rows, nests = min(stop - start, batch.rows), batch.nests[number : number + 1]
        if nests:
            tensors = {name: batch.tensors[name] for name in nests[0].names}
        else:
            tensors = {name: tensor[start:stop] for name, tensor in batch.tensors.items()}
        yield replace(batch, tensors=tensors, rows=rows, nests=nests)


@dataclass
class Step:
    """The work of a training function between two batches, or parts of one.

    Args:
        world_size: number of workers.
        accumulate: maximum number of parts of a batch.
    """

    world_size: int
    accumulate: int = 1
    is_under_way: bool = False
    is_last_part: bool = True
    # Counts started steps, so that an iterator can recognize its own.
    number: int = 0
    _rows: int | None = None
    # Rows of the step over all ranks.
    total: int = 0
    _is_weighted: bool = False
    # Number of parts that have begun.
    _num_parts: int = 0
    # Whether an optimizer has stepped since the part began, also by the function itself.
    has_stepped: bool = False
    # Weights of the step's parts so far; None for a loss that is a mean over rows.
    # By the name of their optimizer.
    _weights: dict[str, list[Fetched | None]] = field(default_factory=dict)

    def begin(self, part: Batch, *, counts: bool, is_last: bool) -> None:
        """Begin a part of a batch; counts: of one of the run's steps.

        A batch of another dataset beside a step of the run is a part of that step.
        """
        if self.is_under_way and not counts:
            return
        self._rows, self.total = part.rows, part.total
        self.has_stepped = False
        self.number += 1
        self._num_parts = 1 if self.is_last_part else self._num_parts + 1
        self._is_weighted, self.is_last_part = False, is_last
        self.is_under_way = counts

    def end(self, *, counts: bool) -> None:
        """End it."""
        if counts:
            self.is_under_way = False

    def leave(self) -> None:
        """End a step of the run before its last part: finished parts are forgotten."""
        self.end(counts=True)
        self.is_last_part = True
        self._weights.clear()

    @property
    def is_in_weights(self) -> bool:
        """Return whether the weights include the current step."""
        is_done = self.has_stepped or (self._is_weighted and self.is_last_part)
        return self.is_under_way and is_done

    def weigh(
        self, loss: torch.Tensor, weight: torch.Tensor | None = None, name: str = "optimizer"
    ) -> torch.Tensor:
        """Return the loss for backward.

        Without a weight, the mean over ranks of the gradients is the mean over rows. With one, the
        gradients must still be multiplied by `gradient_scale`.

        Args:
            loss: mean over the part's rows; with `weight`, over what that counts.
            weight: number of tokens or pixels that the loss is a mean over, from `as_weight`.
            name: of the optimizer that the loss is for.

        Raises:
            ValueError: if only some parts of the step have a weight.
        """
        self._is_weighted = True
        weights = self._weights.setdefault(name, [])
        if weights and (weights[0] is None) != (weight is None):
            raise ValueError(
                "backward_step: got a weight for some parts of a step only; expected one for each "
                "part or for none. Pass weight=0 for a part without tokens."
            )
        if weight is not None:
            if self._rows == 0:  # a repeated row of another rank, which counts there
                weight = torch.zeros_like(weight)
            # The device copies the weight before backward, so nothing waits for it.
            weights.append(fetch(weight.reshape(1)))
            return loss * weight
        weights.append(None)
        if self._rows is None or self._rows * self.world_size == self.total:
            return loss
        return loss * (self._rows * self.world_size / self.total)

    def gradient_scale(self, control: Control, name: str = "optimizer") -> float | None:
        """Return the missing factor of the step's gradients; None if no weight counts.

        A collective of all ranks if the parts have weights.

        Raises:
            ValueError: for a weight that is negative, NaN or infinite.
            RuntimeError: when an earlier part of the step had no loss of this name.
        """
        parts = self._weights.pop(name, [])
        if len(parts) < self._num_parts:
            raise self._lacking([name])
        weights = [weight.values()[0] for weight in parts if weight is not None]
        if not weights:
            return 1.0
        for weight in weights:
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(
                    f"backward_step: got weight={weight}; expected a finite number of at least 0. "
                    "Pass the number of tokens that the loss is a mean over."
                )
        # total has shape (1,)
        total = torch.tensor([sum(weights)], dtype=torch.float64)
        control.sum(total)
        # Wrappers such as DDP divide gradients by the number of ranks.
        return self.world_size / float(total) if float(total) else None

    def check_last_part(self) -> None:
        """Refuse a step of an optimizer before the last part: its gradients are this rank's alone.

        Raises:
            RuntimeError: naming what makes one step of all parts.
        """
        if self.is_under_way and not self.is_last_part:
            raise self._unweighted()

    def check_weights(self) -> None:
        """Refuse a part that would count some rows more than others.

        Raises:
            RuntimeError: if its loss was not weighted, and it is one of several parts of its batch,
                or ranks have different numbers of rows; also if an optimizer had losses in earlier
                parts only.
        """
        if self.is_last_part and self._weights:
            raise self._lacking(list(self._weights))
        if self._is_weighted:
            return
        if self.accumulate > 1:
            raise self._unweighted()
        if self.total % self.world_size:
            raise RuntimeError(
                f"spec.batchSize: {self.total} rows do not split evenly over {self.world_size} "
                "workers; use backward_step, which weighs them, or an even batch size"
            )

    def _unweighted(self) -> RuntimeError:
        return RuntimeError(
            f"spec.accumulate: {self.accumulate} parts of a step need backward_step, which "
            "makes one step of them; use it, or leave accumulate out"
        )

    def _lacking(self, names: Sequence[str]) -> RuntimeError:
        return RuntimeError(
            f"spec.accumulate: got losses for {', '.join(names)} in some parts of a step; expected "
            "one for each part or for none. Call backward_step for the same optimizers in all "
            "parts, or leave accumulate out."
        )


def as_weight(weight: float | torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
    """Return a weight as a tensor of shape () on the loss's device, exact for token counts.

    Raises:
        ValueError: for a value that is not a single number.
    """
    dtype = torch.promote_types(loss.dtype, torch.float32)
    if not isinstance(weight, torch.Tensor):
        return torch.full((), float(weight), dtype=dtype, device=loss.device)
    if weight.numel() != 1:
        raise ValueError(
            f"backward_step: got a weight of shape {tuple(weight.shape)}; expected a single "
            "number. Pass the number of tokens, such as mask.sum()."
        )
    return weight.detach().reshape(()).to(loss.device, dtype)
