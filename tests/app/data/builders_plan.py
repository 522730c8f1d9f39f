"""The only place where datasets, plans and passes of these tests are born."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from trainshed.data.loader.row_counts import Known
from trainshed.data.loader.row_sources import LocalSource
from trainshed.data.sampler.dataset_plan import DatasetPlan, plan_dataset, plan_mix
from trainshed.data.sampler.epoch_pass import EpochPass, Kind, is_mixed, order_of, steps_for
from trainshed.data.sampler.first_pass import begin_of, is_complete, order_of_fragments
from trainshed.data.sampler.permutation import EpochPermutation, Indices, RowRange
from trainshed.data.sampler.sizes import CacheMemory, Measured, WorkerNode
from trainshed.data.sources.apply_functions import transform
from trainshed.data.sources.column_arrays import Columns, cut_rows, join, num_rows, take_rows
from trainshed.data.sources.dataset_files import open_source
from trainshed.data.sources.fragment_reader import (
    Choice,
    Part,
    augmented,
    count_rows,
    everything,
    parts,
    read_parts,
    read_rows,
    read_whole,
    reading,
)
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed_api.data import DatasetSpec

FUNCTIONS = "tests.app.data.sample_functions"
ROOM = CacheMemory(2**30, 2**30, nodes=(WorkerNode(2, 2**31, 2**30),))


# Half of the rows, then some of each user's, then once more of these.
GROUPS: list[JsonValue] = [
    {"use": f"{FUNCTIONS}:odd_rows", "kind": "batches"},
    {"use": f"{FUNCTIONS}:with_users"},
    {"use": f"{FUNCTIONS}:crumbled", "kind": "groups", "by": ["user"], "orderBy": ["when"]},
    {"use": f"{FUNCTIONS}:doubled", "options": {"column": "when"}},
    {"use": f"{FUNCTIONS}:listed", "kind": "groups", "by": ["user"]},
]


def shuffles(buffer_size: int) -> dict[str, JsonValue]:
    """Return every way to mix rows, by a name."""
    return {
        "none": {"mode": "none"},
        "files": {"mode": "files"},
        "blocks": {"mode": "blocks"},
        "local": {"mode": "local", "bufferSize": buffer_size},
        "files and a buffer": {"mode": "files", "bufferSize": buffer_size},
        "blocks and a buffer": {"mode": "blocks", "bufferSize": buffer_size},
        "global": {"mode": "global"},
    }


def write_rows(
    folder: Path, groups: Sequence[Sequence[int]], width: int = 3, first: int = 0
) -> Path:
    """Write a file for each entry, with row groups of the sizes it says; ids count on from `first`.

    Columns: id (rows,), x (rows, width) with id + column / 10.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, sizes in enumerate(groups):
        with pq.ParquetWriter(
            folder / f"part-{number:03}.parquet", _table(0, 0, width).schema
        ) as w:
            for rows in sizes:
                w.write_table(_table(first, rows, width), row_group_size=max(1, rows))
                first += rows
    return folder


def _table(first: int, rows: int, width: int) -> pa.Table:
    ids = np.arange(first, first + rows, dtype=np.int64)
    x = (ids[:, None] + np.arange(width) / 10).astype(np.float32)
    return pa.table(
        {"id": ids, "x": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), width)}
    )


def make_plan(
    folder: Path | None,
    *,
    row_bytes: float = 20.0,
    keeps_rows: bool = True,
    num_workers: int = 2,
    may_learn: bool = False,
    at: Folder | None = None,
    read: dict[str, JsonValue] | None = None,
    **fields: JsonValue,
) -> DatasetPlan:
    """Return the plan of the dataset `train`; `fields` are those of the spec.

    at: where the files lie, if not in a folder of this machine.
    """
    at = at or (Disk(folder) if folder else None)
    read = {**({"format": "parquet", "path": str(at)} if at else {}), **(read or {})}
    spec = DatasetSpec.model_validate({"read": read, **fields})
    field = "spec.data.datasets.train.read"
    skips_bad = spec.on_bad_record == "skip"
    source = open_source(at, spec.read, field, skips_bad=skips_bad) if at else None
    measured = Measured(row_bytes, keeps_rows) if source else None
    return plan_dataset(
        "train",
        spec,
        source,
        measured,
        ROOM,
        num_workers,
        may_learn=may_learn,
    )


def with_fields(plan: DatasetPlan, **fields: object) -> DatasetPlan:
    """Return the plan with other fields of the spec."""
    return replace(plan, spec=plan.spec.model_copy(update=fields))


def make_mix(parts: Mapping[str, tuple[DatasetPlan, float]], **fields: JsonValue) -> DatasetPlan:
    """Return the plan of the dataset `train` that mixes others; `fields` are those of the spec."""
    plans = {name: replace(plan, name=name) for name, (plan, _) in parts.items()}
    weights: JsonValue = {name: weight for name, (_, weight) in parts.items()}
    spec = DatasetSpec.model_validate({"read": {"mix": weights}, **fields})
    return plan_mix("train", spec, plans)


def make_pass(
    kind: Kind = "train",
    *,
    epoch: int = 0,
    first_step: int = 0,
    world_size: int = 2,
    batch_size: int = 8,
    seed: int = 0,
    group: int = 0,
    epochs: int | None = None,
) -> EpochPass:
    """Return a pass over the dataset `train`."""
    return EpochPass("train", kind, epoch, first_step, world_size, batch_size, seed, group, epochs)


def grouped_rows(plan: DatasetPlan) -> Columns:
    """Return all rows of files after the transforms, which are run over all of them at once."""
    assert plan.source
    how = replace(reading(plan), transforms=())
    read = join([read_whole(how, fragment) for fragment in plan.source.fragments])
    return transform(read, plan.transforms)


def counted(plan: DatasetPlan) -> Indices:
    """Return the rows of each fragment after the transforms, shape (fragments,)."""
    if plan.has_row_counts:
        return plan.counts
    assert plan.source
    how = reading(plan)
    return np.asarray([count_rows(how, each) for each in plan.source.fragments], dtype=np.int64)


def cut_parts(wanted: Sequence[Part], rows: int) -> list[Part]:
    """Return the same rows in parts of at most so many, cut at their multiples in a fragment."""
    return [
        replace(
            part,
            start=start,
            stop=min(part.stop, start - start % rows + rows),
            place=part.place + start - part.start,
            is_last=part.is_last and part.stop <= start - start % rows + rows,
        )
        for part in wanted
        for start in (part.start, *range(part.start - part.start % rows + rows, part.stop, rows))
    ]


class UncountedMemory:
    """What the feeder would send of rows that nobody has counted, in tables of odd sizes.

    Args:
        plan: of the dataset.
        known: (fragments,) what the feeder knows of them; it grows as a rank tells.
        table_rows: most rows of a table.
    """

    def __init__(self, plan: DatasetPlan, known: Indices, table_rows: int = 7) -> None:
        self._plan = plan
        self.told = known
        self._table_rows = table_rows
        self.read: list[int] = []

    def known(self, at: EpochPass) -> Known:
        """Return what is known of the rows."""
        del at
        return Known(self.told.copy(), is_complete(self.told))

    def learn(self, counts: Mapping[int, int], *, waits: bool) -> None:
        """Take in the rows of fragments."""
        del waits
        self.told[list(counts)] = list(counts.values())

    def arrivals(self, at: EpochPass) -> Iterator[tuple[int, Columns]]:
        """Yield all rows of a pass."""
        plan, order = self._plan, order_of_fragments(self._plan, at)
        assert plan.source
        begin, _ = begin_of(plan, at, order, self.told)
        how = reading(plan, at.seed, None if at.in_file_order else at.epoch)
        for number in order[begin:].tolist():
            self.read.append(number)
            first = int(plan.first_ids[number])
            for columns, _ in read_rows(how, plan.source.fragments[number], first):
                for start in range(0, num_rows(columns), self._table_rows):
                    yield number, cut_rows(columns, start, start + self._table_rows)


class MemoryBlocks:
    """What the feeder would send, made on the spot and cut into tables of odd sizes."""

    def __init__(self, plan: DatasetPlan, rank: int, table_rows: int = 7) -> None:
        self._plan = plan
        self._rank = rank
        self._table_rows = table_rows

    def counts(self) -> list[Indices]:
        """Return the rows of each fragment of each dataset."""
        return [counted(part) for part in self._plan.parts or (self._plan,)]

    def read(self, pieces: list[RowRange], place: int, choice: Choice) -> Iterator[Columns]:
        """Yield the pieces' chosen rows."""
        for columns, _ in read_parts(reading(self._plan), parts(self._plan, pieces, place), choice):
            yield columns

    def stream(
        self, at: EpochPass, pieces: list[RowRange], place: int, choice: Choice
    ) -> Iterator[Columns]:
        """Yield the rank's rows, augmented where the feeder would."""
        base = order_of(self._plan, at, *self.counts())
        if is_mixed(self._plan, at):
            yield from LocalSource(self._plan).stream(at, pieces, place, choice)
            return
        assert isinstance(base, EpochPermutation)
        if base.mixed is not None:
            steps = steps_for(self._plan, at, base.rows)
            ids = base.ids(steps.places(self._rank, at.first_step, steps.count))
            counts = enumerate(counted(self._plan))
            whole = [RowRange(number, 0, int(rows)) for number, rows in counts]
            places = base.positions(steps.places(self._rank, at.first_step, steps.count))
            columns = take_rows(join(list(self.read(whole, 0, everything))), places)
        else:
            stop = place + sum(piece.rows for piece in pieces)
            ids = base.ids(np.arange(place, stop, dtype=np.int64)[choice(place, stop)])
            columns = join(list(self.read(pieces, place, choice)) or [{}])
        if not self._plan.augments_in_worker and not at.in_file_order:
            columns = augmented(reading(self._plan, at.seed, at.epoch), columns, ids)
        for start in range(0, len(ids), self._table_rows):
            yield cut_rows(columns, start, start + self._table_rows)
