"""Everything that can be wrong, found before Ray starts and before storage is touched."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from trainshed.data.loader import ray_readers
from trainshed.data.sampler.dataset_plan import (
    ROW_BYTES,
    DatasetPlan,
    plan_dataset,
    plan_mix,
)
from trainshed.data.sampler.function import with_types
from trainshed.data.sampler.sizes import CacheMemory, Measured
from trainshed.data.sources.apply_functions import augment, settled, transform
from trainshed.data.sources.casts import common_type
from trainshed.data.sources.collate import collate
from trainshed.data.sources.column_arrays import (
    Columns,
    is_nothing,
    is_text,
    nbytes,
    num_rows,
    of_one_shape,
    say_columns,
)
from trainshed.data.sources.dataset_files import open_source, read_sample
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.feed_types import check_dtype, place_in
from trainshed.data.sources.fragment_reader import first_rows, reading
from trainshed.data.sources.opener import is_rays_anonymous, store_options_of, without_anonymous
from trainshed.data.sources.stratifying import KnownStrata
from trainshed.failures import InfrastructureError
from trainshed.functions import (
    check_config,
    find,
    find_for_rows,
    find_training_function,
    takes_shards,
)
from trainshed.planning.cache_memory import check_disk, check_memory
from trainshed.planning.class_labels import check_labels, label_notes
from trainshed.planning.cluster_capacity import check_capacity, cluster_memory
from trainshed.planning.executable import find_command
from trainshed.planning.framework import check_framework
from trainshed.planning.holdouts import check_holdouts
from trainshed.planning.machine import Machine, check_fits, machine_memory, this_machine
from trainshed.planning.paths import (
    check_cache,
    check_environment,
    check_storage,
    locate,
    locate_source,
    num_free,
)
from trainshed.storage.driver_identity import folder_of
from trainshed.storage.run_folder import ROWS, ROWS_LIST, RunFolder
from trainshed_api.data import ALL_COLUMNS, LOCAL_BUFFER
from trainshed_api.errors import Problem, SpecError
from trainshed_api.frameworks import RULES as FRAMEWORKS
from trainshed_api.spechash import spec_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.sampler.bad_records import BadRecordList
    from trainshed.data.sampler.fragments import Fragment, Source
    from trainshed.data.sampler.function import Function
    from trainshed.planning.cluster_capacity import ClusterNodes
    from trainshed.storage.driver_identity import Identity
    from trainshed.storage.folder import Folder
    from trainshed_api.v1alpha1 import DatasetSpec, TrainingRun, TrainingRunSpec

Made = TypeVar("Made")
# What of a column is trained on, or made something of that is.
Takes = Literal["numbers", "text", "anything"]

SAMPLE_ROWS = 32
# Rows differ along a dataset: as many places are looked at, at all but the first with fewer rows.
SAMPLE_PLACES = 8
PLACE_ROWS = 8
# One after the other at a place, at which nothing more is looked at.
MOST_BAD = 100


@dataclass(frozen=True)
class RunLocation:
    """Where a run is to run.

    Args:
        home: what its relative paths lie under.
        in_cluster: whether there is a Ray cluster, so that this machine's size says nothing.
        cluster: what it has, once it was joined.
        identity: what a controller calls this driver.
        coordinator: of the run, where one was started before the run is checked.
    """

    home: Folder
    in_cluster: bool = False
    cluster: ClusterNodes | None = None
    identity: Identity | None = None
    coordinator: Coordinator | None = None


@dataclass(frozen=True)
class Prepared:
    """A run that was found in order.

    Args:
        run: the TrainingRun.
        spec_hash: of it.
        machine: this one.
        plans: by dataset.
        folder: of the run.
        command: of its entrypoint, as it can be executed; empty for training functions.
        notes: what it has to wait for or do without.
        named: the checkpoint that `checkpoint.resume` names.
    """

    run: TrainingRun
    spec_hash: str
    machine: Machine
    plans: Mapping[str, DatasetPlan]
    folder: RunFolder
    command: tuple[str, ...] = ()
    notes: Sequence[str] = ()
    named: Folder | None = None

    @property
    def spec(self) -> TrainingRunSpec:
        """Return the run's spec."""
        return self.run.spec


def prepare(run: TrainingRun, place: RunLocation, beside: Path | None = None) -> Prepared:
    """Check a run against its data, its code, its storage and the machines it is to run on.

    Args:
        run: as it was read.
        place: where it is to run.
        beside: the folder of its file, where an entrypoint's script may lie; None for its home.

    Raises:
        SpecError: naming field, value and what would be right.
    """
    spec, home = run.spec, place.home
    here = not place.in_cluster
    machine = this_machine(wants_gpus=here and spec.workers.resources.gpu > 0)
    if here:
        check_fits(spec, machine)
    notes = [
        *_precision_notes(spec),
        *_source_notes(spec),
        *_loader_notes(spec),
        *(_buffer_notes(spec) if here else ()),
        *(check_capacity(spec, place.cluster) if place.cluster else ()),
    ]
    # A worker group may have another image, so its workers check this themselves.
    if not (place.in_cluster and spec.workers.group):
        check_framework(spec.framework, place.in_cluster)
    if spec.train is not None:
        find_training_function(spec.train, "spec.train")
        check_config(spec.train, spec.config)
    beside = beside or home.path or Path.cwd()
    command = find_command(spec.entrypoint, beside) if spec.entrypoint else ()
    memory = cluster_memory(spec, place.cluster) if place.cluster else machine_memory(spec, machine)
    plans, told = _plans(spec, home, memory)
    notes += [*told, *label_notes(plans)]
    if here or place.cluster:  # else nobody knows the machines yet
        notes += check_memory(plans.values(), memory, spec.workers.count, spec.batch_size)
    _check_batch(spec, plans)
    storage = locate(spec.storage, home, "spec.storage")
    folder = RunFolder(folder_of(run.metadata.name, place.identity, storage))
    check_environment(folder.at, spec.env)
    check_storage(folder.at)
    wanted = spec.checkpoint.resume
    notes += _disk_notes(plans, folder, wanted)
    is_path = wanted not in ("latest", "never")
    named = locate(wanted, home, "spec.checkpoint.resume") if is_path else None
    return Prepared(run, spec_hash(spec), machine, plans, folder, command, notes, named)


def _disk_notes(plans: Mapping[str, DatasetPlan], folder: RunFolder, wanted: str) -> Sequence[str]:
    """Return what of the rows that are to be kept may not fit; what is gone on with is there.

    Args:
        plans: by dataset.
        folder: of the run.
        wanted: its `checkpoint.resume`.
    """
    free = num_free(folder.at)
    if free is None or not any(plan.cache == "disk" for plan in plans.values()):
        return []
    numbers = [] if wanted == "never" else folder.lineage()
    spans_epochs = any(folder.checkpoints(number).names() for number in numbers)
    kept: set[str] = set()
    for number in folder.attempts():
        parent = folder.attempt(number) / ROWS
        for name in parent.names():
            if spans_epochs and number in numbers and (parent / name).stat(ROWS_LIST):
                kept.add(name)
            else:  # the attempt deletes it before it keeps any
                free += sum(each.bytes for each in (parent / name).tree())
    coming = [plan for name, plan in plans.items() if name not in kept]
    return check_disk(coming, free, str(folder.at))


class _Looked(NamedTuple):
    """A dataset's plan, its first rows where there are files, and which rows are bad already."""

    plan: DatasetPlan
    sample: Columns | None
    notes: Sequence[str]


def _plans(
    spec: TrainingRunSpec, home: Folder, memory: CacheMemory
) -> tuple[dict[str, DatasetPlan], list[str]]:
    """Return the plans of all datasets, in the order of the spec, and what is to be known."""
    datasets = spec.data.datasets
    known = KnownStrata()
    found = {
        name: _plan(name, dataset, spec, home, memory, known, _mixes_of(name, spec))
        for name, dataset in datasets.items()
        if dataset.read.mix is None
    }
    plans = {name: looked.plan for name, looked in found.items()}
    check_holdouts(plans, datasets)
    for name, dataset in datasets.items():
        if dataset.read.mix is not None:
            samples = {part: found[part].sample for part in dataset.read.mix}
            plans[name] = plan_mix(name, dataset, plans)
            _find_collate(plans[name])
            _check_alike(plans[name], samples, spec.seed, _takes(spec, (dataset,)))
            check_labels(plans[name])
    notes = [note for looked in found.values() for note in looked.notes]
    return {name: plans[name] for name in datasets}, notes


def _mixes_of(name: str, spec: TrainingRunSpec) -> list[DatasetSpec]:
    """Return the datasets that mix one."""
    return [each for each in spec.data.datasets.values() if name in (each.read.mix or ())]


def _plan(  # noqa: PLR0913, PLR0917 - a dataset, and what it is for
    name: str,
    dataset: DatasetSpec,
    spec: TrainingRunSpec,
    home: Folder,
    memory: CacheMemory,
    known: KnownStrata,
    mixes: Sequence[DatasetSpec],
) -> _Looked:
    """Look at a dataset's first rows, and plan it by them."""
    field = f"spec.data.datasets.{name}"
    source = None
    if dataset.read.path is not None:
        check_cache(dataset.read, f"{field}.read")
        store_options = store_options_of(dataset.read)
        path = locate_source(dataset.read.path, home, f"{field}.read.path", store_options)
        skips_bad = dataset.on_bad_record == "skip"
        at = f"{field}.read"
        source = open_source(path, dataset.read, at, skips_bad=skips_bad, known=known)
    elif dataset.read.reader is not None:
        use = f"{ray_readers.MODULE}:{dataset.read.reader}"
        ray_readers.find_reader(use, dataset.read.options, f"{field}.read.reader")
    else:
        assert dataset.read.use
        find(dataset.read.use, f"{field}.read.use")
    for position, transforming in enumerate(dataset.transforms):
        find_for_rows(transforming.use, transforming.init, f"{field}.transforms[{position}]")
    for position, augmenting in enumerate(dataset.augment):
        find_for_rows(augmenting.use, augmenting.init, f"{field}.augment[{position}]")
    # A first plan only to have the functions in one shape for the sample.
    guess = Measured(1.0, keeps_rows=True) if source else None
    draft = plan_dataset(name, dataset, source, guess, memory, spec.workers.count)
    _find_collate(draft)
    takes = _takes(spec, (dataset, *mixes))
    measured: Measured | None = None
    sample: Columns | None = None
    told: list[BadRecordList] = []
    if source:
        measured, sample = _measure(draft, source, spec.seed, takes, told)
    plan = plan_dataset(
        name,
        dataset,
        source,
        measured,
        memory,
        spec.workers.count,
        is_mixed=bool(mixes),
        may_learn=FRAMEWORKS[spec.framework].may_learn_rows,
    )
    return _Looked(plan, sample, tuple(_bad_notes(field, told)))


def _takes(spec: TrainingRunSpec, fed: Sequence[DatasetSpec]) -> Takes:
    """Return what the batches of a dataset may be made of, given all that feed from it."""
    if any(each.feed.collate for each in fed) or (spec.train and takes_shards(spec.train)):
        return "anything"  # the function makes its own batches
    return "text" if FRAMEWORKS[spec.framework].takes_text else "numbers"


def _find_collate(plan: DatasetPlan) -> None:
    """Look whether the function of `feed.collate` can be imported."""
    if named := plan.collate:
        find_for_rows(named.use, dict(named.init), named.beside("").removesuffix("."))


def _measure(
    draft: DatasetPlan, source: Source, seed: int, takes: Takes, told: list[BadRecordList]
) -> tuple[Measured, Columns | None]:
    """Run a few rows through all functions: what fails here would fail later, on every worker.

    Fragments may have no row, or none that is chosen: where no place has one there is no sample.
    told: grows by what is bad among them and may be left out.
    """
    places = _sample_places(source)
    looked = [
        _transformed(draft, fragment, PLACE_ROWS if place else SAMPLE_ROWS, told)
        for place, fragment in enumerate(places)
    ]
    keeps_rows = all(each.keeps_rows for each in looked)
    read_bytes = max((each.read_bytes for each in looked), default=0.0)
    growth = 1.0 if draft.is_grouped else _growth(looked)
    grouped = tuple(each.held_bytes for each in looked if draft.is_grouped and each.held_bytes)
    looked = [each for each in looked if num_rows(each.columns)]
    if told and not looked:
        want = f"rows that can be used: none of {len(places)} places has one"
        raise SpecError([Problem(draft.field, told[0].first[0].say(), want)])
    if not looked:
        return Measured(ROW_BYTES, keeps_rows, read_bytes=read_bytes, grouped=grouped), None
    # These tell types alone: sizes are those of the first rows of fragments.
    inside = [
        _transformed(draft, fragment, PLACE_ROWS, [])
        for fragment in (_places_inside(places) if draft.transforms or draft.augments else ())
    ]
    typed = [*looked, *(each for each in inside if num_rows(each.columns))]
    types = _types_of([each.columns for each in typed])
    draft = replace(draft, transforms=with_types(draft.transforms, types))
    typed = [
        each._replace(columns=_settled(draft, each.fragment, each.columns, draft.transforms))
        for each in typed
    ]
    samples = [_augmented(draft, each, seed) for each in typed]
    augmented_types = _types_of(samples)
    draft = replace(draft, augments=with_types(draft.augments, augmented_types))
    samples = [
        _settled(draft, each.fragment, sample, draft.augments)
        for each, sample in zip(typed, samples, strict=True)
    ]
    seen = replace(draft, changes_rows=draft.changes_rows or not keeps_rows)
    for each, sample in zip(looked, samples, strict=False):  # not those inside of fragments
        _check_columns(draft, sample, takes)  # a missing value makes another type of a column
        _check_values(draft, seen, each.fragment, sample)
        _try_collate(draft, each.fragment, sample, seed)
    elsewhere = tuple(each.row_bytes for each in looked[1:])
    row_bytes = looked[0].row_bytes
    # The first one imports what it needs.
    row_seconds = min(each.seconds / num_rows(each.columns) for each in looked)
    measured = Measured(
        row_bytes,
        keeps_rows,
        elsewhere,
        read_bytes,
        growth,
        grouped,
        row_seconds,
        types,
        augmented_types,
        tuple((name, array.dtype.name) for name, array in samples[0].items()),
    )
    return measured, samples[0]


def _types_of(tables: Sequence[Columns]) -> tuple[tuple[str, str], ...]:
    """Return the types of columns of numbers, each of all tables that have the column."""
    names = dict.fromkeys(name for table in tables for name in table)
    types = {}
    for name in names:
        arrays = [table[name] for table in tables if name in table]
        # Where nothing but NaN was seen the others may be texts.
        if (kind := common_type(arrays)) and not all(map(is_nothing, arrays)):
            types[name] = kind
    return tuple(types.items())


def _settled(
    draft: DatasetPlan, fragment: Fragment, columns: Columns, functions: Sequence[Function]
) -> Columns:
    """Return first rows of a fragment in the types that they have together with all others."""
    for function in functions:
        columns = _sampled(draft, fragment, partial(settled, columns, function))
    return columns


def _augmented(draft: DatasetPlan, seen: _Seen, seed: int) -> Columns:
    rows = np.arange(num_rows(seen.columns), dtype=np.int64)
    return _sampled(
        draft, seen.fragment, lambda: augment(seen.columns, draft.augments, rows, seed, 0)
    )


def _growth(looked: Sequence[_Seen]) -> float:
    """Return how many rows came of one that was read, where more did than were read."""
    known = [(num_rows(each.columns), each.read) for each in looked if each.read is not None]
    made, of = sum(made for made, _ in known), sum(read for _, read in known)
    return max(1.0, made / of) if of else 1.0


def _check_alike(
    mix: DatasetPlan, samples: Mapping[str, Columns | None], seed: int, takes: Takes
) -> None:
    """Refuse datasets of a mix whose first rows do not go into one batch."""
    known = [(name, columns) for name, columns in samples.items() if columns is not None]
    if not known:
        return
    first, want = known[0]
    for name, columns in known[1:]:
        one, other = map(
            say_columns, of_one_shape([want, columns]) if mix.collate else (want, columns)
        )
        if one != other:
            field = f"{mix.field}.read.mix.{name}"
            alike = f"those of {first}, {one}: rows of a mix go into one batch"
            raise SpecError([Problem(field, f"columns {other}", alike)])
    _check_columns(mix, want, takes)
    parts = {part.name: part for part in mix.parts}
    for name, columns in known:
        if source := parts[name].source:
            _check_values(mix, parts[name], source.fragments[0], columns)
    first_source = parts[first].source
    assert first_source
    _try_collate(mix, first_source.fragments[0], want, seed)


def _check_values(
    plan: DatasetPlan, read: DatasetPlan, fragment: Fragment, columns: Columns
) -> None:
    """Refuse values of first rows of a fragment that types of `feed.dtypes` cannot hold.

    read: of the dataset that the fragment is of, which `plan` may mix.
    """
    source = read.source
    assert source
    rows = np.arange(num_rows(columns), dtype=np.int64)
    problems = []
    for name, array in columns.items():
        if array.dtype.kind not in "iufc" or plan.collate:  # which looks by itself
            continue
        try:
            check_dtype(
                plan, name, array, rows, lambda _, row: place_in(read, source, fragment, row)
            )
        except DataError as error:
            problems.append(_place(plan, str(error)))
    if problems:
        raise SpecError(problems)


def _try_collate(plan: DatasetPlan, fragment: Fragment, columns: Columns, seed: int) -> None:
    """Run the function of `feed.collate`, where there is one, over first rows of a fragment."""
    if plan.collate:
        ids = np.arange(num_rows(columns), dtype=np.int64)
        _sampled(plan, fragment, lambda: collate(plan, columns, ids, seed, 0))


def _sample_places(source: Source) -> list[Fragment]:
    """Return fragments from the first to the last."""
    last = len(source.fragments) - 1
    places = sorted({round(place) for place in np.linspace(0, last, SAMPLE_PLACES)})
    return [source.fragments[place] for place in places]


def _places_inside(places: Sequence[Fragment]) -> list[Fragment]:
    """Return the middle and the last row group of fragments, as far as these are few."""
    inside = [
        replace(fragment, row_groups=(group,), rows=None)
        for fragment in places
        for group in dict.fromkeys(
            (fragment.row_groups[len(fragment.row_groups) // 2], fragment.row_groups[-1])
            if len(fragment.row_groups) > 1
            else ()
        )
    ]
    return inside[: SAMPLE_PLACES - len(places)]


class _Seen(NamedTuple):
    """First rows of a fragment after the transforms, and whether these kept all that were read.

    read: of how many rows they are; None where bad ones are left out.
    row_bytes, read_bytes: mean size of a row that is held, and of one before the transforms.
    held_bytes: of a row that was read, or of what was made of it where that is more.
    seconds: that the transforms took.
    """

    fragment: Fragment
    columns: Columns
    read: int | None
    row_bytes: float
    read_bytes: float
    held_bytes: float
    seconds: float

    @property
    def keeps_rows(self) -> bool:
        return num_rows(self.columns) == self.read


def _transformed(
    draft: DatasetPlan, fragment: Fragment, rows: int, told: list[BadRecordList]
) -> _Seen:
    """Look at the first rows of a fragment."""
    assert draft.source
    scan = draft.source.scan
    if scan.skips_bad:
        begun = time.perf_counter()
        columns = _sampled(draft, fragment, lambda: _good_rows(draft, fragment, rows, told))
        seconds = time.perf_counter() - begun
        again: list[BadRecordList] = []
        bare = replace(draft, transforms=())
        read = _sampled(draft, fragment, lambda: _good_rows(bare, fragment, rows, again))
        held = _held_bytes(columns, read)
        row_bytes, read_bytes = _mean_bytes(columns), _mean_bytes(read)
        return _Seen(fragment, columns, None, row_bytes, read_bytes, held, seconds)
    read = _sampled(draft, fragment, lambda: read_sample(scan, fragment, draft.columns, rows))
    begun = time.perf_counter()
    columns = _sampled(draft, fragment, lambda: transform(read, draft.transforms))
    seconds = time.perf_counter() - begun
    row_bytes, read_bytes = _mean_bytes(columns), _mean_bytes(read)
    if draft.is_grouped:  # all rows of a group are in memory, however many the function returns
        row_bytes = max(row_bytes, read_bytes)
    held = _held_bytes(columns, read)
    return _Seen(fragment, columns, num_rows(read), row_bytes, read_bytes, held, seconds)


def _held_bytes(columns: Columns, read: Columns) -> float:
    return max(nbytes(columns), nbytes(read)) / max(num_rows(read), 1)


def _mean_bytes(columns: Columns) -> float:
    return nbytes(columns) / max(num_rows(columns), 1)


class _NothingGoodError(Exception):
    """Too many consecutive rows are bad."""


def _good_rows(
    draft: DatasetPlan, fragment: Fragment, rows: int, told: list[BadRecordList]
) -> Columns:
    """Return first rows of a fragment that are good; told: what of them is not."""
    last: list[BadRecordList] = []

    def tell(known: BadRecordList) -> None:
        last[:] = [known]
        if known.rows >= MOST_BAD:
            raise _NothingGoodError

    try:
        return first_rows(replace(reading(draft), tell=tell), fragment, rows)
    except _NothingGoodError:
        return {}
    finally:
        told += last


def _bad_notes(field: str, told: Sequence[BadRecordList]) -> Iterator[str]:
    """Yield what is bad among the rows that were looked at, in one note."""
    if told:
        rows, first = sum(each.rows for each in told), told[0].first[0].say()
        yield f"{field}: {rows} of the rows that were looked at are bad and left out: {first}"


def _sampled(draft: DatasetPlan, fragment: Fragment, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except InfrastructureError:
        raise
    except (DataError, OSError, pa.ArrowException) as error:
        raise SpecError([_place(draft, str(error))]) from error
    except Exception as error:  # a function of the user's may raise anything
        told = f"({type(error).__name__}: {error})"
        want = f"functions that take the first rows of {fragment.path} {told}"
        raise SpecError([Problem(draft.field, None, want)]) from error


def _place(draft: DatasetPlan, message: str) -> Problem:
    """Return the problem at the field that a message begins with, else at the dataset."""
    field, colon, want = message.partition(": ")
    if colon and field.startswith(draft.field):
        return Problem(field, None, want)
    return Problem(draft.field, None, message)


def _check_columns(draft: DatasetPlan, columns: Columns, takes: Takes) -> None:
    problems = []
    for name, array in columns.items():
        if takes == "anything" or (takes == "text" and is_text(array)):
            continue
        if array.dtype.kind in "OUSMm":
            kind = type(array.flat[0]).__name__ if array.size else str(array.dtype)
            want = (
                "numbers; turn it into some by a transform, make tensors of it by feed.collate, or "
                "leave it out with read.columns"
            )
            problems.append(Problem(f"{draft.field}: column {name}", f"values of {kind}", want))
    problems += _wrong_dtypes(draft, columns)
    if problems:
        raise SpecError(problems)


def _wrong_dtypes(plan: DatasetPlan, columns: Columns) -> list[Problem]:
    known = ", ".join(columns)
    return [
        Problem(f"{plan.field}.feed.dtypes.{name}", "no such column", f"one of: {known}")
        for name in plan.feed.dtypes
        if name not in (*columns, ALL_COLUMNS)
    ]


def _precision_notes(spec: TrainingRunSpec) -> Sequence[str]:
    if spec.precision != "tensorfloat32" or spec.workers.resources.gpu:
        return []
    return ["spec.precision: tensorfloat32 is float32 here, as these workers have no GPU"]


def _source_notes(spec: TrainingRunSpec) -> Iterator[str]:
    """Yield how a field would say what an address says."""
    for name, dataset in spec.data.datasets.items():
        field, path = f"spec.data.datasets.{name}.read", dataset.read.path or ""
        if is_rays_anonymous(path):
            plain = without_anonymous(path)
            yield f"{field}.path: read without credentials; write {plain} and anonymous: true"


def _loader_notes(spec: TrainingRunSpec) -> Iterator[str]:
    """Yield that the deprecated fields of the loader have no effect, where they are set."""
    data = spec.data
    if data.loader != "ray-data" or data.loader_processes:
        yield (
            "spec.data.loader and loaderProcesses: deprecated, and without effect: Ray Data "
            "prepares the same rows in the same order. Remove both fields."
        )


def _buffer_notes(spec: TrainingRunSpec) -> Iterator[str]:
    """Yield ignored fields; in a cluster defaults look the same as values that were set."""
    for name, dataset in spec.data.datasets.items():
        shuffle = dataset.shuffle
        asked = "buffer_size" in shuffle.model_fields_set and shuffle.buffer_size == LOCAL_BUFFER
        if asked and shuffle.mode in {"none", "files", "blocks"}:
            yield (
                f"spec.data.datasets.{name}.shuffle.bufferSize: {LOCAL_BUFFER} beside mode "
                f"{shuffle.mode} means no buffer, as the default does; set another number for one"
            )


def _check_batch(spec: TrainingRunSpec, plans: Mapping[str, DatasetPlan]) -> None:
    plan = plans.get("train")
    if plan is None or plan.epoch_rows is None or plan.feed.last_batch == "keep":
        return
    if not FRAMEWORKS[spec.framework].has_batches:
        return
    if spec.batch_size > plan.epoch_rows:
        want = f"at most the {plan.epoch_rows} rows of {plan.field}, or feed.lastBatch: keep"
        raise SpecError([Problem("spec.batchSize", str(spec.batch_size), want)])
