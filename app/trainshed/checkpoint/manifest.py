"""The manifest of a checkpoint: the position of training, the content, and what prediction
needs. Pure: store.py reads and writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, JsonValue

from trainshed.data.sampler.description import Described
from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Format 1 lacks `objects` and the fields below it; the keys of state.pt name its objects.
FORMAT = 2
# The name of a model that was passed without one.
MODEL = "model"


class Position(Record):
    """The position of training: finished epochs, steps of the current one, and steps in all."""

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0


class DatasetPosition(Record):
    """The position in one dataset: the current pass, and its finished steps.

    `spans_epochs` is true for a pass that continues when the run's epoch ends. `before_step` is the
    number of batches that the training function reads before the step's own batch.
    """

    epoch: int
    step_in_epoch: int
    spans_epochs: bool = False
    before_step: int = 0


class StoredFile(Record):
    """The size and checksum that a file of a checkpoint must have."""

    bytes: int
    crc32: int


class TrackedObject(Record):
    """An object with state in the checkpoint, and the files that hold it.

    `kind` is model, optimizer, scheduler, scaler or other. A file may hold several objects, and
    an object may be split over several files.
    """

    kind: str
    files: tuple[str, ...]


def match_objects(
    held: Mapping[str, TrackedObject],
    tracked: Mapping[str, TrackedObject],
    allowed: Collection[str],
    source: str,
) -> dict[str, str]:
    """Return each tracked object's name in a checkpoint; without those that it lacks.

    A checkpoint whose objects differ from the tracked ones is refused. A missing object would start
    fresh, and a renamed one would lose its state. A function that tracks no optimizer may load the
    models of a run that had one.

    Args:
        held: the objects of the checkpoint.
        tracked: the objects of the function.
        allowed: names that may differ; a model's name includes its optimizer and scheduler.
        source: location of the checkpoint.

    Raises:
        SpecError: with the names that only one side has.
    """
    names = {name: name for name in tracked if name in held} | _earlier_names(held, tracked)
    trains = any(each.kind == "optimizer" for each in tracked.values())
    # The scaler belongs to the run, and a function that does not train needs no optimizer state.
    may_differ = set(allowed)
    unused = {"scaler"} if trains else {"scaler", "optimizer", "scheduler"}

    def only_in(these: Mapping[str, TrackedObject], those: Collection[str]) -> list[str]:
        return sorted(
            name
            for name, each in these.items()
            if each.kind not in unused
            and name not in those
            and may_differ.isdisjoint((name, name.partition(".")[0]))
        )

    missing, left = only_in(tracked, names), only_in(held, set(names.values()))
    if not missing and not left:
        return names
    lacks = f"lacks {', '.join(missing)}" if missing else ""
    holds = f"also holds {', '.join(left)}, which run.track does not name" if left else ""
    raise SpecError(
        [
            Problem(
                "spec.checkpoint.allowMissing",
                f"{show_value(sorted(may_differ))}, but {source} "
                f"{' and '.join(filter(None, (lacks, holds)))}",
                "the names that were tracked when it was written; or list a name in "
                "allowMissing to start it fresh, or to drop what the checkpoint holds of it",
            )
        ]
    )


def _earlier_names(
    held: Mapping[str, TrackedObject], tracked: Mapping[str, TrackedObject]
) -> dict[str, str]:
    """Return the names in a checkpoint of objects that were tracked without their model's name.

    The first model takes the objects of the model that was passed by position. An optimizer that
    had a separate keyword is taken if it is the only one that is left.
    """
    found: dict[str, str] = {}
    first = next((name for name, each in tracked.items() if each.kind == "model"), MODEL)
    if MODEL in held and MODEL not in tracked and first not in held:
        renamed = {first: MODEL} | {f"{first}.{part}": part for part in ("optimizer", "scheduler")}
        found = {
            name: earlier
            for name, earlier in renamed.items()
            if name in tracked and earlier in held and earlier not in tracked
        }
    for kind in ("optimizer", "scheduler"):
        lacking = [
            name
            for name, each in tracked.items()
            if each.kind == kind and name not in held.keys() | found.keys()
        ]
        left = [
            name
            for name, each in held.items()
            if each.kind == kind and name not in {*tracked, *found.values()}
        ]
        # The names of several do not say which model each belongs to.
        if len(lacking) == len(left) == 1 and lacking[0].removesuffix(f".{kind}") in held:
            found[lacking[0]] = left[0]
    return found


class Prediction(Record):
    """What a program needs to predict with a checkpoint's model, as far as it is known.

    `classes` are the names of the labels by number, `features` the columns that the model reads in
    their order, `config` the arguments of `builder`. `builder`, `input_transform` and `predict` are
    functions, as `module:name`. `dataset` is how rows were read: format and transforms as in a
    spec, without the files. `state` is what training found in its rows.
    """

    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    builder: str | None = None
    input_transform: str | None = None
    predict: str | None = None
    config: dict[str, JsonValue] = Field(default_factory=dict)
    dataset: dict[str, JsonValue] = Field(default_factory=dict)
    state: dict[str, JsonValue] = Field(default_factory=dict)


class Manifest(Record):
    """The manifest of a checkpoint.

    `workers` is the number of ranks whose random state it has, `metrics` the last known ones,
    `scored` the metrics of these very weights, `data` what the order of rows depends on (None from
    earlier releases), and `order` the version of that order.

    `objects` has every tracked object by name; None in format 1. By dataset, `positions` has the
    position, `shuffle` the mode of the shuffle, `buffer_rows` the rows of its buffer (empty from
    earlier releases), and `columns` the NumPy type of each column.
    """

    format: int = FORMAT
    order: int = 1
    position: Position
    workers: int
    spec_hash: str
    attempt: int
    metrics: dict[str, float]
    scored: frozenset[str] | None = None
    data: dict[str, Described] | None = None
    files: dict[str, StoredFile] = Field(default_factory=dict)
    objects: dict[str, TrackedObject] | None = None
    positions: dict[str, DatasetPosition] = Field(default_factory=dict)
    shuffle: dict[str, str] = Field(default_factory=dict)
    buffer_rows: dict[str, int] = Field(default_factory=dict)
    columns: dict[str, dict[str, str]] = Field(default_factory=dict)
    prediction: Prediction = Prediction()

    def own_metrics(self) -> dict[str, float]:
        """Return the metrics of these very weights, if they are known."""
        if self.scored is None:
            return self.metrics
        return {name: value for name, value in self.metrics.items() if name in self.scored}
