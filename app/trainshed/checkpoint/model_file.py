"""The model's file in a checkpoint, in the format of each framework.

Must stay light: Ray Train's controller imports it, and importing torch takes two seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainshed.checkpoint.manifest import TrackedObject


@dataclass(frozen=True)
class ModelFile:
    """The file format of a framework's models.

    Args:
        name: of the file of a model that was passed without a name.
        save: writes one of the models that `CheckpointAdapter.weights` returned.
        load: reads it; runs no code from the file.
    """

    name: str
    save: Callable[[object, BinaryIO], None]
    load: Callable[[BinaryIO], object]

    def file_of(self, model: str) -> str:
        """Return the file of a tracked model."""
        return model + PurePath(self.name).suffix

    def reads(self, file: str) -> bool:
        """Say whether a model's file is of this kind."""
        return PurePath(file).suffix == PurePath(self.name).suffix


class CheckpointAdapter(Protocol):
    """The state of a run that checkpoints save, for one framework."""

    @property
    def model_file(self) -> ModelFile:
        """Return the file format of models."""
        ...

    def objects(self) -> dict[str, TrackedObject]:
        """Return the objects in `weights` and `state`, by name, for the manifest."""
        ...

    def weights(self) -> Mapping[str, object]:
        """Return the models by name; tensors are copied, everything else must not change."""
        ...

    def state(self) -> dict[str, object]:
        """Return the other state to save, by name: tensors and plain values."""
        ...

    def help_gather(self) -> None:
        """Join the gathering while rank 0 calls `weights` and `state`; for the other ranks."""
        ...

    def load(self, saved: Mapping[str, object]) -> None:
        """Load both, in one mapping by name; called on all ranks."""
        ...


def _save_tensors(content: object, file: BinaryIO) -> None:
    import torch

    torch.save(content, file)


def _load_tensors(file: BinaryIO) -> object:
    import torch

    from trainshed.checkpoint import trust

    with trust.plain_values():
        return torch.load(file, map_location="cpu", weights_only=True)


def _save_bytes(content: object, file: BinaryIO) -> None:
    assert isinstance(content, bytes)
    file.write(content)


def _load_bytes(file: BinaryIO) -> bytes:
    return file.read()


# A plain state_dict for torch.load(weights_only=True).
TORCH = ModelFile("model.pt", _save_tensors, _load_tensors)
# XGBoost's UBJSON for xgboost.Booster.load_model.
XGBOOST = ModelFile("model.ubj", _save_bytes, _load_bytes)
# A whole Keras model with its optimizer for keras.models.load_model.
KERAS = ModelFile("model.keras", _save_bytes, _load_bytes)

NAMES = frozenset(known.name for known in (TORCH, XGBOOST, KERAS))
