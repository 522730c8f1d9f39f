"""Rows that only Ray Data can make: those of functions, readers and groups.

Ray is imported on use: commands that read files do not wait for it.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa

from trainshed.data.sampler.dataset_plan import with_reporter
from trainshed.data.sources.column_arrays import num_rows
from trainshed.data.sources.errors import as_fault, raise_again
from trainshed_api.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import ray
    from ray.actor import ActorHandle
    from ray.data.block import Block

    from trainshed.data.sampler.bad_records import BadRecordList
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.function import Function
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.inspect.skipped_records import SkippedRecords


class GeneratedTable(NamedTuple):
    """Rows, and their Arrow types; None for types that Arrow lacks."""

    columns: Columns
    types: pa.Schema | None


@dataclass(frozen=True)
class GeneratedRows:
    """Rows, and how Ray Data makes them, as in a run.

    Args:
        plan: of the dataset.
        cpus: for its tasks.
        env: environment variables of the processes that make them.
        left_out: collects bad records; None if the first one is an error.
    """

    plan: DatasetPlan
    cpus: int
    env: Mapping[str, str]
    left_out: SkippedRecords | None = None

    @property
    def field(self) -> str:
        """Return its name in errors."""
        return self.plan.field

    @property
    def transforms(self) -> tuple[Function, ...]:
        """Return the transforms, in order."""
        return self.plan.transforms

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Return no fragments for progress reports: their number is unknown."""
        return ()

    @property
    def maker(self) -> str:
        """Return the name of the function, reader or groups."""
        return self.plan.use.use if self.plan.use else "groups"

    def before(self) -> GeneratedRows:
        """Return the rows before the transforms."""
        return replace(self, plan=replace(self.plan, transforms=()))

    def tables(self, most_bytes: int) -> Iterator[GeneratedTable]:
        """Yield the rows in order; closing the iterator cancels the rest.

        Args:
            most_bytes: per table.

        Raises:
            DataError: if they cannot be made.
            InfrastructureError: if a retry may succeed.
        """
        import ray

        with _faults_of(self.field):
            for block, _ in self._blocks():
                yield from _cut(ray.get(block), most_bytes)

    def count(self) -> int:
        """Return the number of rows; they are not transferred to this process.

        Raises:
            DataError: as `tables` does.
            InfrastructureError: as `tables` does.
        """
        with _faults_of(self.field):
            return sum(rows for _, rows in self._blocks())

    def _blocks(self) -> Iterator[tuple[ray.ObjectRef[Block], int]]:
        """Yield each block with rows, and its number of rows."""
        from trainshed.data.loader.grouped import made_whole
        from trainshed.data.loader.ray_datasets import fragments_dataset
        from trainshed.ray_compat.execution import configure
        from trainshed.ray_compat.logs import quiet

        # The caller reports a failure, so Ray's log of it is not needed.
        quiet("ray.data", logging.CRITICAL)
        configure(self.cpus, {})
        with self._bad_record_reporter() as plan:
            dataset = made_whole(plan) if plan.is_made_whole else fragments_dataset(plan)
            for bundle in dataset.iter_internal_ref_bundles():
                for entry in bundle.blocks:
                    if rows := entry.metadata.num_rows:
                        yield entry.ref, int(rows)

    @contextlib.contextmanager
    def _bad_record_reporter(self) -> Iterator[DatasetPlan]:
        """Yield the plan whose tasks report bad records, and add them at the end."""
        if self.left_out is None:
            yield self.plan
            return
        import ray

        from trainshed.data.loader.bad_record_reporter import BadRecordReporter

        made = ray.remote(Counting).options(num_cpus=0).remote(self.left_out.anew())
        counting = cast("ActorHandle[Counting]", made)
        try:
            yield with_reporter(self.plan, BadRecordReporter(counting))
        finally:
            remote: Callable[[], ray.ObjectRef[list[BadRecordList]]] = counting.told.remote
            for told in ray.get(remote()):
                self.left_out(told)
            ray.kill(counting)


class Counting:
    """An actor that counts the records that tasks skip.

    Args:
        left_out: an empty collector.
    """

    def __init__(self, left_out: SkippedRecords) -> None:
        self._left_out = left_out
        self._told: dict[tuple[str, int, int], BadRecordList] = {}

    def leave_out(self, told: BadRecordList) -> None:
        """Add the bad records of a fragment.

        Raises:
            DataError: if the limit is exceeded.
        """
        known = self._told.setdefault(told.fragment, told)
        if told.rows > known.rows:
            self._told[told.fragment] = told
        self._left_out(told)

    def told(self) -> list[BadRecordList]:
        """Return the bad records of each fragment."""
        return list(self._told.values())


@contextlib.contextmanager
def _faults_of(field: str) -> Iterator[None]:
    """Raise the cause without the exceptions that Ray wraps around it."""
    try:
        yield
    except SpecError:
        raise
    except Exception as error:  # a user's function may raise anything
        raise_again(as_fault(error, field))


def _cut(block: Block, most_bytes: int) -> Iterator[GeneratedTable]:
    """Yield the rows of a block, which may have all rows of the dataset."""
    from trainshed.data.loader.arrow_blocks import cut_block, from_block

    types = block.schema if isinstance(block, pa.Table) else None
    for part in cut_block(block, most_bytes):
        columns = from_block(part)
        for field in types or ():
            if pa.types.is_null(field.type):  # Ray turns these into floats
                columns[field.name] = np.full(num_rows(columns), None, dtype=object)
        yield GeneratedTable(columns, types)
