"""Labels that are no class, found where they reach the model."""

from dataclasses import dataclass

import torch
from torch import Tensor

# Reading a number back from a GPU waits for all that was asked of it before, so
# there the labels are judged on the device and the verdict is read now and then.
LOOK_EVERY_CHECKS = 50


@dataclass
class LabelGuard:
    """Checks that the labels of one dataset are within 0..classes-1.

    On the CPU every batch is judged at once. On a GPU a wrong label is found at
    most `LOOK_EVERY_CHECKS` batches later, or by `finish`; until then it is
    clamped, because a loss that indexes out of range would poison the device.
    """

    dataset: str
    column: str
    classes: int
    _checks: int = 0
    _first: Tensor | None = None  # (3,): is there one, its value, its step

    def check(self, labels: Tensor, step: int) -> Tensor:
        """Return `labels` (B,) as int64 that a loss may index with.

        Raises:
            ValueError: naming the column, the label and the step.
        """
        if labels.ndim != 1 or labels.is_floating_point() or labels.is_complex():
            raise ValueError(
                f'dataset "{self.dataset}", column "{self.column}": labels must be one whole '
                f"number a row, got {labels.dtype} of shape {tuple(labels.shape)}"
            )
        labels = labels.long()
        if labels.numel() == 0:
            return labels
        wrong = (labels < 0) | (labels >= self.classes)
        if labels.device.type == "cpu":
            if bool(wrong.any()):
                self._complain(int(labels[wrong][0]), step)
            return labels
        self._note(labels, wrong, step)
        return labels.clamp(0, self.classes - 1)

    def finish(self) -> None:
        """Raise for a wrong label that was noted on the device and not yet read."""
        if self._first is not None:
            found, value, step = self._first.tolist()
            if found:
                self._complain(value, step)

    def _note(self, labels: Tensor, wrong: Tensor, step: int) -> None:
        value = labels.gather(0, wrong.int().argmax(dim=0, keepdim=True))
        now = torch.cat([wrong.any().long().view(1), value, torch.full_like(value, step)])
        self._first = (
            now if self._first is None else torch.where(self._first[0] > 0, self._first, now)
        )
        self._checks += 1
        if self._checks % LOOK_EVERY_CHECKS == 0:
            self.finish()

    def _complain(self, value: int, step: int) -> None:
        raise ValueError(
            f'dataset "{self.dataset}", column "{self.column}": label {value} at step {step} is '
            f"no class; with spec.config.classes {self.classes} labels go from 0 to "
            f"{self.classes - 1}"
        )
