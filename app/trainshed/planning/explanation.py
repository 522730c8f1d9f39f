"""Explains a prepared run: sources, transforms, caches, batches and resources of Ray. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainshed.data.loader.ray_readers import is_read_by_one_task
from trainshed.data.sampler.batch_layout import training_steps
from trainshed.data.sampler.sizes import megabytes
from trainshed.data.sources.arrow_columns import say_stored
from trainshed.display.formatting import plural, say_plainly
from trainshed.planning.cache_memory import kept_of
from trainshed.planning.trackers import say_trackers
from trainshed_api.quantity import parse_cores

# The compute capability from which on GPUs have TensorFloat32.
AMPERE = (8, 0)
# Of a dataset's columns, and of the letters of a type, that are said.
MOST_COLUMNS = 12
MOST_LETTERS = 40

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.file_tables import Source
    from trainshed.data.sampler.function import Function
    from trainshed.planning.preflight import Prepared


def explain_lines(
    prepared: Prepared, capabilities: Sequence[tuple[int, int]] = ()
) -> Iterator[str]:
    """Yield the lines of the explanation.

    Args:
        prepared: the run.
        capabilities: compute capability of each GPU of this machine, if the run is to use them.
    """
    spec = prepared.spec
    workers = spec.workers
    yield f"{prepared.run.metadata.name}: {spec.train or ' '.join(spec.entrypoint or ())}"
    yield f"  spec hash {prepared.spec_hash[:8]}, run folder {prepared.folder.at}"
    cpus = parse_cores(workers.resources.cpu)
    yield (
        f"requested from Ray: workers {workers.count}, CPUs per worker {cpus:g}, "
        f"GPUs per worker {workers.resources.gpu}"
        f"{', group ' + workers.group if workers.group else ''}; CPUs for data {spec.data.cpus}"
        f"{', group ' + spec.data.placement if spec.data.placement else ''}"
    )
    total = math.ceil(workers.count * cpus) + spec.data.cpus
    yield f"this machine: Ray starts with {total} logical CPUs on {prepared.machine.cpus} cores"
    for plan in prepared.plans.values():
        yield f"dataset {plan.name}:"
        for step in _steps(plan, spec.batch_size, workers.count, str(prepared.folder.at)):
            yield f"  {step}"
    if spec.tracking:
        for line in say_trackers(spec.tracking, str(prepared.folder.at)):
            yield f"tracking: {line}"
    for note in prepared.notes:
        yield f"note: {note}"
    if spec.precision == "float32" and capabilities and min(capabilities) >= AMPERE:
        yield (
            "recommended: precision: tensorfloat32, which these GPUs multiply several times as "
            "fast as float32; or bfloat16"
        )


def _steps(plan: DatasetPlan, batch_size: int, num_workers: int, storage: str) -> Iterator[str]:
    yield from _reading(plan)
    if plan.spec.shuffle.mode == "files":
        yield "shuffle   files, in a new order each epoch"
    for function in plan.transforms:
        yield f"transform {function.use} ({_kind(function)})"
    if types := [pair for function in plan.transforms for pair in function.types]:
        said = ", ".join(f"{name} {kind}" for name, kind in types[:MOST_COLUMNS])
        more = len(types) - MOST_COLUMNS
        yield f"types     {said}{f' and {more} more' if more > 0 else ''} in all rows"
    if plan.task_cpus > 1 or plan.task_memory:
        memory = f", {megabytes(plan.task_memory)} of memory" if plan.task_memory else ""
        yield f"task      {plan.task_cpus} CPUs{memory} for each task"
    if plan.bad_record_limit is not None:
        yield f"skip      bad records, at most {plan.bad_record_limit}"
    if not plan.parts:
        yield f"rows      {_way(plan, storage)}"
    size = f", {plan.size.say()} in all" if plan.size and not plan.is_grouped else ""
    yield f"cache     {plan.cache}: {plan.reason}{size}"
    yield from _memory(plan, num_workers, batch_size)
    yield from _mixing(plan)
    share = "each worker gets its share of the rows"
    yield f"split     {share if plan.spec.split else 'each worker gets all rows'}"
    if plan.spec.rows_per_epoch:
        yield f"epoch     {plan.spec.rows_per_epoch} rows; the next epoch continues after them"
    for function in plan.augments:
        where = "in the worker" if plan.augments_in_worker else "on the data's CPUs"
        yield f"augment   {function.use} {where}"
    if plan.epoch_rows is not None:
        last, split = plan.spec.feed.last_batch, plan.spec.split
        steps = training_steps(plan.epoch_rows, batch_size, num_workers, last, split).count
        yield f"batch     {steps} steps of {batch_size} rows over {num_workers} workers"
    if plan.collate:
        yield f"collate   {plan.collate.use} in the worker"
    casts = "".join(f", {name} as {dtype}" for name, dtype in plan.spec.feed.dtypes.items())
    yield f"feed      prefetched batches {plan.spec.feed.prefetch_batches}{casts}"


def _mixing(plan: DatasetPlan) -> Iterator[str]:
    """Yield the shuffle of the rows after the cache."""
    if plan.spec.shuffle.mode in ("blocks", "global"):
        yield f"shuffle   {plan.spec.shuffle.mode}, in a new order each epoch"
    if rows := plan.shuffle_buffer_rows:
        yield f"shuffle   buffers of {rows} rows over all workers, in a new order each epoch"
    if plan.shuffle_reason:
        yield f"shuffle   mode {plan.spec.shuffle.mode} was chosen: {plan.shuffle_reason}"


def _by_one_task(use: Function) -> str:
    """Return a note on a reader whose rows one task reads; more CPUs do not speed it up."""
    if not is_read_by_one_task(use):
        return ""
    return " in one task; set options.shard_keys to read in parallel, if the database allows it"


def _kind(function: Function) -> str:
    """Return the unit that a function transforms."""
    if function.kind != "groups":
        return function.kind
    order = f", by {', '.join(function.order_by)}" if function.order_by else ""
    return f"groups of {', '.join(function.by)}{order}"


def _reading(plan: DatasetPlan) -> Iterator[str]:
    """Yield the source of the rows, and the filters on it."""
    if plan.source:
        source = plan.source
        rows = f"about {source.likely_rows}" if source.rows is None else f"{source.rows}"
        files = plural(len(source.files), f"{source.scan.format} file")
        yield f"read      {rows} rows from {files}, {plural(len(source.fragments), 'fragment')}"
        yield from _columns(plan, plan.source)
        yield from _selecting(plan.source)
        yield f"count     {_counting(plan)}"
    elif plan.use:
        yield f"read      {plan.use.use}{_by_one_task(plan.use)}"
    for part, weight in zip(plan.parts, plan.weights, strict=True):
        yield f"mix       {weight / sum(plan.weights):.2%} from {part.name}"


def _columns(plan: DatasetPlan, source: Source) -> Iterator[str]:
    """Yield the columns that are read, as the files have them."""
    if source.schema is None:
        return
    unasked = source.scan.unasked
    names = plan.spec.read.columns or [name for name in source.schema.names if name not in unasked]
    said = []
    for name in names[:MOST_COLUMNS]:
        kind = say_stored(source.schema.field(name))
        kind += " as double" if name in source.scan.floats else ""
        short = kind if len(kind) <= MOST_LETTERS else f"{kind[:MOST_LETTERS]}..."
        said.append(f"{say_plainly(name)} {say_plainly(short)}")
    more = len(names) - len(said)
    rest = f" and {more} more" if more else ""
    then = ", before the transforms" if plan.transforms else ""
    yield f"columns   {', '.join(said)}{rest}{then}"


def _way(plan: DatasetPlan, storage: str) -> str:
    """Return whether each epoch reads the rows again, or where they are cached."""
    if plan.cache == "workers":
        return "prepared once, then cached in the memory of the workers"
    if plan.cache == "objects":
        return "prepared once, then cached in the object stores of the data nodes"
    if plan.cache == "disk":
        return f"prepared once, then cached as Parquet files below {storage}"
    transformed = " and transforms" if plan.transforms else ""
    return f"streamed: each epoch reads{transformed} the rows again"


def _selecting(source: Source) -> Iterator[str]:
    selection = source.scan.selection
    if selection.where is not None:
        yield "filter    rows that match read.where"
    if held := selection.holdout:
        part = "in the holdout" if held.held else "outside the holdout"
        if strata := held.strata:
            rows = strata.held if held.held else strata.rows - strata.held
            share = held.share if held.held else 1 - held.share
            there = f"{rows} of {strata.rows}, {share:.1%} of each of {strata.values} values"
            yield f"holdout   rows {part} by {held.stratify}: {there}"
            yield f"holdout   planning reads column {held.stratify} of all rows once"
        elif held.by:
            of_values = f"about {selection.share:.1%} of its values, chosen at random"
            yield f"holdout   rows {part} by {held.by}: {of_values}"
        else:
            yield f"holdout   rows {part}, about {selection.share:.1%}, chosen at random"


def _counting(plan: DatasetPlan) -> str:
    """Return where the number of rows in an epoch is from."""
    if plan.has_row_counts and not (plan.is_filled and plan.transforms):
        return "rows from file metadata"
    if plan.is_filled:
        known = "from file metadata, checked" if plan.epoch_rows is not None else "counted"
        return f"rows {known} while the cache is filled"
    if plan.is_learned:
        return "rows counted in the first epoch"
    return "rows counted before the first step; this reads all of them once"


def _memory(plan: DatasetPlan, num_workers: int, batch_size: int) -> Iterator[str]:
    """Yield the memory for each cache; workers on a node share its object store."""
    kept = kept_of(plan, num_workers, batch_size)
    if kept is None:
        return
    places = {
        "in the object stores of the data nodes": kept.store,
        "in the object store of each node with a worker, at one time": kept.pinned(1),
        "in each worker": kept.worker,
    }
    for place, size in places.items():
        if size.most:
            yield f"memory    {size.say()} {place}"
