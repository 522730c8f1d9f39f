"""What is told of a run before it starts; test_memory.py has what is kept where."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.data.builders_plan import FUNCTIONS
from tests.app.data.builders_plan import write_rows as write_numbered_rows
from tests.app.failing_runs import make_spec, write_numbers
from tests.builders import make_data, make_dataset, make_run
from trainshed.data.sampler.dataset_plan import DatasetPlan
from trainshed.data.sources.column_arrays import Columns
from trainshed.planning.explanation import MOST_COLUMNS, explain_lines
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError

V100, A100, H100 = (7, 0), (8, 0), (9, 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_numbers(folder)
    return folder


def prepared(home: Path, precision: str) -> Prepared:
    return prepare(make_run(**make_spec(precision=precision)), RunLocation(Disk(home)))


@dataclass(frozen=True)
class Case:
    """A precision, this machine's GPUs, and whether a faster one is recommended."""

    precision: str
    gpus: list[tuple[int, int]]
    want: bool


CASES = {
    "float32 on GPUs that have TensorFloat32": Case("float32", [A100, H100], True),
    "float32 where one of them has not": Case("float32", [A100, V100], False),
    "float32 where no GPU is to be used": Case("float32", [], False),
    "TensorFloat32": Case("tensorfloat32", [A100], False),
    "half a precision": Case("bfloat16", [A100], False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_faster_precision_is_recommended_where_there_is_one(home: Path, case: Case) -> None:
    lines = list(explain_lines(prepared(home, case.precision), case.gpus))

    recommended = [line for line in lines if line.startswith("recommended: ")]
    assert bool(recommended) == case.want
    assert all("precision: tensorfloat32" in line for line in recommended)


def test_on_cpus_tensorfloat32_is_accepted_and_said_to_do_nothing(home: Path) -> None:
    note = "spec.precision: tensorfloat32 is float32 here, as these workers have no GPU"

    assert list(prepared(home, "tensorfloat32").notes) == [note]
    assert list(prepared(home, "float32").notes) == []


def test_a_buffer_that_means_none_beside_files_is_said(home: Path) -> None:
    write_rows(home / "rows", 80)

    def notes(**shuffle: JsonValue) -> list[str]:
        read: JsonValue = {"format": "parquet", "path": "rows"}
        data = make_data({"read": read, "shuffle": shuffle})
        run = make_run(train="tests.app.processes:children", data=data)
        return list(prepare(run, RunLocation(Disk(home))).notes)

    (said,) = notes(mode="files", bufferSize=10_000)
    assert "bufferSize: 10000 beside mode files means no buffer, as the default does" in said
    assert notes(mode="files") == notes(mode="local", bufferSize=10_000) == []


def test_who_augments_is_said(home: Path) -> None:
    def lines(cache: str) -> list[str]:
        augment: JsonValue = [{"use": f"{FUNCTIONS}:doubled"}]
        return explained(home, {"augment": augment, "cache": cache})

    write_rows(home / "rows", 80)
    assert f"augment   {FUNCTIONS}:doubled on the data's CPUs" in lines("none")
    assert f"augment   {FUNCTIONS}:doubled in the worker" in lines("workers")


def planned_alike(prepared: Prepared) -> DatasetPlan:
    """Return the plan without what was measured by the clock."""
    return replace(prepared.plans["train"], row_seconds=0.0)


def test_the_deprecated_loader_plans_the_same_and_is_noted_once(home: Path) -> None:
    write_rows(home / "rows", 80)

    def planned(**data: JsonValue) -> Prepared:
        given = make_data(make_dataset(cache="objects"), **data)
        run = make_run(train="tests.app.processes:children", data=given)
        return prepare(run, RunLocation(Disk(home)))

    plain, deprecated = planned(), planned(loader="torch", loaderProcesses=2)

    assert planned_alike(deprecated) == planned_alike(plain)
    assert list(plain.notes) == []
    assert list(deprecated.notes) == [
        "spec.data.loader and loaderProcesses: deprecated, and without effect: Ray Data prepares "
        "the same rows in the same order. Remove both fields."
    ]
    assert len(planned(loaderProcesses=2).notes) == 1


def explained(home: Path, dataset: dict[str, JsonValue]) -> list[str]:
    """Return what is said of a dataset of the files in `rows`."""
    read: JsonValue = {"format": "parquet", "path": "rows"}
    data = make_data({"read": read, **dataset})
    run = make_run(train="tests.app.processes:children", data=data)
    return [line.strip() for line in explain_lines(prepare(run, RunLocation(Disk(home))))]


def without_odd(batch: Columns) -> Columns:
    """Return the columns that are numbers."""
    return {name: array for name, array in batch.items() if name != "odd"}


def test_the_columns_that_are_read_are_said_as_the_files_have_them(tmp_path: Path) -> None:
    many = {f"c{number}": np.zeros(80, np.float32) for number in range(MOST_COLUMNS)}
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((80, 2, 3), np.uint8))
    long = pa.array([{"name": "a", "of it": 1, "and of that": [0.5], "then": True}] * 80)
    (tmp_path / "rows").mkdir()
    table = pa.table({"id": np.arange(80), "picture": tensors, "odd": long, **many})
    pq.write_table(table, tmp_path / "rows" / "0.parquet")
    transforms: JsonValue = [{"use": f"{__name__}:without_odd"}]

    (whole,) = columns_in(explained(tmp_path, {"transforms": transforms}))
    chosen: JsonValue = {"format": "parquet", "path": "rows", "columns": ["c1", "picture"]}
    (some,) = columns_in(explained(tmp_path, {"read": chosen}))

    assert whole.startswith(
        "columns   id int64, picture uint8[2, 3], odd struct<name: string, of it: int64, and o..., "
        "c0 float, "
    )
    assert whole.endswith(" and 3 more, before the transforms")
    assert some == "columns   c1 float, picture uint8[2, 3]"


def columns_in(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("columns ")]


@dataclass(frozen=True)
class Way:
    """A dataset, and what is said of its rows."""

    dataset: dict[str, JsonValue]
    want: str


WAYS = {
    "files that are read in each epoch": Way(
        {"cache": "none"}, "streamed: each epoch reads the rows again"
    ),
    "rows that are transformed, too": Way(
        {"cache": "none", "transforms": [{"use": f"{FUNCTIONS}:doubled"}]},
        "streamed: each epoch reads and transforms the rows again",
    ),
    "objects": Way(
        {"cache": "objects"}, "prepared once, then cached in the object stores of the data nodes"
    ),
    "workers": Way({"cache": "workers"}, "prepared once, then cached in the memory of the workers"),
    "a disk": Way(
        {"cache": "disk"}, "prepared once, then cached as Parquet files below /.*/local/[a-z-]+"
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_whether_rows_are_read_in_each_epoch_or_kept_is_said(home: Path, way: Way) -> None:
    write_rows(home / "rows", 80)

    lines = explained(home, way.dataset)

    (said,) = [line for line in lines if line.startswith("rows ")]
    assert re.fullmatch(f"rows      {way.want}", said)


def test_rows_of_a_function_are_said_to_be_of_no_known_size(home: Path) -> None:
    read: JsonValue = {"use": "tests.app.processes:children"}

    lines = explained(home, {"read": read})

    (said,) = [line for line in lines if line.startswith("cache ")]
    assert said == (
        "cache     objects: a function's dataset is made once, and only making it tells whether "
        "it fits in the object store; cache: disk needs none"
    )


SHARDS: dict[str, tuple[dict[str, JsonValue], bool]] = {
    "nothing that cuts it": ({}, True),
    "columns by which it is cut": ({"shard_keys": ["id"]}, False),
}


@pytest.mark.parametrize(("more", "want"), SHARDS.values(), ids=SHARDS)
def test_a_query_that_one_task_reads_is_said(
    home: Path, more: dict[str, JsonValue], want: bool
) -> None:
    connect = "tests.app.data.sample_functions:connected"
    options: JsonValue = {"sql": "select 1", "connection_factory": connect, **more}
    data = make_data({"read": {"reader": "read_sql", "options": options}})
    run = make_run(train="tests.app.processes:children", data=data)

    said = "\n".join(explain_lines(prepare(run, RunLocation(Disk(home)))))

    by_one = "read      ray.data:read_sql in one task; set options.shard_keys to read in parallel"
    assert "read      ray.data:read_sql" in said
    assert (by_one in said) == want


def test_texts_are_taken_where_a_function_makes_batches_of_them(home: Path) -> None:
    functions = "tests.app.data.collate_functions"
    write_numbered_rows(home / "numbered", ([40], [40]))
    read: JsonValue = {"format": "parquet", "path": "numbered"}
    ragged: JsonValue = [{"use": f"{functions}:ragged"}]
    feed: JsonValue = {"collate": {"use": f"{functions}:padded"}}
    mixed: JsonValue = {"read": {"mix": {"part": 1}}, "feed": feed}
    datasets: JsonValue = {
        "train": mixed,
        "part": {"read": read, "transforms": ragged},
        "alone": {"read": read, "transforms": ragged, "feed": feed},
    }
    run = make_run(train="tests.app.processes:children", data={"datasets": datasets})

    lines = list(explain_lines(prepare(run, RunLocation(Disk(home)))))

    said = f"collate   {functions}:padded in the worker"
    assert [line.strip() for line in lines if "  collate" in line] == [said, said]


def test_texts_of_a_mix_without_a_function_are_refused(home: Path) -> None:
    functions = "tests.app.data.collate_functions"
    write_numbered_rows(home / "numbered", ([40], [40]))
    read: JsonValue = {"format": "parquet", "path": "numbered"}
    feed: JsonValue = {"collate": {"use": f"{functions}:padded"}}
    datasets: JsonValue = {
        "train": {"read": {"mix": {"part": 1}}},
        "other": {"read": {"mix": {"part": 1}}, "feed": feed},
        "part": {"read": read, "transforms": [{"use": f"{functions}:ragged"}]},
    }
    run = make_run(train="tests.app.processes:children", data={"datasets": datasets})

    with pytest.raises(
        SpecError, match=r"datasets\.train: column word: got values of str; expected numbers"
    ):
        prepare(run, RunLocation(Disk(home)))


def test_texts_are_left_to_a_function_that_makes_its_own_batches(home: Path) -> None:
    write_numbered_rows(home / "numbered", ([40], [40]))
    read: JsonValue = {"format": "parquet", "path": "numbered"}
    texts: JsonValue = [{"use": "tests.app.data.collate_functions:ragged"}]
    datasets: JsonValue = {
        "train": {"read": {"mix": {"part": 1}}},
        "part": {"read": read, "transforms": texts},
    }
    run = make_run(train="tests.app.plain_functions:count_rows", data={"datasets": datasets})

    assert list(prepare(run, RunLocation(Disk(home))).plans) == ["train", "part"]


def shuffled_by_default(home: Path, **spec: JsonValue) -> list[str]:
    """Return the shuffle of `train` and `valid`, of the same files, which name no mode."""
    datasets: JsonValue = {
        "train": {"read": {"format": "parquet", "path": "rows"}},
        "valid": {"read": {"format": "parquet", "path": "rows"}},
    }
    run = make_run(
        **{"train": "tests.app.processes:children", "data": {"datasets": datasets}, **spec}
    )
    plans = prepare(run, RunLocation(Disk(home))).plans
    return [plans[name].spec.shuffle.mode for name in ("train", "valid")]


def test_only_the_dataset_that_trains_is_shuffled_by_default(home: Path) -> None:
    write_rows(home / "rows", 80)

    assert shuffled_by_default(home) == ["global", "none"]
    assert shuffled_by_default(home, framework="xgboost") == ["none", "none"]


def test_the_chosen_shuffle_is_said_with_its_reason(home: Path) -> None:
    write_rows(home / "rows", 80)

    lines = explained(home, {})

    assert "shuffle   global, in a new order each epoch" in lines
    (why,) = [line for line in lines if line.startswith("shuffle   mode")]
    assert re.fullmatch(r"shuffle   mode global was chosen: at most [\d.]+ kB of rows", why)
    assert not [
        line for line in explained(home, {"shuffle": {"mode": "global"}}) if "was chosen" in line
    ]


@pytest.mark.parametrize(
    ("shuffle", "want"),
    [
        ({"mode": "none"}, "with mode none a batch has rows of about 1 of 4 labels"),
        ({"mode": "local", "bufferSize": 40}, "with mode local a batch has rows of about 1 of 4"),
        ({"mode": "blocks"}, "with mode blocks a batch has rows of about 1 of 4 labels"),
        ({"mode": "blocks", "bufferSize": 40}, "a batch has rows of about 1 of 4 labels"),
        ({"mode": "blocks", "bufferSize": 150}, ""),
        ({"mode": "local", "bufferSize": 160}, ""),
        ({}, ""),
    ],
)
def test_too_small_a_buffer_for_rows_sorted_by_label_is_said(
    tmp_path: Path, shuffle: JsonValue, want: str
) -> None:
    (tmp_path / "sorted").mkdir()
    for label in range(4):
        table = pa.table({"x": np.zeros(40, np.float32), "label": np.full(40, label)})
        pq.write_table(table, tmp_path / "sorted" / f"{label}.parquet")
    read: JsonValue = {"format": "parquet", "path": "sorted"}
    data = make_data({"read": read, "shuffle": shuffle})

    run = make_run(train="tests.app.processes:children", data=data)
    notes = list(prepare(run, RunLocation(Disk(tmp_path))).notes)

    assert len(notes) == bool(want)
    assert all(want in note and "use mode global" in note for note in notes)


# The program, its config, and what is said of rows with the columns x, label and image.
UNFIT: dict[str, tuple[str, str, dict[str, JsonValue], str]] = {
    "pictures of another size": (
        "vision",
        "torch",
        {"imageSize": 28, "channels": 1, "classes": 2},
        'spec.data.datasets.train: column "image": pictures have the shape (8, 8, 1), but '
        "spec.config.imageSize 28",
    ),
    "a feature that is not there": (
        "tabular",
        "torch",
        {"features": ["x", "z"]},
        'spec.data.datasets.train: there is no column "z"; expected one of x, label, image',
    ),
    "features of another length": (
        "tabular",
        "torch",
        {"features": ["x"], "inputs": 3},
        "spec.config.inputs: got 3; expected 1",
    ),
    "a label that is not there": (
        "boosted_trees",
        "xgboost",
        {"label": "diagnoses"},
        'spec.data.datasets.train: there is no column "diagnoses"',
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_rows_that_a_program_cannot_train_on_are_refused_before_the_start(
    case: str, tmp_path: Path
) -> None:
    program, framework, config, want = UNFIT[case]
    pictures = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((20, 8, 8), np.uint8))
    rows = {"x": np.zeros(20, np.float32), "label": np.arange(20) % 2, "image": pictures}
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "rows" / "0.parquet")
    use = f"trainshed.programs.{program}:train"
    run = make_run(train=use, framework=framework, config=config, data=make_data())

    with pytest.raises(SpecError) as caught:
        prepare(run, RunLocation(Disk(tmp_path)))

    assert str(caught.value).startswith(want)
