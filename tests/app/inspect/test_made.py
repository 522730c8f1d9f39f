"""`trainshed data` with rows that Ray Data makes: those of a function, of a reader, of groups."""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import ray
from click.testing import CliRunner, Result
from pydantic import JsonValue

from tests.app.cli_here import trainshed_here
from tests.app.data.builders_plan import FUNCTIONS, GROUPS, grouped_rows, make_plan, write_rows
from tests.app.inspect.builders import read_back
from tests.app.ray_head import keep_idle
from tests.app.ray_run import write_run
from tests.ray_starts import FOLDER, kept_folder
from trainshed.cli.main import cli
from trainshed.ray_train.ray_cluster import for_rows
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

OURS = "tests.app.inspect.ray_functions"
ROWS, BLOCKS = 640, 64
FIELD = "spec.data.datasets.train"


@pytest.fixture(scope="module", autouse=True)
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The Ray that commands start, which they find started already."""
    with pytest.MonkeyPatch.context() as patched:
        database = tmp_path_factory.mktemp("database") / "rows.db"
        patched.setenv("TRAINSHED_TEST_DATABASE", str(database))
        patched.setenv(FOLDER, str(kept_folder()))
        with keep_idle(), for_rows(2, {}):
            yield
    assert not ray.is_initialized()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands are typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("TRAINSHED_HOME", raising=False)
    return tmp_path


def write_dataset(folder: Path, read: JsonValue, **fields: JsonValue) -> None:
    """Write a TrainingRun whose dataset is read so."""
    write_run(folder, "run", data={"datasets": {"train": {"read": read, **fields}}})


def write_numbers(folder: Path, blocks: int = BLOCKS, **fields: JsonValue) -> Path:
    """Write one whose rows a function makes; return where it notes which blocks it has made."""
    made_here = folder / "made"
    made_here.mkdir()
    options: JsonValue = {"rows": ROWS, "blocks": blocks, "folder": str(made_here)}
    write_dataset(folder, {"use": f"{OURS}:numbers", "options": options}, **fields)
    return made_here


def typed(command: str) -> Result:
    """Return what a command says of that dataset where it is piped."""
    words = ["data", *command.split(), "run.yaml", "--dataset", "train"]
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def said(command: str) -> str:
    done = typed(command)
    assert done.exit_code == EXIT_SUCCEEDED, done.output
    return done.stdout


def lines(command: str) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in said(command).splitlines()]


ODD: JsonValue = [{"use": f"{FUNCTIONS}:odd_rows"}]


def test_the_first_rows_are_shown_and_most_are_not_made(folder: Path) -> None:
    # Whoever shows them may be late by some seconds, in which tasks go on.
    made_here = write_numbers(folder, blocks=ROWS, transforms=ODD)

    done = typed("show --rows 3")

    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": number, "x": [number, number / 8]} for number in (1, 3, 5)
    ]
    assert (
        done.stderr
        == f"{FIELD}: starting Ray on this machine, because {OURS}:numbers makes its rows\n"
    )
    assert 1 <= len(list(made_here.iterdir())) < ROWS // 2


def test_raw_rows_are_those_that_the_function_returns(folder: Path) -> None:
    write_numbers(folder, transforms=ODD)
    assert [row["id"] for row in lines("show --rows 3 --raw")] == [0, 1, 2]
    assert said("count --raw") == f"{ROWS}\n"


def test_rows_are_counted(folder: Path) -> None:
    write_numbers(folder, transforms=ODD)
    assert said("count") == f"{ROWS // 2}\n"


def test_values_are_counted(folder: Path) -> None:
    write_dataset(folder, {"use": f"{OURS}:values"})
    assert lines("count --by name") == [{"name": "a", "rows": 1}, {"name": None, "rows": 3}]


def test_a_schema_tells_types_before_and_after_transforms(folder: Path) -> None:
    write_numbers(folder, transforms=[{"use": f"{OURS}:as_texts"}])
    (found,) = lines("schema")
    assert found["columns"] == [
        {"name": "id", "stored": "int64", "read": "int64", "after": None},
        {"name": "x", "stored": "double[2]", "read": "float64[2]", "after": None},
        {"name": "text", "stored": None, "read": None, "after": "text"},
    ]
    assert found["format"] == f"{OURS}:numbers"
    assert (found["files"], found["rows"], found["fragments"]) == (None, None, None)


def test_columns_are_summed_up(folder: Path) -> None:
    write_numbers(folder, transforms=ODD)
    (ids,) = lines("stats --column id")
    want = np.arange(1, ROWS, 2)
    assert (ids["rows"], ids["min"], ids["max"], ids["sum"]) == (320, 1, 639, int(want.sum()))
    assert ids["std"] == pytest.approx(want.std(ddof=1))


def test_rows_are_written_in_their_order(folder: Path) -> None:
    write_numbers(folder)
    assert said("write --to new --rows-per-file 100").startswith("640 rows in 7 files, ")

    found = read_back(folder / "new")

    assert found["id"].tolist() == list(range(ROWS))
    assert np.array_equal(found["x"], np.arange(ROWS)[:, None] / np.asarray([1.0, 8.0]))
    before = sorted((folder / "new").iterdir())
    again = trainshed_here("data", "write", "run.yaml", "--dataset", "train", "--to", "new")
    assert again.code == EXIT_INVALID
    assert "expected a new folder, or an empty one" in again.stderr
    assert sorted((folder / "new").iterdir()) == before


def test_types_are_kept_where_values_are_missing(folder: Path) -> None:
    write_dataset(folder, {"use": f"{OURS}:values"})

    said("write --to new")

    table = pq.read_table(folder / "new")
    assert table["count"].to_pylist() == [1, None, 2**40, 3]
    assert table["name"].to_pylist() == [None, None, None, "a"]
    assert table["tokens"].to_pylist() == [[1, 2], [3, 4], [5, 6], [7]]
    assert table["deep"].to_pylist() == [[{"a": 1}], [], None, [{"a": 2}]]


def test_a_large_block_is_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be all there is: a query's answer is one."""
    monkeypatch.setattr("trainshed.inspect.writing.CHUNK_BYTES", 1000)
    options: JsonValue = {"rows": ROWS, "blocks": 1, "folder": str(folder)}
    write_dataset(folder, {"use": f"{OURS}:numbers", "options": options})

    said("write --to new")

    assert read_back(folder / "new")["id"].tolist() == list(range(ROWS))


def test_rows_of_a_database_are_shown_and_written(folder: Path) -> None:
    with sqlite3.connect(os.environ["TRAINSHED_TEST_DATABASE"]) as opened:
        opened.execute("create table numbers (id integer, half real)")
        values = [(number, number / 2) for number in range(50)]
        opened.executemany("insert into numbers values (?, ?)", values)
    connect = f"{FUNCTIONS}:connected"
    options: JsonValue = {
        "sql": "select * from numbers order by id",
        "connection_factory": connect,
    }
    write_dataset(folder, {"reader": "read_sql", "options": options})

    assert lines("show --rows 2") == [{"id": 0, "half": 0.0}, {"id": 1, "half": 0.5}]
    said("write --to new")
    assert read_back(folder / "new")["half"].tolist() == [number / 2 for number in range(50)]


def of_files(folder: Path) -> Mapping[str, JsonValue]:
    write_rows(folder / "rows", [[40, 3], [58]])
    return {"format": "parquet", "path": "rows"}


def test_groups_are_those_of_a_run(folder: Path) -> None:
    write_dataset(folder, dict(of_files(folder)), transforms=list(GROUPS))
    want = grouped_rows(make_plan(folder / "rows", transforms=list(GROUPS)))

    assert said("count") == f"{len(want['user'])}\n"
    said("write --to new")

    found = read_back(folder / "new")
    assert found["user"].tolist() == want["user"].tolist()
    assert np.array_equal(found["ids"], want["ids"])


def test_what_is_bad_before_groups_is_left_out_and_told(folder: Path) -> None:
    bad: JsonValue = {"use": f"{FUNCTIONS}:picky", "options": {"bad": [3, 50]}}
    users: JsonValue = {"use": f"{FUNCTIONS}:with_users"}
    group: JsonValue = {"use": f"{FUNCTIONS}:first_of_each", "kind": "groups", "by": ["user"]}
    skip: dict[str, JsonValue] = {"onBadRecord": "skip", "transforms": [bad, users, group]}
    write_dataset(folder, dict(of_files(folder)), **skip)

    done = typed("count")

    assert done.stdout == "7\n"
    assert f"{FIELD}: 2 rows that cannot be used are left out" in done.stderr

    write_dataset(folder, dict(of_files(folder)), badRecordLimit=1, **skip)
    over = trainshed_here("data", "count", "run.yaml", "--dataset", "train")
    assert over.code == EXIT_INVALID
    assert "more than its badRecordLimit of 1" in over.stderr


WRONG: dict[str, tuple[str, JsonValue, str]] = {
    "a task that raises": ("count", f"{OURS}:failing", "ValueError: no such rows"),
    "no dataset": (
        "show",
        f"{OURS}:no_dataset",
        f"{FIELD}.read.use: {OURS}:no_dataset returned a list; expected a ray.data.Dataset",
    ),
    "rows by files": (
        "count --by-file",
        f"{OURS}:values",
        f"error: --by-file: got rows that {OURS}:values makes; expected rows that are read from "
        "files",
    ),
    "mixed rows": (
        "write --to new --shuffle 1",
        f"{OURS}:values",
        f"error: --shuffle: got 1; expected no value, as {OURS}:values makes these rows: write",
    ),
    "no such column": (
        "stats --column label",
        f"{OURS}:values",
        'error: --column: got "label"; expected one of count, name, tokens, deep',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case: str, folder: Path) -> None:
    command, use, want = WRONG[case]
    write_dataset(folder, {"use": use})

    done = trainshed_here("data", *command.split(), "run.yaml", "--dataset", "train")

    assert (done.code, done.stdout) == (EXIT_INVALID, "")
    assert want in done.stderr
    assert not (folder / "new").exists()


def test_a_reader_that_is_not_there_starts_nothing(folder: Path) -> None:
    write_dataset(folder, {"reader": "read_sequel"})
    done = trainshed_here("data", "show", "run.yaml", "--dataset", "train")
    assert done.code == EXIT_INVALID
    assert done.stderr.startswith(
        f"error: {FIELD}.read.reader: got read_sequel; expected one of from_"
    )
