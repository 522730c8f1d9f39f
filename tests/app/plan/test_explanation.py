"""What is told of a run before it starts; test_memory.py has what is kept where."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.data.builders_plan import write_rows as write_numbered_rows
from tests.app.failing_runs import make_spec, write_numbers
from tests.builders import make_data, make_run
from trainshed.plan.explanation import explain_lines
from trainshed.plan.preflight import Place, Prepared, prepare
from trainshed.records.disk import Disk
from trainshed_api.errors import SpecError

V100, A100, H100 = (7, 0), (8, 0), (9, 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_numbers(folder)
    return folder


def prepared(home: Path, precision: str) -> Prepared:
    return prepare(make_run(**make_spec(precision=precision)), Place(Disk(home)))


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
        data = make_data({"read": read, "shuffle": shuffle}, loader="torch")
        run = make_run(train="tests.app.processes:children", data=data)
        return list(prepare(run, Place(Disk(home))).notes)

    (said,) = notes(mode="files", bufferSize=10_000)
    assert "bufferSize: 10000 beside mode files means no buffer, as the default does" in said
    assert notes(mode="files") == notes(mode="local", bufferSize=10_000) == []


def test_who_reads_and_who_augments_is_said(home: Path) -> None:
    def lines(processes: int, cache: str) -> str:
        augment: JsonValue = [{"use": "tests.app.data.loader_functions:doubled"}]
        read: JsonValue = {"format": "parquet", "path": "rows"}
        dataset = {"read": read, "augment": augment, "cache": cache}
        data = make_data(dataset, loader="torch", loaderProcesses=processes)
        run = make_run(train="tests.app.processes:children", data=data)
        return "\n".join(explain_lines(prepare(run, Place(Disk(home)))))

    write_rows(home / "rows", 80)
    assert "by 2 processes of each worker" in lines(2, "none")
    assert "of each worker" not in lines(0, "none")
    assert "augment   tests.app.data.loader_functions:doubled in its processes" in lines(2, "none")
    assert "doubled in the worker" in lines(0, "none")
    assert "doubled in the worker" in lines(2, "workers")


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

    lines = list(explain_lines(prepare(run, Place(Disk(home)))))

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
        SpecError, match=r"datasets\.train: column word: got values of str_, want numbers"
    ):
        prepare(run, Place(Disk(home)))
