"""The data section of a TrainingRun: its datasets, from rows to batches, and who prepares them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, model_validator

from trainshed_api.errors import Problem, RuleError, one_of
from trainshed_api.rows import ReadSpec
from trainshed_api.schema import MOST_COUNT, Boolean, Count, Integer, SpecModel, annotate
from trainshed_api.transforms import AugmentSpec, CollateSpec, TaskSpec, TransformSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# bfloat16 has no numpy type: the feed converts to it on the way to the device.
DtypeName = Literal[
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"
]
# Of `feed.dtypes`, in the place of a column: all columns of numbers that it does not name.
ALL_COLUMNS = "*"
Dtype = TypeVar("Dtype")
ShuffleMode = Literal["auto", "none", "files", "blocks", "local", "global"]

_DATASET_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# Of mode local. What is stored in a cluster has it in every mode, as a default fills it in.
LOCAL_BUFFER = 10_000
# In these modes another split belongs to each epoch, so a worker cannot keep its rows.
_SPLIT_CHANGES_EACH_EPOCH = ("files", "blocks", "global")


class ShuffleSpec(SpecModel):
    """How rows are shuffled; each epoch has another order."""

    mode: ShuffleMode = Field(
        default="auto",
        description="none: the order of the files. files: shuffle the order of the files. blocks:"
        " shuffle the order of blocks. global: shuffle all rows. local: the order of "
        "the files, shuffled in a buffer. auto: chosen from the files when the run begins, for "
        "the dataset whose batches are the steps; none for all others, and beside a bufferSize.",
        # Earlier releases had this default. Their hashes and stored objects have it written out.
        json_schema_extra=annotate("app", "never") | {"was": "none"},
    )
    buffer_size: Integer = Field(
        default=LOCAL_BUFFER,
        ge=0,
        le=MOST_COUNT,
        description="Rows in the shuffle buffers of all workers together, which shuffle after "
        "files or blocks; 0 turns them off. The default applies to mode local only: "
        "with none, files and blocks it means no buffer, and auto chooses one. Ignored with mode "
        "global.",
        json_schema_extra=annotate("app", "never"),
    )

    @model_validator(mode="after")
    def _local_needs_a_buffer(self) -> Self:
        if self.mode == "local" and self.buffer_size <= 1:
            expected = "at least 2 with mode local, or mode none"
            raise RuleError([Problem("bufferSize", str(self.buffer_size), expected)])
        return self


def dtype_for(column: str, dtypes: Mapping[str, Dtype]) -> Dtype | None:
    """Return what `feed.dtypes` says of a column of numbers; None where that is nothing."""
    return dtypes.get(column, dtypes.get(ALL_COLUMNS))


class FeedSpec(SpecModel):
    """How batches reach the training function."""

    prefetch_batches: Integer = Field(
        default=2,
        ge=0,
        le=MOST_COUNT,
        description="Batches to prepare ahead of the current one.",
        json_schema_extra=annotate("app", "suspended"),
    )
    dtypes: dict[str, DtypeName] = Field(
        default_factory=dict,
        description='Types of the tensors, by column; "*" stands for all other numeric columns. '
        "By default a tensor has the type of its column.",
        json_schema_extra=annotate("app", "never")
        | {"expected": 'a map such as {x: float32}, or {"*": float32} for all columns of numbers'},
    )
    last_batch: Literal["drop", "keep"] = Field(
        default="drop",
        description="What to do with the last rows of an epoch that do not fill a batch.",
        json_schema_extra=annotate("app", "never"),
    )
    collate: CollateSpec | None = Field(
        default=None,
        description="Function that builds the batch for the training function from rows, such as "
        "padded tensors. The default is one tensor for each column.",
        json_schema_extra=annotate("app", "never"),
    )

    @model_validator(mode="after")
    def _functions_get_types_of_numpy(self) -> Self:
        if self.collate is None:
            return self
        expected = "no bfloat16 with feed.collate, whose function gets NumPy arrays"
        problems = [
            Problem(f"dtypes.{column}", '"bfloat16"', expected)
            for column, dtype in self.dtypes.items()
            if dtype == "bfloat16"
        ]
        if problems:
            raise RuleError(problems)
        return self


class DatasetSpec(SpecModel):
    """One named dataset, from its files to the batches of the training function."""

    read: ReadSpec = Field(
        description="Where the rows come from.", json_schema_extra=annotate("app", "never")
    )
    transforms: tuple[TransformSpec, ...] = Field(
        default=(),
        description="Functions applied to the rows in this order; the result is the same in every"
        " epoch.",
        json_schema_extra=annotate("app", "never"),
    )
    on_bad_record: Literal["fail", "skip"] = Field(
        default="fail",
        description="What to do with a record that cannot be decoded, or for which a function of "
        "`transforms` raises. fail: end the run. skip: leave it out in every epoch, "
        "count and report it. An exception of `augment` always ends the run, because "
        "its result differs in each epoch.",
        json_schema_extra=annotate("app", "never"),
    )
    bad_record_limit: Count = Field(
        default=1000,
        description="Maximum number of rows that onBadRecord: skip may leave out; one more ends "
        "the run.",
        json_schema_extra=annotate("app", "suspended"),
    )
    task: TaskSpec = Field(
        default_factory=TaskSpec,
        description="Resources of each task that reads and transforms rows.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    cache: Literal["auto", "none", "objects", "workers", "disk"] = Field(
        default="auto",
        description="Where transformed rows are cached for the next epoch: objects (Ray's object "
        "store), workers (the memory of each worker), disk (Parquet files in the run "
        "storage), none (read and transform again). auto chooses by measured sizes, "
        "and disk only for groups that fit nowhere else.",
        json_schema_extra=annotate("app", "suspended"),
    )
    shuffle: ShuffleSpec = Field(
        default_factory=ShuffleSpec,
        description="How rows are shuffled.",
        json_schema_extra=annotate("app", "never"),
    )
    augment: tuple[AugmentSpec, ...] = Field(
        default=(),
        description="Random functions over batches; their result differs in each epoch.",
        json_schema_extra=annotate("app", "never"),
    )
    rows_per_epoch: Count | None = Field(
        default=None,
        description="Rows in an epoch, if not all. The next epoch continues where this one "
        "stopped, and no row repeats before all rows were used.",
        json_schema_extra=annotate("app", "never"),
    )
    steps: Literal["learned", "known"] = Field(
        default="learned",
        description="When to count the rows, if file metadata does not tell their number. "
        "learned: in the first epoch. known: before the first step, which a learning "
        "rate schedule over all steps needs.",
        json_schema_extra=annotate("app", "suspended"),
    )
    split: Boolean = Field(
        default=True,
        description="true: each worker gets its share of the rows. false: every worker gets all "
        "rows.",
        json_schema_extra=annotate("app", "never"),
    )
    feed: FeedSpec = Field(
        default_factory=FeedSpec,
        description="How batches are delivered to the training function.",
        json_schema_extra=annotate("app", "never"),
    )

    @model_validator(mode="after")
    def _mixed_rows_are_made_by_others(self) -> Self:
        if self.read.mix is None:
            return self
        expected = "no value: set it of the datasets that are mixed"
        given = {"transforms": self.transforms, "augment": self.augment}
        problems = [
            Problem(name, f"{len(value)}", expected) for name, value in given.items() if value
        ]
        if self.on_bad_record != "fail":
            problems.append(Problem("onBadRecord", f'"{self.on_bad_record}"', expected))
        if self.task != TaskSpec():
            problems.append(Problem("task", self.task.say(), expected))
        if self.cache != "auto":
            problems.append(Problem("cache", f'"{self.cache}"', expected))
        if self.shuffle.mode not in ("auto", "none", "local"):
            expected = (
                "none, with a bufferSize: files and blocks are those of the datasets it mixes"
            )
            problems.append(Problem("shuffle.mode", f'"{self.shuffle.mode}"', expected))
        if problems:
            raise RuleError(problems)
        return self

    @model_validator(mode="after")
    def _rows_can_be_cached_and_skipped(self) -> Self:
        if problem := cache_problem(self):
            raise RuleError([problem])
        if self.cache == "none" and any(each.kind == "groups" for each in self.transforms):
            expected = (
                "objects, disk, workers or auto with transforms of kind groups: a group has rows"
            )
            raise RuleError(
                [Problem("cache", '"none"', f"{expected} of all files, and is made once")]
            )
        if self.on_bad_record == "skip" and self.read.format is None:
            expected = "fail, because rows that a function returns have no file and position"
            raise RuleError([Problem("onBadRecord", '"skip"', expected)])
        if self.rows_per_epoch is None:
            return self
        why = "with rowsPerEpoch, because an epoch continues where the last one stopped"
        problems = []
        if self.cache == "workers":
            problems.append(Problem("cache", '"workers"', f"objects, disk, none or auto {why}"))
        if self.shuffle.mode == "global":
            expected = f"files or blocks, and a bufferSize {why}"
            problems.append(Problem("shuffle.mode", '"global"', expected))
        if problems:
            raise RuleError(problems)
        return self


class DataSpec(SpecModel):
    """All datasets of a run and the machines that prepare them."""

    model_config = ConfigDict(json_schema_extra={"planned": ["objectStoreMemory"]})

    loader: Literal["ray-data", "torch"] = Field(
        default="ray-data",
        description="Deprecated, without effect: Ray Data reads and transforms beside the workers.",
        json_schema_extra=annotate("app", "never"),
    )
    loader_processes: Integer = Field(
        default=0,
        ge=0,
        le=MOST_COUNT,
        description="Deprecated, without effect.",
        json_schema_extra=annotate("app", "suspended"),
    )
    placement: str = Field(
        default="cpu",
        pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        max_length=63,
        description="Group of nodes (label trainshed.dev/group) whose CPUs read and transform; "
        "ignored if no node has the label.",
        json_schema_extra=annotate("both", "suspended") | {"expected": "a label value such as cpu"},
    )
    cpus: Integer = Field(
        default=2,
        ge=1,
        le=MOST_COUNT,
        description="CPUs for reading and transforming; for each dataset, if two are read at the "
        "same time.",
        json_schema_extra=annotate("both", "suspended"),
    )
    datasets: dict[str, DatasetSpec] = Field(
        default_factory=dict,
        description="The datasets, by the name that the training function uses.",
        json_schema_extra=annotate("app", "never"),
    )

    @model_validator(mode="after")
    def _datasets_fit_together(self) -> Self:
        problems = [
            Problem(
                f"datasets.{name}",
                None,
                "a dataset's name is a letter, then letters, digits, - or _",
            )
            for name in self.datasets
            if not _DATASET_NAME.fullmatch(name)
        ]
        for name, dataset in self.datasets.items():
            if dataset.task.cpus > self.cpus:
                expected = f"at most the {self.cpus} of data.cpus, which all tasks share"
                place = f"datasets.{name}.task.cpus"
                problems.append(Problem(place, str(dataset.task.cpus), expected))
            for part in dataset.read.mix or ():
                problems += _check_mixed(self.datasets, f"datasets.{name}.read.mix.{part}", part)
        if problems:
            raise RuleError(problems)
        return self


def cache_problem(dataset: DatasetSpec) -> Problem | None:
    """Return what is wrong with the cache of a dataset beside its shuffle; None if nothing is."""
    mode = dataset.shuffle.mode
    if dataset.cache != "workers" or mode not in _SPLIT_CHANGES_EACH_EPOCH:
        return None
    expected = (
        f"objects, disk, none or auto with shuffle mode {mode}: the rows of a worker change each "
        "epoch"
    )
    return Problem("cache", '"workers"', expected)


def _check_mixed(datasets: Mapping[str, DatasetSpec], place: str, part: str) -> Iterator[Problem]:
    """Yield why a dataset cannot be mixed; place: where the mix names it."""
    dataset = datasets.get(part)
    if dataset is None or dataset.read.mix is not None:
        known = [name for name, each in datasets.items() if each.read.mix is None]
        got = "no such dataset" if dataset is None else "a mix itself"
        yield Problem(place, got, one_of(part, known) if known else "a dataset that is no mix")
        return
    if dataset.shuffle.mode not in ("auto", "none", "files", "blocks"):
        expected = "none, files or blocks in a mix, whose own bufferSize moves single rows"
        yield Problem(f"datasets.{part}.shuffle.mode", f'"{dataset.shuffle.mode}"', expected)
    if dataset.shuffle.buffer_size not in (0, LOCAL_BUFFER):
        expected = "no value in a mix, whose own bufferSize moves single rows"
        got = str(dataset.shuffle.buffer_size)
        yield Problem(f"datasets.{part}.shuffle.bufferSize", got, expected)
    if dataset.rows_per_epoch is not None:
        expected = "no value in a mix, which takes of each what its weight says"
        yield Problem(f"datasets.{part}.rowsPerEpoch", str(dataset.rows_per_epoch), expected)
    if dataset.cache == "workers":
        expected = "objects, disk, none or auto in a mix: a worker's rows of it change each epoch"
        yield Problem(f"datasets.{part}.cache", '"workers"', expected)
