"""Rows that Ray Data alone makes: those that a function or a reader returns, and those of groups.

Ray is imported where they are made, and has to be there by then: of files nobody waits for it.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa

from trainshed.data.sampler.dataset_plan import telling
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
    """Rows, and their types as Arrow has them; None where Arrow has no such values."""

    columns: Columns
    types: pa.Schema | None


@dataclass(frozen=True)
class GeneratedRows:
    """Rows, and how Ray Data makes them, as it does in a run.

    Args:
        plan: of the dataset.
        cpus: that its tasks may take.
        env: variables of the processes that make them.
        left_out: told of records that are bad; None where the first of them is an error.
    """

    plan: DatasetPlan
    cpus: int
    env: Mapping[str, str]
    left_out: SkippedRecords | None = None

    @property
    def field(self) -> str:
        """Return what names them in errors."""
        return self.plan.field

    @property
    def transforms(self) -> tuple[Function, ...]:
        """Return the transforms, in their order."""
        return self.plan.transforms

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Return what is read on its own, of which progress is told: nobody knows it before."""
        return ()

    @property
    def maker(self) -> str:
        """Return what makes them."""
        return self.plan.use.use if self.plan.use else "groups"

    def before(self) -> GeneratedRows:
        """Return the rows before the transforms."""
        return replace(self, plan=replace(self.plan, transforms=()))

    def tables(self, most_bytes: int) -> Iterator[GeneratedTable]:
        """Yield the rows in their order; what was begun is given up where nobody takes more.

        Args:
            most_bytes: of a table.

        Raises:
            DataError: when they cannot be made.
            InfrastructureError: when they could not be made this time.
        """
        import ray

        with _faults_of(self.field):
            for block, _ in self._blocks():
                yield from _cut(ray.get(block), most_bytes)

    def count(self) -> int:
        """Return how many rows there are; they stay where they are made.

        Raises:
            DataError: as `tables` does.
            InfrastructureError: as `tables` does.
        """
        with _faults_of(self.field):
            return sum(rows for _, rows in self._blocks())

    def _blocks(self) -> Iterator[tuple[ray.ObjectRef[Block], int]]:
        """Yield each block that has rows, and how many."""
        from trainshed.data.loader.grouped import made_whole
        from trainshed.data.loader.ray_datasets import fragments_dataset
        from trainshed.ray_compat.execution import configure
        from trainshed.ray_compat.quiet_logs import quiet

        # What fails is told once, by who asks for the rows.
        quiet("ray.data", logging.CRITICAL)
        configure(self.cpus, {})
        with self._telling() as plan:
            dataset = made_whole(plan) if plan.is_made_whole else fragments_dataset(plan)
            for bundle in dataset.iter_internal_ref_bundles():
                for entry in bundle.blocks:
                    if rows := entry.metadata.num_rows:
                        yield entry.ref, int(rows)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[DatasetPlan]:
        """Give the plan whose tasks tell of what is bad, which is taken in at the end."""
        if self.left_out is None:
            yield self.plan
            return
        import ray

        from trainshed.data.loader.bad_record_reporter import BadRecordReporter

        made = ray.remote(Counting).options(num_cpus=0).remote(self.left_out.anew())
        counting = cast("ActorHandle[Counting]", made)
        try:
            yield telling(self.plan, BadRecordReporter(counting))
        finally:
            remote: Callable[[], ray.ObjectRef[list[BadRecordList]]] = counting.told.remote
            for told in ray.get(remote()):
                self.left_out(told)
            ray.kill(counting)


class Counting:
    """An actor that counts what tasks leave out.

    Args:
        left_out: which knows of nothing yet.
    """

    def __init__(self, left_out: SkippedRecords) -> None:
        self._left_out = left_out
        self._told: dict[tuple[str, int, int], BadRecordList] = {}

    def leave_out(self, told: BadRecordList) -> None:
        """Take in what is known of a fragment.

        Raises:
            DataError: when more is left out than may be.
        """
        known = self._told.setdefault(told.fragment, told)
        if told.rows > known.rows:
            self._told[told.fragment] = told
        self._left_out(told)

    def told(self) -> list[BadRecordList]:
        """Return what is known of each fragment."""
        return list(self._told.values())


@contextlib.contextmanager
def _faults_of(field: str) -> Iterator[None]:
    """Raise what went wrong without the layers that Ray puts around it."""
    try:
        yield
    except SpecError:
        raise
    except Exception as error:  # a function of the user's may raise anything
        raise_again(as_fault(error, field))


def _cut(block: Block, most_bytes: int) -> Iterator[GeneratedTable]:
    """Yield the rows of a block, of which there may be as many as there are in all."""
    from trainshed.data.loader.arrow_blocks import cut_block, from_block

    types = block.schema if isinstance(block, pa.Table) else None
    for part in cut_block(block, most_bytes):
        columns = from_block(part)
        for field in types or ():
            if pa.types.is_null(field.type):  # of which Ray makes floats
                columns[field.name] = np.full(num_rows(columns), None, dtype=object)
        yield GeneratedTable(columns, types)
