"""Everything that can be wrong, found before Ray starts and before storage is touched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainshed.data.loader import ray_readers
from trainshed.data.sampler.dataset_plan import (
    DatasetPlan,
    main_of,
    plan_dataset,
    plan_mix,
)
from trainshed.data.sampler.sizes import CacheMemory, Measured
from trainshed.data.sources.dataset_files import open_source
from trainshed.data.sources.opener import store_options_of, without_anonymous
from trainshed.data.sources.stratifying import KnownStrata
from trainshed.functions import (
    check_config,
    check_framework_of,
    check_rows,
    find,
    find_for_rows,
    find_training_function,
    takes_shards,
)
from trainshed.planning.cache_memory import check_disk, check_memory
from trainshed.planning.class_labels import check_labels, few_labels_met, label_notes
from trainshed.planning.cluster_capacity import check_capacity, cluster_memory
from trainshed.planning.executable import find_command
from trainshed.planning.first_rows import Takes, bad_notes, check_alike, measure
from trainshed.planning.holdouts import check_holdouts
from trainshed.planning.machine import (
    Machine,
    check_fits,
    check_framework,
    machine_memory,
    this_machine,
)
from trainshed.planning.paths import (
    check_cache,
    check_environment,
    check_sample,
    check_storage,
    locate,
    locate_source,
    num_free,
)
from trainshed.planning.trackers import check_trackers
from trainshed.storage.driver_identity import folder_of
from trainshed.storage.run_folder import ROWS, ROWS_LIST, RunFolder, read_record
from trainshed_api.data import LOCAL_BUFFER, ShuffleSpec
from trainshed_api.errors import Problem, SpecError
from trainshed_api.frameworks import RULES as FRAMEWORKS
from trainshed_api.spechash import spec_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.sampler.bad_records import BadRecordList
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.planning.cluster_capacity import ClusterNodes
    from trainshed.storage.driver_identity import Identity
    from trainshed.storage.folder import Folder
    from trainshed_api.records import RunRecord
    from trainshed_api.v1alpha1 import DatasetSpec, TrainingRunResource, TrainingRunSpec


# Datasets that the built-in programs read, and have judged before the start.
PROGRAM_DATASETS = ("train", "valid")
# Column of labels, if spec.config names no other.
LABEL = "label"


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

    run: TrainingRunResource
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


def prepare(
    run: TrainingRunResource, place: RunLocation, beside: Path | None = None, *, fresh: bool = False
) -> Prepared:
    """Check a run against its data, its code, its storage and the machines it is to run on.

    Args:
        run: as it was read.
        place: where it is to run.
        beside: the folder of its file, where an entrypoint's script may lie; None for its home.
        fresh: whether it starts over, whatever its earlier attempts did.

    Raises:
        SpecError: naming field, value and what would be right.
    """
    spec, home = run.spec, place.home
    here = not place.in_cluster
    machine = this_machine(wants_gpus=here and spec.workers.resources.gpu > 0)
    if here:
        check_fits(spec, machine)
    notes = list(_notes(spec, here=here))
    if place.cluster:
        notes += check_capacity(spec, place.cluster)
    # A worker group may have another image, so its workers check this themselves.
    if not (place.in_cluster and spec.workers.group):
        check_framework(spec.framework, place.in_cluster)
    if spec.train is not None:
        find_training_function(spec.train, "spec.train")
        check_framework_of(spec.train, spec.framework)
        check_config(spec.train, spec.config)
    if spec.tracking and (here or place.cluster):  # else the driver runs elsewhere
        check_trackers(spec.tracking)
    beside = beside or home.path or Path.cwd()
    command = find_command(spec.entrypoint, beside) if spec.entrypoint else ()
    memory = cluster_memory(spec, place.cluster) if place.cluster else machine_memory(spec, machine)
    storage = locate(spec.storage, home, "spec.storage")
    folder = RunFolder(folder_of(run.metadata.name, place.identity, storage))
    plans, told = _plans(spec, home, memory, None if fresh else read_record(folder.at))
    notes += [*told, *label_notes(plans)]
    notes += [
        note for name, plan in plans.items() if _trains(name, spec) for note in few_labels_met(plan)
    ]
    if here or place.cluster:  # else nobody knows the machines yet
        notes += check_memory(plans.values(), memory, spec.workers.count, spec.batch_size)
    _check_batch(spec, plans)
    check_environment(folder.at, spec.env)
    check_storage(folder.at)
    wanted = spec.checkpoint.resume
    if any(plan.cache == "disk" for plan in plans.values()):
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
    if free is None:  # a bucket
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
    spec: TrainingRunSpec, home: Folder, memory: CacheMemory, record: RunRecord | None
) -> tuple[dict[str, DatasetPlan], list[str]]:
    """Return the plans of all datasets, in the order of the spec, and what is to be known."""
    datasets = spec.data.datasets
    known = KnownStrata()
    found: dict[str, _Looked] = {}
    for name, dataset in datasets.items():
        if dataset.read.mix is None:
            mixes = [each for each in datasets.values() if name in (each.read.mix or ())]
            found[name] = _plan(name, dataset, spec, home, memory, known, mixes, record)
    plans = {name: looked.plan for name, looked in found.items()}
    for name in PROGRAM_DATASETS:
        looked = found.get(name)
        if spec.train and looked and looked.sample and not looked.plan.collate:
            check_rows(spec.train, spec.config, name, looked.sample)
    if any(dataset.read.holdout for dataset in datasets.values()):
        check_holdouts(plans, datasets)
    for name, dataset in datasets.items():
        if dataset.read.mix is not None:
            samples = {part: found[part].sample for part in dataset.read.mix}
            plans[name] = plan_mix(name, dataset, plans)
            _find_collate(plans[name])
            check_alike(plans[name], samples, spec.seed, _takes(spec, (dataset,)))
            check_labels(plans[name])
    notes = [note for looked in found.values() for note in looked.notes]
    return {name: plans[name] for name in datasets}, notes


def _plan(  # noqa: PLR0913, PLR0917 - a dataset, and what it is for
    name: str,
    dataset: DatasetSpec,
    spec: TrainingRunSpec,
    home: Folder,
    memory: CacheMemory,
    known: KnownStrata,
    mixes: Sequence[DatasetSpec],
    record: RunRecord | None,
) -> _Looked:
    """Look at a dataset's first rows, and plan it by them.

    record: of the run's earlier attempts.
    """
    field = f"spec.data.datasets.{name}"
    source = None
    if dataset.read.path is not None:
        check_cache(dataset.read, f"{field}.read")
        check_sample(dataset.read.path, home, f"{field}.read.path")
        store_options = store_options_of(dataset.read)
        path = locate_source(dataset.read.path, home, f"{field}.read.path", store_options)
        skips_bad = dataset.on_bad_record == "skip"
        at = f"{field}.read"
        begun = record.data.get(name) if record else None
        source = open_source(
            path,
            dataset.read,
            at,
            skips_bad=skips_bad,
            known=known,
            begun_with=begun.fingerprint if begun else None,
        )
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
        label = str(spec.config.get("label", LABEL))
        measured, sample = measure(draft, source, spec.seed, takes, told, label)
    plan = plan_dataset(
        name,
        dataset,
        source,
        measured,
        memory,
        spec.workers.count,
        is_mixed=bool(mixes),
        may_learn=FRAMEWORKS[spec.framework].may_learn_rows,
        trains=_trains(name, spec),
        # A run that began with an earlier release has none in its record, and did not shuffle.
        begun_with=record.shuffle.get(name, ShuffleSpec(mode="none")) if record else None,
    )
    return _Looked(plan, sample, tuple(bad_notes(field, told)))


def _trains(name: str, spec: TrainingRunSpec) -> bool:
    """Return whether the batches of a dataset are the steps of the run."""
    parts = {each: dataset.read.mix or () for each, dataset in spec.data.datasets.items()}
    return FRAMEWORKS[spec.framework].has_batches and name == main_of(parts)


def _takes(spec: TrainingRunSpec, fed: Sequence[DatasetSpec]) -> Takes:
    """Return what the batches of a dataset may be made of, given all that feed from it."""
    if any(each.feed.collate for each in fed) or (spec.train and takes_shards(spec.train)):
        return "anything"  # the function makes its own batches
    return "text" if FRAMEWORKS[spec.framework].takes_text else "numbers"


def _find_collate(plan: DatasetPlan) -> None:
    """Look whether the function of `feed.collate` can be imported."""
    if named := plan.collate:
        find_for_rows(named.use, dict(named.init), named.beside("").removesuffix("."))


def _notes(spec: TrainingRunSpec, *, here: bool) -> Iterator[str]:
    """Yield which fields have no effect here, and how a field would say what an address says."""
    if spec.precision == "tensorfloat32" and not spec.workers.resources.gpu:
        yield "spec.precision: tensorfloat32 is float32 here, as these workers have no GPU"
    for name, dataset in spec.data.datasets.items():
        field, path = f"spec.data.datasets.{name}.read", dataset.read.path or ""
        if (plain := without_anonymous(path)) != path:
            yield f"{field}.path: read without credentials; write {plain} and anonymous: true"
        yield from _neighbour_notes(dataset, field)
    if spec.data.loader != "ray-data" or spec.data.loader_processes:
        yield (
            "spec.data.loader and loaderProcesses: deprecated, and without effect: Ray Data "
            "prepares the same rows in the same order. Remove both fields."
        )
    for name, dataset in spec.data.datasets.items():
        shuffle = dataset.shuffle
        asked = "buffer_size" in shuffle.model_fields_set and shuffle.buffer_size == LOCAL_BUFFER
        # In a cluster defaults look the same as values that were set.
        if here and asked and shuffle.mode in {"none", "files", "blocks"}:
            yield (
                f"spec.data.datasets.{name}.shuffle.bufferSize: {LOCAL_BUFFER} beside mode "
                f"{shuffle.mode} means no buffer, as the default does; set another number for one"
            )


def _neighbour_notes(dataset: DatasetSpec, field: str) -> Iterator[str]:
    """Yield that rows which belong together are on both sides of a random split."""
    holdout = dataset.read.holdout
    if holdout is None or holdout.share is None or holdout.by:
        return
    if dataset.read.format == "video":
        yield (
            f"{field}.holdout: frames of one video are in training and in the holdout, and are "
            "nearly equal. Set `by: path` to have each video on one side."
        )
    for transform in dataset.transforms:
        if transform.kind == "groups":
            yield (
                f"{field}.holdout: rows of one group of {transform.use} are in training and in the "
                f"holdout. Set `by: {transform.by[0]}` to have each group on one side."
            )


def _check_batch(spec: TrainingRunSpec, plans: Mapping[str, DatasetPlan]) -> None:
    plan = plans.get("train")
    if plan is None or plan.epoch_rows is None or plan.spec.feed.last_batch == "keep":
        return
    if not FRAMEWORKS[spec.framework].has_batches:
        return
    if spec.batch_size > plan.epoch_rows:
        expected = f"at most the {plan.epoch_rows} rows of {plan.field}, or feed.lastBatch: keep"
        raise SpecError([Problem("spec.batchSize", str(spec.batch_size), expected)])
