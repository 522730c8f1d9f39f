"""The plan of a dataset: sources, transforms, cache and feed, decided before the start.

Pure: sizes and samples are measured elsewhere (preflight) and passed as arguments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainshed.data.sampler.auto_shuffle import choose_shuffle
from trainshed.data.sampler.function import (
    Function,
    are_grouped,
    function_of,
    most_asked,
    with_types,
)
from trainshed.data.sampler.permutation import ORDER, first_rows
from trainshed.data.sampler.sizes import NOTHING, Measured, Size, megabytes
from trainshed_api.data import LOCAL_BUFFER, ShuffleSpec, cache_problem
from trainshed_api.errors import Problem, SpecError
from trainshed_api.quantity import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trainshed.data.sampler.bad_records import Tell
    from trainshed.data.sampler.file_tables import Source
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sampler.sizes import CacheMemory
    from trainshed_api.v1alpha1 import DatasetSpec

Cache = Literal["none", "objects", "workers", "disk"]

# Share of a worker's memory, and of Ray's object store, for caches: the rest is for the model,
# batches in flight and the blocks that Ray Data holds between two operators.
WORKER_SHARE = 0.25
OBJECT_STORE_SHARE = 0.5
# Bytes of transformed rows to make at once, and minimum to deliver together (arrow_blocks.py joins
# them): with more a transform's arrays exceed what an allocator reuses.
BLOCK_BYTES = 8 * 2**20
# Assumed bytes of a row if only running a function tells.
ROW_BYTES = 4096.0
# Spacing of row ids if the number of rows before a fragment is unknown: more than any fragment has.
FRAGMENT_BITS = 32


@dataclass(frozen=True)
class OrderFingerprint:
    """What the order of a dataset's rows depended on when a checkpoint was written, and still does.

    Args:
        counts: rows of each block, if the files do not tell; else None.
        under_way: whether an epoch resumes in the middle, which other rows would break.
    """

    counts: tuple[int, ...] | None
    under_way: bool


@dataclass(frozen=True)
class DatasetPlan:
    """Everything that workers, the data server and explain need to know about a dataset.

    Args:
        name: as the training function requests it.
        spec: as the TrainingRun has it, but with the chosen shuffle, never mode `auto`.
        source: the files; None if a function makes the dataset.
        use: that function.
        transforms: in order.
        augments: in order.
        cache: where transformed rows are stored.
        reason: for this cache.
        num_bytes: size of all transformed rows, from the first ones alone; None if unknown.
        size: of all transformed rows, from rows at many positions; for groups of the rows that
            enter them; None if unknown.
        read_bytes: mean size of a row before the transforms, the largest of all samples.
        order: version of the order of rows: that of the checkpoint that the attempt resumes from.
        kept: from that checkpoint; None without one.
        parts: the datasets that it mixes; empty if it reads rows itself.
        weights: of each of them.
        changes_rows: whether transforms or skipped bad records change the number of rows.
        growth: rows that transforms make of one, from a sample; 1 if no more.
        row_seconds: of the transforms per row, from a sample.
        may_learn: whether training can start without it.
        bad_record_limit: maximum number of skipped bad rows; None if the first ends the run.
        tell: called with bad records; set by the reader.
        task_cpus: requested from Ray for each task that reads and transforms.
        task_memory: bytes requested for each task; None for none.
        shuffle_reason: for this shuffle; empty if the spec names it.
        num_sorted_labels: labels seen in a sample, if the rows are sorted by them; else 0.
        column_types: NumPy types of the fed columns, before `feed.dtypes`; empty if only running a
            function tells.
    """

    name: str
    spec: DatasetSpec
    source: Source | None
    use: Function | None
    transforms: tuple[Function, ...]
    augments: tuple[Function, ...]
    cache: Cache
    reason: str
    num_bytes: int | None
    size: Size | None
    read_bytes: float = 0.0
    order: int = ORDER
    kept: OrderFingerprint | None = None
    parts: tuple[DatasetPlan, ...] = ()
    weights: tuple[float, ...] = ()
    changes_rows: bool = False
    growth: float = 1.0
    row_seconds: float = 0.0
    may_learn: bool = False
    bad_record_limit: int | None = None
    tell: Tell | None = None
    task_cpus: int = 1
    task_memory: int | None = None
    shuffle_reason: str = ""
    num_sorted_labels: int = 0
    column_types: tuple[tuple[str, str], ...] = ()

    @property
    def field(self) -> str:
        """Return the spec's field of this dataset."""
        return f"spec.data.datasets.{self.name}"

    @property
    def rows(self) -> int | None:
        """Return the rows after the transforms; None if only reading or running tells."""
        if self.parts:
            rows = [part.rows for part in self.parts if part.rows is not None]
            return sum(rows) if len(rows) == len(self.parts) else None
        return self.source.rows if self.source and not self.changes_rows else None

    @property
    def likely_rows(self) -> int | None:
        """Return the estimated number of rows; None if only running a function tells."""
        if self.parts:
            rows = [part.likely_rows for part in self.parts if part.likely_rows is not None]
            return sum(rows) if len(rows) == len(self.parts) else None
        if self.source is None:
            return None
        return round(self.growth * self.source.about_rows)

    @property
    def epoch_rows(self) -> int | None:
        """Return the rows of an epoch; None if only running a function tells."""
        return self.spec.rows_per_epoch or self.rows

    @property
    def spans_epochs(self) -> bool:
        """Return whether an epoch begins where the previous one ended, not at a first row."""
        return bool(self.parts) or self.spec.rows_per_epoch is not None

    @property
    def has_row_counts(self) -> bool:
        """Return whether the files have row counts that no transform changes."""
        return self.source is not None and self.source.rows is not None and not self.changes_rows

    @property
    def is_found_after(self) -> bool:
        """Return whether rows are counted after the transforms, which may leave out some.

        A sample that keeps all rows proves nothing about the others. If rows are counted anyway
        this costs nothing.
        """
        return self.changes_rows or (not self.has_row_counts and bool(self.transforms))

    @property
    def may_be_others(self) -> bool:
        """Return whether unchanged files may give other rows than before.

        Transforms may have changed, and so may values that select rows.
        """
        chosen = self.source is not None and bool(self.source.scan.selection.asked)
        return self.is_found_after or chosen

    @property
    def counts_hold(self) -> bool:
        """Return whether the counts of a checkpoint must still hold.

        In the middle of an epoch they must; at its end rows may have changed.
        """
        return self.kept is not None and (self.kept.under_way or not self.may_be_others)

    @property
    def is_grouped(self) -> bool:
        """Return whether a function needs the rows of all fragments together."""
        return are_grouped(self.transforms)

    @property
    def is_made_whole(self) -> bool:
        """Return whether all rows are made at once, in separate blocks, and cached."""
        return self.use is not None or self.is_grouped

    @property
    def is_learned(self) -> bool:
        """Return whether the first pass counts the rows, with steps of unknown number."""
        streams = self.source is not None and not self.has_row_counts and not self.is_filled
        in_turn = self.spec.shuffle.mode != "global" and self.spec.rows_per_epoch is None
        return streams and in_turn and self.may_learn and self.spec.steps == "learned"

    @cached_property
    def counts(self) -> Indices:
        """Return the rows of each fragment if the files tell, shape (fragments,)."""
        assert self.source
        return self.source.fragments.rows.astype(np.int64)

    @cached_property
    def first_ids(self) -> Indices:
        """Return the id of each fragment's first row, for augmentation, shape (fragments,).

        The row's position in the dataset; if that is unknown, an id that depends on no count.
        """
        assert self.source
        if self.has_row_counts:
            return first_rows(self.counts)
        return np.arange(len(self.source.fragments), dtype=np.int64) << FRAGMENT_BITS

    @property
    def given_ids(self) -> Indices | None:
        """Return the id of each fragment's first row if that is not its position."""
        if self.source is None or self.has_row_counts or self.is_made_whole:
            return None
        return self.first_ids

    @cached_property
    def collate(self) -> Function | None:
        """Return the function of `feed.collate`; None for tensors by column."""
        named = self.spec.feed.collate
        return function_of(named, f"{self.field}.feed.collate") if named else None

    @property
    def row_bytes(self) -> float:
        """Return the mean size of a transformed row, as far as is known."""
        if self.parts:
            weighed = zip(self.weights, self.parts, strict=True)
            return sum(weight * part.row_bytes for weight, part in weighed) / sum(self.weights)
        rows = self.likely_rows
        return max(1.0, self.num_bytes / rows) if self.num_bytes and rows else ROW_BYTES

    @property
    def shuffle_buffer_rows(self) -> int:
        """Return the rows of the shuffle buffer, of all workers together; 0 for none."""
        mode, rows = self.spec.shuffle.mode, self.spec.shuffle.buffer_size
        if mode == "global" or (mode != "local" and rows == LOCAL_BUFFER):
            return 0  # shuffled already, or no shuffle
        return rows

    @property
    def block_rows(self) -> int:
        """Return the minimum of rows to deliver together: a power of 2; the order is unaffected."""
        return 1 << max(0, math.floor(math.log2(BLOCK_BYTES / self.row_bytes)))

    @property
    def chunk_rows(self) -> int:
        """Return the number of rows to read and transform at once, without effect on the order.

        Rows that are larger before the transforms, such as video frames, are read in smaller
        numbers, but at least as many as a transform requests.
        """
        rows = 1 << max(0, math.floor(math.log2(BLOCK_BYTES / max(1.0, self.read_bytes))))
        return min(self.block_rows, max(rows, most_asked(self.transforms)))

    @property
    def is_filled(self) -> bool:
        """Return whether Ray Data makes all rows before the first is used, which counts them.

        Workers keep the rows of their first epoch instead, if none can be missing then.
        """
        are_sure = self.has_row_counts and all(each.keeps_rows for each in self.transforms)
        return self.cache != "none" and not (self.cache == "workers" and are_sure)

    @property
    def is_found_in_memory(self) -> bool:
        """Return whether workers find an epoch's rows in memory; otherwise they are streamed."""
        in_objects = self.cache == "objects" and self.spec.shuffle.mode == "global"
        return in_objects or self.cache == "workers"

    @property
    def augments_in_worker(self) -> bool:
        """Return whether augmentation runs in the training worker, not where rows are read."""
        # If a dataset spans epochs, only the reader knows the epoch of a row.
        return self.is_found_in_memory and not self.spans_epochs


def main_dataset(plans: Mapping[str, DatasetPlan]) -> str | None:
    """Return the dataset whose batches are the steps: `train`, else the first unmixed one."""
    return main_of({name: [part.name for part in plan.parts] for name, plan in plans.items()})


def main_of(parts: Mapping[str, Iterable[str]]) -> str | None:
    """Return the same for datasets by name, each with the names of those that it mixes."""
    mixed = set(chain.from_iterable(parts.values()))
    first = next((name for name in parts if name not in mixed), None)
    return "train" if "train" in parts else first


def with_reporter(plan: DatasetPlan, tell: Tell) -> DatasetPlan:
    """Return the plan of a dataset and of its parts, whose readers report bad records."""
    return replace(plan, tell=tell, parts=tuple(with_reporter(part, tell) for part in plan.parts))


def plan_dataset(  # noqa: PLR0913, PLR0917 - what is known of a dataset from five sides
    name: str,
    spec: DatasetSpec,
    source: Source | None,
    measured: Measured | None,
    memory: CacheMemory,
    num_workers: int,
    *,
    is_mixed: bool = False,
    may_learn: bool = False,
    trains: bool = False,
    begun_with: ShuffleSpec | None = None,
) -> DatasetPlan:
    """Return the plan of one dataset.

    Args:
        name: the dataset's name.
        spec: its part of the TrainingRun.
        source: the files, or None for `read.use`.
        measured: results of a sample, or None for `read.use`.
        memory: memory for caches.
        num_workers: number of workers.
        is_mixed: whether it is a part of another dataset.
        may_learn: whether training can start without the number of rows.
        trains: whether its batches are the steps.
        begun_with: the shuffle of the run's earlier attempts.

    Raises:
        SpecError: if the requested cache cannot serve this dataset.
    """
    field = f"spec.data.datasets.{name}"
    skips_bad = spec.on_bad_record == "skip"
    sample = measured or Measured(ROW_BYTES, keeps_rows=True)
    rows = round(sample.growth * source.about_rows) if source else None
    transforms = transforms_of(spec, field)
    augments = tuple(
        function_of(augment, f"{field}.augment[{position}]")
        for position, augment in enumerate(spec.augment)
    )
    changes_rows = any(function.changes_rows for function in transforms)
    num_bytes = int(measured.row_bytes * rows) if rows and measured else None
    size = measured.size(rows) if rows and measured else None
    shuffle, why = spec.shuffle, ""
    if not trains:
        shuffle = _named(shuffle)
    elif shuffle.mode == "auto" and begun_with:
        shuffle, why = begun_with, "as the run began"
    elif shuffle.mode == "auto":
        shuffle, why = choose_shuffle(spec, measured, size)
    spec = spec.model_copy(update={"shuffle": shuffle})
    if problem := cache_problem(spec):  # of the mode that was chosen
        raise SpecError([replace(problem, field=f"{field}.{problem.field}")])
    if size is None or are_grouped(transforms):
        cache, reason = _whole_cache(spec, size, memory, field)
    else:
        cache, reason = _best_cache(spec, size, memory, num_workers, is_mixed=is_mixed)
    return DatasetPlan(
        name=name,
        spec=spec,
        source=source,
        use=_use(spec, field),
        transforms=with_types(transforms, sample.types),
        augments=with_types(augments, sample.augmented_types),
        cache=cache,
        reason=reason,
        num_bytes=num_bytes,
        size=size,
        read_bytes=sample.read_bytes,
        changes_rows=skips_bad or changes_rows or not sample.keeps_rows,
        growth=sample.growth,
        row_seconds=sample.row_seconds,
        shuffle_reason=why,
        num_sorted_labels=sample.num_sorted_labels,
        may_learn=may_learn and not is_mixed,
        bad_record_limit=spec.bad_record_limit if skips_bad else None,
        task_cpus=spec.task.cpus,
        task_memory=parse_bytes(spec.task.memory) if spec.task.memory else None,
        column_types=sample.columns,
    )


def plan_mix(name: str, spec: DatasetSpec, plans: Mapping[str, DatasetPlan]) -> DatasetPlan:
    """Return the plan of a dataset that mixes others.

    Args:
        name: the dataset's name.
        spec: its part of the TrainingRun.
        plans: of those others, by name.

    Raises:
        SpecError: if one of them has no rows.
    """
    assert spec.read.mix
    weights = dict(sorted(spec.read.mix.items()))  # independent of their order in the file
    parts = tuple(plans[part] for part in weights)
    problems = [
        Problem(f"spec.data.datasets.{name}.read.mix.{part.name}", "no rows", "a dataset with rows")
        for part in parts
        if part.rows == 0
    ]
    if problems:
        raise SpecError(problems)
    return DatasetPlan(
        name=name,
        spec=spec.model_copy(update={"shuffle": _named(spec.shuffle)}),
        source=None,
        use=None,
        transforms=(),
        augments=(),
        cache="none",
        reason="each part of a mix has its own cache",
        num_bytes=None,
        size=_mixed_size(parts, tuple(weights.values()), spec.rows_per_epoch),
        parts=parts,
        weights=tuple(weights.values()),
        task_cpus=max(part.task_cpus for part in parts),
        task_memory=max((part.task_memory or 0 for part in parts), default=0) or None,
    )


def _mixed_size(
    parts: Sequence[DatasetPlan], weights: Sequence[float], rows_per_epoch: int | None
) -> Size | None:
    """Return the size of an epoch's rows; None if only running a function tells."""
    known = [
        (part.size, part.likely_rows)
        for part in parts
        if part.size and part.likely_rows and not part.is_grouped
    ]
    if len(known) < len(parts):
        return None
    rows = rows_per_epoch or sum(there for _, there in known)
    shares = (
        size.part(rows * weight / sum(weights) / there)
        for (size, there), weight in zip(known, weights, strict=True)
    )
    return sum(shares, NOTHING)


def _named(shuffle: ShuffleSpec) -> ShuffleSpec:
    """Return the shuffle of a dataset for which none is chosen: `auto` is the order of files."""
    return shuffle.model_copy(update={"mode": "none"}) if shuffle.mode == "auto" else shuffle


def _use(spec: DatasetSpec, field: str) -> Function | None:
    options = tuple(sorted(spec.read.options.items()))
    if spec.read.reader is not None:
        return Function(f"ray.data:{spec.read.reader}", f"{field}.read.reader", options=options)
    return Function(spec.read.use, f"{field}.read.use", options=options) if spec.read.use else None


def transforms_of(spec: DatasetSpec, field: str) -> tuple[Function, ...]:
    """Return the transforms of a dataset, in order; field: the dataset's."""
    return tuple(
        function_of(transform, f"{field}.transforms[{position}]")
        for position, transform in enumerate(spec.transforms)
    )


def _whole_cache(
    spec: DatasetSpec, size: Size | None, memory: CacheMemory, field: str
) -> tuple[Cache, str]:
    """Return the cache of rows that are made once: they cannot be read again."""
    if spec.cache == "none":
        expected = "a cache: a function's dataset is run once and kept"
        raise SpecError([Problem(f"{field}.cache", "none", expected)])
    if spec.cache != "auto":
        return spec.cache, "requested"
    if size is None:
        is_named = spec.read.use or spec.read.reader
        made = "a function's dataset is" if is_named else "groups are"
        why = "only making it tells whether it fits in the object store; cache: disk needs none"
        return "objects", f"{made} made once, and {why}"
    groups = "groups are made once, and"
    if why := _why_not_stored(spec, size, memory):
        return "disk", f"{groups} of rows that go into them {why}"
    return "objects", f"{groups} {size.say()} go into them, which the object store holds"


def _best_cache(
    spec: DatasetSpec, size: Size, memory: CacheMemory, num_workers: int, *, is_mixed: bool
) -> tuple[Cache, str]:
    if spec.cache != "auto":
        return spec.cache, "requested"
    mode = spec.shuffle.mode
    share = size if mode == "global" or not spec.split else size.part(1 / num_workers)
    fits = share.most <= WORKER_SHARE * memory.worker
    stays = mode in ("none", "local") and spec.rows_per_epoch is None and not is_mixed
    # Every cache is filled through the object store of the data's nodes.
    stored = size.most <= OBJECT_STORE_SHARE * memory.object_store
    if fits and stays and stored:
        return "workers", f"{share.say()} per worker fit in its memory"
    if why := _why_not_stored(spec, size, memory):
        return "none", why
    return "objects", f"{size.say()} fit in the object store"


def _why_not_stored(spec: DatasetSpec, size: Size, memory: CacheMemory) -> str:
    """Return why the object stores cannot hold all rows; empty if they can."""
    if size.most > OBJECT_STORE_SHARE * memory.object_store:
        return f"{size.say()} do not fit in the object store of the data's nodes"
    if spec.shuffle.mode == "global" and size.most > OBJECT_STORE_SHARE * memory.node_store:
        there = megabytes(memory.node_store) if memory.node_store else "not known yet"
        where = f"the object store of each node with workers ({there})"
        return f"{size.say()} do not fit in {where}, where a global shuffle needs all rows"
    return ""
