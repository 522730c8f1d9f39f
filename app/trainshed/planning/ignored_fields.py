"""Which fields of a spec a function does not obey that makes its own loop or its own batches. Pure.

`ray.train.get_dataset_shard` gives rows that are read, transformed, cached, shuffled, split and
augmented as the spec says. What comes after that is up to the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

    from trainshed_api.v1alpha1 import TrainingRunSpec

# Obeyed by trainshed.current(): epochs(), autocast(), track(), and the checkpoints that it writes.
LOOP_FIELDS = ("epochs", "precision", "sync_batch_norm")
CHECKPOINT_FIELDS = ("every_epochs", "every_steps")
# Obeyed by trainshed.current().batches().
BATCH_FIELDS = ("batch_size", "accumulate", "profile")


@dataclass(frozen=True)
class _IgnoredFields:
    """Paths of fields that were set, by what would obey them.

    Args:
        loop: `trainshed.current()`.
        batches: `trainshed.current().batches()`.
        data: that, and `ray.train.get_dataset_shard()`.
    """

    loop: tuple[str, ...]
    batches: tuple[str, ...]
    data: tuple[str, ...]


def _find_unheeded(spec: TrainingRunSpec) -> _IgnoredFields:
    """Return the fields that were set and need `trainshed.current()` to act."""
    feeds = (
        path
        for name, dataset in spec.data.datasets.items()
        for path in _set_paths(dataset.feed, f"spec.data.datasets.{name}.feed")
    )
    # TensorFloat32 is set for the whole process, whoever makes the loop.
    acts_anywhere = "precision" if spec.precision == "tensorfloat32" else None
    loop_fields = tuple(name for name in LOOP_FIELDS if name != acts_anywhere)
    return _IgnoredFields(
        loop=(
            *_set_paths(spec, "spec", loop_fields),
            *_set_paths(spec.checkpoint, "spec.checkpoint", CHECKPOINT_FIELDS),
        ),
        batches=(*_set_paths(spec, "spec", BATCH_FIELDS), *feeds),
        data=("spec.data.datasets",) if spec.data.datasets else (),
    )


def warning_for_shards(spec: TrainingRunSpec, asked_for_run: bool) -> str | None:
    """Return what to say to a function that takes shards; None when it obeys all that was set.

    Args:
        spec: of the run.
        asked_for_run: whether it has called `trainshed.current()`.
    """
    unheeded = _find_unheeded(spec)
    fields = (*([] if asked_for_run else unheeded.loop), *unheeded.batches)
    if not fields:
        return None
    return (
        "the training function makes its own batches of ray.train.get_dataset_shard(): "
        f"{', '.join(fields)} are ignored. Use trainshed.current() to apply them"
    )


def warning_for_loops(spec: TrainingRunSpec, asked_for_run: bool) -> str | None:
    """Return what to say to a function that took no rows; None when it obeys all that was set.

    Args:
        spec: of the run.
        asked_for_run: whether it has called `trainshed.current()`.
    """
    unheeded = _find_unheeded(spec)
    fields = (*([] if asked_for_run else unheeded.loop), *unheeded.batches, *unheeded.data)
    if not fields:
        return None
    named = ", ".join(fields)
    if asked_for_run:
        return (
            "the training function took no rows from trainshed.current() or "
            f"ray.train.get_dataset_shard(): {named} had no effect"
        )
    return (
        "the training function called neither trainshed.current() nor "
        f"ray.train.get_dataset_shard(): {named} had no effect"
    )


def _set_paths(model: BaseModel, prefix: str, names: tuple[str, ...] | None = None) -> list[str]:
    fields = type(model).model_fields
    return [
        f"{prefix}.{fields[name].alias or name}"
        for name in names or tuple(fields)
        if name in model.model_fields_set
    ]
