"""The file of a checkpoint that holds the model: each framework's own, which its own tools read.

Light on purpose: Ray Train's controller imports it, and torch would cost it two seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainshed.checkpoint.manifest import TrackedObject


@dataclass(frozen=True)
class ModelFile:
    """How a model lies in a checkpoint.

    Args:
        name: of the file.
        save: writes what `CheckpointAdapter.weights` gave.
        load: reads it again; runs nothing that the file holds.
    """

    name: str
    save: Callable[[object, BinaryIO], None]
    load: Callable[[BinaryIO], object]


class CheckpointAdapter(Protocol):
    """What of a run must survive, as its framework has it."""

    @property
    def model_file(self) -> ModelFile:
        """Return how the model is written."""
        ...

    def objects(self) -> dict[str, TrackedObject]:
        """Return what `weights` and `state` hold, by name, for the manifest."""
        ...

    def weights(self) -> object:
        """Return the model for its file; tensors are copied, all else must stay as it is."""
        ...

    def state(self) -> dict[str, object]:
        """Return what else must survive: tensors and plain values."""
        ...

    def help_gather(self) -> None:
        """Take part where rank 0 calls `weights` and `state`, on each other rank."""
        ...

    def load(self, model: object, state: Mapping[str, object]) -> None:
        """Take both over again; called on all ranks."""
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


# A plain state_dict, which torch.load(weights_only=True) reads.
TORCH = ModelFile("model.pt", _save_tensors, _load_tensors)
# XGBoost's UBJSON, which xgboost.Booster.load_model reads.
XGBOOST = ModelFile("model.ubj", _save_bytes, _load_bytes)
# A whole Keras model with its optimizer, which keras.models.load_model reads.
KERAS = ModelFile("model.keras", _save_bytes, _load_bytes)

NAMES = frozenset(known.name for known in (TORCH, XGBOOST, KERAS))
