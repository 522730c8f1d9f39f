"""`trainshed data show | schema | count | stats | write`: what is typed and said, without Ray."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pydantic import JsonValue

from tests.app.cli_here import trainshed_here
from tests.app.data.builders_formats import write_csv, write_json, write_pictures, write_text
from tests.app.data.builders_tables import catalog_in, table_rows, write_iceberg
from tests.app.inspect.builders import read_back
from tests.app.ray_run import PROGRAM, import_path, write_run
from trainshed.cli.main import cli
from trainshed.data.sources.errors import DataError
from trainshed.storage.folder import Folder
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED

ROWS = 100


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of rows and a TrainingRun, where the commands are typed."""
    write_csv(tmp_path / "csv" / "a.csv", 0, ROWS)
    write_csv(tmp_path / "semicolons" / "a.csv", 0, ROWS)
    file = tmp_path / "semicolons" / "a.csv"
    file.write_text(file.read_text().replace(",", ";"))
    write_text(tmp_path / "both" / "a.txt", 0, 3)
    write_json(tmp_path / "both" / "b.jsonl", 0, 3)
    write_pictures(tmp_path / "pictures", {"cat": 2, "dog": 1})
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "rows.xyz").write_text("rows")
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "delta" / "_delta_log" / "0.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    train: JsonValue = {
        "read": {"format": "csv", "path": "csv", "columns": ["id"]},
        "transforms": [{"use": "tests.app.inspect.functions:keep_even"}],
    }
    failing: JsonValue = {
        "read": {"format": "csv", "path": "csv"},
        "transforms": [{"use": "tests.app.inspect.functions:raise_at_once"}],
    }
    datasets: JsonValue = {
        "train": train,
        "failing": failing,
        "made": {"read": {"use": "tests.app.inspect.functions:absent"}},
        "both": {"read": {"mix": {"train": 1, "failing": 1}}},
    }
    write_run(tmp_path, "run", data={"datasets": datasets})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("TRAINSHED_HOME", raising=False)
    return tmp_path


def said(*words: str) -> str:
    """Return what a command prints where it is piped."""
    done = CliRunner().invoke(cli, ["data", *words], catch_exceptions=False)
    assert done.exit_code == EXIT_SUCCEEDED, done.output
    return done.output


def lines(*words: str) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in said(*words).splitlines()]


@pytest.mark.usefixtures("folder")
def test_piped_a_row_is_a_line_of_json() -> None:
    want = {"id": 1, "x": 0.125, "name": "two, with a comma"}
    assert lines("show", "csv", "--rows", "2")[1] == want
    assert lines("show", "csv/a.csv", "--columns", "x, id", "--rows", "1") == [{"x": 0.0, "id": 0}]
    assert len(lines("show", "csv")) == 10


@pytest.mark.usefixtures("folder")
def test_options_of_the_format_are_yaml() -> None:
    shown = lines("show", "semicolons", "--option", "delimiter=;", "--rows", "1")
    assert shown[0]["id"] == 0
    words = ("--option", "delimiter=;", "--option", "types.id=float32")
    columns = lines("schema", "semicolons", *words)[0]["columns"]
    assert isinstance(columns, list)
    assert columns[0] == {"name": "id", "stored": "float", "read": "float32", "after": "float32"}


@pytest.mark.usefixtures("folder")
def test_of_a_run_the_transforms_hold_unless_raw() -> None:
    shown = lines("show", "run.yaml", "--dataset", "train", "--rows", "3")
    assert shown == [{"id": 0}, {"id": 2}, {"id": 4}]
    assert said("count", "run.yaml", "--dataset", "train") == "50\n"
    assert said("count", "run.yaml", "--dataset", "train", "--raw") == "100\n"


def test_a_table_of_a_catalog_is_meant_by_its_name(folder: Path) -> None:
    write_iceberg(folder, table_rows(0, 5))
    told = [
        word
        for name, value in catalog_in(folder).items()
        for word in ("--option", f"catalog.{name}={value}")
    ]

    assert said("count", "shop.rows", "--format", "iceberg", *told) == "5\n"


def test_of_a_run_the_condition_and_the_part_hold(folder: Path) -> None:
    def dataset(keep: str) -> JsonValue:
        held: JsonValue = {"share": 0.3, "keep": keep}
        read: JsonValue = {
            "format": "csv",
            "path": "csv",
            "columns": ["x"],
            "where": "id >= 40",
            "holdout": held,
        }
        return {"read": read}

    datasets: JsonValue = {"train": dataset("rest"), "valid": dataset("held")}
    write_run(folder, "parts", data={"datasets": datasets})

    shown = [
        [row["x"] for row in lines("show", "parts.yaml", "--dataset", name, "--rows", "99")]
        for name in ("train", "valid")
    ]
    assert sorted([*shown[0], *shown[1]], key=str) == sorted(
        [n / 8 for n in range(40, 100)], key=str
    )
    for name, rows in zip(("train", "valid"), shown, strict=True):
        assert said("count", "parts.yaml", "--dataset", name) == f"{len(rows)}\n"
        said("write", "parts.yaml", "--dataset", name, "--to", name)
        assert read_back(folder / name)["x"].tolist() == rows


def test_of_each_value_the_share_of_a_run_holds(folder: Path) -> None:
    (folder / "labels").mkdir()
    rows = "".join(f"{number},{'few' if number % 10 == 0 else 'many'}\n" for number in range(100))
    (folder / "labels" / "a.csv").write_text(f"id,label\n{rows}")

    def dataset(keep: str) -> JsonValue:
        held: JsonValue = {"share": 0.3, "keep": keep, "stratify": "label"}
        return {"read": {"format": "csv", "path": "labels", "columns": ["id"], "holdout": held}}

    datasets: JsonValue = {"train": dataset("rest"), "valid": dataset("held")}
    write_run(folder, "strata", data={"datasets": datasets})

    for name, want in {"train": (7, 63), "valid": (3, 27)}.items():
        assert said("count", "strata.yaml", "--dataset", name) == f"{sum(want)}\n"
        said("write", "strata.yaml", "--dataset", name, "--to", name)
        ids = read_back(folder / name)["id"]
        few = sum(number % 10 == 0 for number in ids.tolist())
        assert (few, len(ids) - few) == want


def write_bad(folder: Path, limit: int = 3) -> None:
    """Write rows of which three are bad, one by a transform, and a dataset that leaves them out."""
    (folder / "bad").mkdir()
    (folder / "bad" / "a.csv").write_text("id,x\n0,0.5\nq,1\n1,1.5\n2,2\n3\n")
    (folder / "bad" / "b.csv").write_text("id,x\n4,4\n")
    skipping: JsonValue = {
        "read": {"format": "csv", "path": "bad", "options": {"types": {"id": "int64"}}},
        "transforms": [{"use": "tests.app.inspect.functions:raise_at_two"}],
        "onBadRecord": "skip",
        "badRecordLimit": limit,
    }
    write_run(folder, "bad", data={"datasets": {"train": skipping}})


OF_GOOD_ROWS = {
    "show": '{"id": 0, "x": 0.5}\n{"id": 1, "x": 1.5}\n{"id": 4, "x": 4.0}\n',
    "count": "3\n",
    "count --processes 2": "3\n",
    "count --by-file": '{"file": "a.csv", "rows": 2}\n{"file": "b.csv", "rows": 1}\n',
    "count --by id": "".join(f'{{"id": {number}, "rows": 1}}\n' for number in (0, 1, 4)),
    "stats": '{"name": "id", "type": "int64", "rows": 3, "missing": 0, "min": 0, "max": 4, ',
    "write --to new --shuffle 1": "3 rows in 1 file, ",
}


@pytest.mark.parametrize("command", OF_GOOD_ROWS)
def test_what_training_leaves_out_as_bad_is_left_out(command: str, folder: Path) -> None:
    """Each of these ended at the first bad record of a dataset that has leave for some."""
    write_bad(folder)

    words = ["data", *command.split(), "bad.yaml", "--dataset", "train"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)

    assert done.exit_code == EXIT_SUCCEEDED, done.output
    assert done.stdout.startswith(OF_GOOD_ROWS[command])
    field = "spec.data.datasets.train"
    assert f"{field}: 3 rows that cannot be used are left out (onBadRecord: skip)" in done.stderr
    assert "bad/a.csv: byte 11: " in done.stderr


def test_raw_rows_are_bad_only_as_they_are_stored(folder: Path) -> None:
    write_bad(folder)
    words = ["data", "count", "bad.yaml", "--dataset", "train", "--raw"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.stdout == "4\n"
    assert ": 2 rows that cannot be used are left out" in done.stderr


def test_types_are_those_of_good_rows(folder: Path) -> None:
    write_bad(folder)
    words = ["data", "schema", "bad.yaml", "--dataset", "train"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    id_of_rows = json.loads(done.stdout)["columns"][0]
    assert id_of_rows == {"name": "id", "stored": "int64", "read": "int64", "after": "int64"}


@pytest.mark.parametrize("command", ["show", "count", "count --by id", "write --to new"])
def test_more_bad_rows_than_a_run_may_leave_out_are_an_error(command: str, folder: Path) -> None:
    write_bad(folder, limit=1)

    words = ["data", *command.split(), "bad.yaml", "--dataset", "train"]
    done = CliRunner().invoke(cli, words)

    assert isinstance(done.exception, DataError)
    assert "more than its badRecordLimit of 1: correct or remove them" in str(done.exception)
    assert not (folder / "new").exists()


def test_counts_by_any_value_are_json(folder: Path) -> None:
    """The number replaced the values of a column `rows`; Infinity is no JSON."""
    columns = {
        "rows": [1, 1, 2],
        "x": [float("inf"), float("nan"), float("inf")],
        "b": [b"\xff"] * 3,
    }
    pq.write_table(pa.table(columns), folder / "odd.parquet")

    assert lines("count", "odd.parquet", "--by", "rows") == [
        {"rows": 1, "count": 2},
        {"rows": 2, "count": 1},
    ]
    assert lines("count", "odd.parquet", "--by", "x") == [
        {"x": "inf", "rows": 2},
        {"x": None, "rows": 1},
    ]
    assert lines("count", "odd.parquet", "--by", "b") == [{"b": "\\xff", "rows": 3}]


@pytest.mark.usefixtures("folder")
def test_a_schema_tells_columns_files_rows_and_fragments() -> None:
    found = lines("schema", "pictures")[0]
    assert (found["format"], found["files"], found["rows"]) == ("images", 3, 3)
    assert found["classes"] == ["cat", "dog"]
    assert found["columns"] == [
        {"name": "image", "stored": "binary", "read": "bytes", "after": "bytes"},
        {"name": "label", "stored": "int64", "read": "int64", "after": "int64"},
    ]
    assert found["fragments"] == {
        "count": 1,
        "leastBytes": found["bytes"],
        "medianBytes": found["bytes"],
        "mostBytes": found["bytes"],
    }
    guessed = lines("schema", "csv")[0]
    assert guessed["rows"] is None
    assert guessed["likelyRows"] == pytest.approx(ROWS, rel=0.05)


@pytest.mark.usefixtures("folder")
def test_counts_are_lines_of_json() -> None:
    assert said("count", "csv") == "100\n"
    assert lines("count", "csv", "--by-file") == [{"file": "a.csv", "rows": 100}]
    counted = lines("count", "pictures", "--by", "label")
    assert counted == [{"label": "cat", "rows": 2}, {"label": "dog", "rows": 1}]


@pytest.mark.usefixtures("folder")
def test_a_column_is_summed_up_in_a_line_of_json() -> None:
    assert lines("stats", "run.yaml", "--dataset", "train")[0] == {
        "name": "id",
        "type": "int64",
        "rows": 50,
        "missing": 0,
        "min": 0,
        "max": 98,
        "mean": 49.0,
        "std": pytest.approx(29.1547594742265),
        "sum": 2450,
        "values": None,
        "hasMore": False,
        "frequent": [],
    }
    (label,) = lines("stats", "pictures", "--column", "label")
    assert label["rows"] == 3
    assert label["mean"] == pytest.approx(1 / 3)


def test_what_is_written_is_told_and_there(folder: Path) -> None:
    told = said("write", "run.yaml", "--dataset", "train", "--to", "to/new", "--shuffle", "1")
    size = (folder / "to" / "new" / "part-00000.parquet").stat().st_size
    assert told == f"50 rows in 1 file, {size} B: {folder}/to/new\n"
    assert sorted(read_back(folder / "to" / "new")["id"]) == list(range(0, ROWS, 2))


@pytest.mark.s3
@pytest.mark.usefixtures("folder")
def test_a_bucket_is_read_and_written_by_its_address(in_bucket: Folder) -> None:
    there = in_bucket / "new"
    assert said("write", "csv", "--to", str(there)).endswith(f": {there}\n")
    assert lines("count", str(there), "--by-file") == [{"file": "part-00000.parquet", "rows": ROWS}]
    assert lines("show", f"{there}/part-00000.parquet", "--rows", "1")[0]["id"] == 0


REFUSED: dict[str, tuple[str, str]] = {
    "no such path": (
        "show nowhere",
        "error: SOURCE: got {folder}/nowhere; expected a file, or a folder with files",
    ),
    "an empty folder": (
        "show empty",
        "error: SOURCE: got {folder}/empty; expected a file, or a folder with files",
    ),
    "an address of no bucket": ("show ftp://x/y", "error: SOURCE: got ftp://x/y; expected a path"),
    "files of two formats": (
        "count both",
        "error: SOURCE: got {folder}/both; expected files of one format, or --format with one of "
        "json, text",
    ),
    "endings that tell nothing": (
        "count odd",
        "error: SOURCE: got {folder}/odd; expected files whose endings tell their format, or "
        "--format: rows.xyz tells none",
    ),
    "a Delta table": (
        "count delta",
        "error: SOURCE: got {folder}/delta; expected --format delta for the rows of this table",
    ),
    "no such format": ("show csv --format cvs", "Invalid value for '--format'"),
    "no such option": (
        "show csv --option separator=;",
        "error: --option separator: unknown option; format csv has delimiter, quote, escape",
    ),
    "an option without a value": (
        "show csv --option delimiter",
        'error: --option: got "delimiter"; expected name=value',
    ),
    "no such column": (
        "show csv --columns id,y",
        "error: --columns: got y; expected one of id, x, na",
    ),
    "no name of a column": ("show csv --columns id,", "Invalid value for '--columns': \"id,\" has"),
    "raw files": (
        "show csv --raw",
        "error: --raw: got files without --dataset; expected a dataset. Remove --raw",
    ),
    "no dataset": (
        "show run.yaml",
        "error: --dataset: missing; expected the name of a dataset of this TrainingRun file",
    ),
    "no such dataset": (
        "show run.yaml --dataset valid",
        'error: --dataset: got "valid"; expected one of train, failing, made, both',
    ),
    "how a dataset is read, twice": (
        "show run.yaml --dataset train --columns x --format csv",
        'error: --format: got "csv"; expected no value with --dataset. Set it in the '
        'TrainingRun file\nerror: --columns: got ["x"]; expected no value with --dataset',
    ),
    "a function that is not there": (
        "show run.yaml --dataset made",
        "error: spec.data.datasets.made.read.use: "
        "got tests.app.inspect.functions:absent; expected a name "
        "in tests.app.inspect.functions",
    ),
    "a mix": (
        "show run.yaml --dataset both",
        "error: spec.data.datasets.both.read.mix: got a mix; expected one that reads rows itself: "
        "--dataset with one of train, failing",
    ),
    "no such column to sum up": (
        "stats csv --column id --column y",
        'error: --column: got "y"; expected one of id, x, name',
    ),
    "counts by two": (
        "count csv --by-file --by id",
        "error: --by-file: got both it and --by; expected one of the two",
    ),
    "nowhere to write": ("write csv", "Missing option '--to'"),
    "an address of no bucket to write to": (
        "write csv --to ftp://x/y",
        "error: --to: got ftp://x/y; expected a path, file://, or a bucket's address",
    ),
    "a folder with something": (
        "write csv --to both",
        "error: --to: got {folder}/both; expected a new folder, or an empty one",
    ),
    "a file": (
        "write csv --to run.yaml",
        "error: --to: got {folder}/run.yaml; expected a new folder, or an empty one",
    ),
    "a folder below a file": (
        "write csv --to run.yaml/new",
        "error: --to: got {folder}/run.yaml/new; expected a folder below one that you may write "
        "to: {folder}/run.yaml is none",
    ),
    "a size that is none": (
        "write csv --to new --file-bytes 1X",
        'got "1X"; expected a Kubernetes',
    ),
    "a size that is too large": (
        "write csv --to new --file-bytes 1T",
        "got 1T; expected 1 to 2Gi",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said(case: str, folder: Path) -> None:
    words, want = REFUSED[case]
    before = sorted(folder.rglob("*"))

    done = trainshed_here("data", *words.split())

    assert (done.code, done.stdout) == (EXIT_INVALID, "")
    assert want.format(folder=folder) in done.stderr
    assert sorted(folder.rglob("*")) == before


def test_rows_before_groups_need_no_ray(folder: Path) -> None:
    groups: JsonValue = [
        {"use": "tests.app.inspect.functions:keep_even", "kind": "groups", "by": ["id"]}
    ]
    dataset: JsonValue = {"read": {"format": "csv", "path": "csv"}, "transforms": groups}
    write_run(folder, "grouped", data={"datasets": {"train": dataset}})
    assert said("count", "grouped.yaml", "--dataset", "train", "--raw") == f"{ROWS}\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["show", "schema", "count", "stats", "write --to new"])
def test_a_transform_that_fails_is_told_with_its_own_lines(command: str) -> None:
    words = [*command.split(), "run.yaml", "--dataset", "failing"]

    done = trainshed_here("data", *words)

    assert (done.code, done.stdout) == (EXIT_INVALID, "")
    assert 'raise ValueError("at once")' in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "error: spec.data.datasets.failing.transforms[0].use: "
        "tests.app.inspect.functions:raise_at_once raised ValueError: at once"
    )


@pytest.mark.usefixtures("folder")
def test_a_folder_that_is_being_written_is_no_data(folder: Path) -> None:
    (folder / "csv" / ".writing").touch()
    done = trainshed_here("data", "count", "csv")
    assert done.code == EXIT_INVALID
    assert "expected a folder that is whole: its .writing says that it is not" in done.stderr


IS_RAY_IMPORTED = (
    """
import atexit, sys
atexit.register(lambda: print("imported:", *{"ray", "torch"} & {*sys.modules}, file=sys.stderr))
"""
    + PROGRAM
)


def alone(folder: Path, *words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """Start `trainshed data WORDS` as a process of its own, which tells what it has imported."""
    return subprocess.Popen(
        [sys.executable, "-c", IS_RAY_IMPORTED, "data", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": import_path(), "COLUMNS": "100", "TERM": "xterm"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


IMPORTS_NO_RAY = """
import sys
from trainshed.cli.main import cli
for words in ("show", "schema", "count", "stats", "write --to new"):
    command = ["data", *words.split(), "run.yaml", "--dataset", "train"]
    assert cli(command, standalone_mode=False) in (None, 0), words
    assert not {"ray", "torch"} & {*sys.modules}, words
"""


def test_no_ray_is_imported(folder: Path) -> None:
    """One process for all commands: a new one takes seconds."""
    environment = os.environ | {"PYTHONPATH": import_path()}
    done = subprocess.run([sys.executable, "-c", IMPORTS_NO_RAY], env=environment, check=False)
    assert done.returncode == EXIT_SUCCEEDED
    assert (folder / "new").exists()


def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    process = alone(folder, "show", "csv", "--rows", "100")
    assert process.stdout is not None
    process.stdout.close()
    _, stderr = process.communicate()
    assert (process.returncode, stderr.strip()) == (EXIT_SUCCEEDED, "imported:")


def on_a_terminal(folder: Path, *words: str) -> str:
    """Return what a person sees, without colours."""
    here, there = pty.openpty()
    process = alone(folder, *words, stdout=there)
    process.communicate()
    os.close(there)
    seen = b""
    with contextlib.suppress(OSError):  # how Linux says that nobody writes any more
        while block := os.read(here, 2**16):
            seen += block
    os.close(here)
    return re.sub(r"\x1b\[[0-9;]*m", "", seen.decode()).replace("\r\n", "\n")


def test_a_person_sees_tables_that_the_terminal_does_not_obey(folder: Path) -> None:
    rows = [
        {"id": 1, "text": "\x1b]0;mine\x07", "list": [1, 2]},
        {"id": 2, "text": "[b]", "list": [3]},
    ]
    (folder / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    shown = [line.split() for line in on_a_terminal(folder, "show", "odd.jsonl").splitlines()]

    assert shown == [
        ["id", "text", "list"],
        ["0", "1", "\ufffd]0;mine\ufffd", "int64[2]", "1", "2"],
        ["1", "2", "[b]", "int64[1]", "3"],
    ]


def test_a_person_sees_names_of_fields_that_the_terminal_does_not_obey(folder: Path) -> None:
    (folder / "odd.jsonl").write_text(json.dumps({"x": {"\x1b]0;mine\x07": 1}}))
    shown = on_a_terminal(folder, "schema", "odd.jsonl")
    assert "\x1b" not in shown
    assert "struct<\ufffd]0;mine\ufffd: int64>" in shown


def test_an_error_holds_no_words_for_the_terminal(folder: Path) -> None:
    """What Arrow says has the cell that it cannot read."""
    (folder / "odd.csv").write_text("x\n\x1b]0;mine\x07\n")
    done = trainshed_here("data", "show", "odd.csv", "--option", "types.x=int64")
    assert done.code == EXIT_INVALID
    assert "\x1b" not in done.stderr
    assert "]0;mine" in done.stderr


def test_a_person_sees_wide_rows_as_blocks(folder: Path) -> None:
    (folder / "wide.jsonl").write_text(json.dumps({f"c{number}": number for number in range(9)}))
    shown = on_a_terminal(folder, "show", "wide.jsonl").splitlines()
    assert [line.split() for line in shown[:3]] == [
        ["column", "value"],
        ["0", "c0", "0"],
        ["c1", "1"],
    ]


def test_a_person_sees_schema_and_counts(folder: Path) -> None:
    schema = on_a_terminal(folder, "schema", "run.yaml", "--dataset", "train").splitlines()
    assert schema[0].split() == ["column", "stored", "read", "after", "transforms"]
    assert schema[1].split() == ["id", "int64", "int64", "int64"]
    assert schema[3].startswith("rows: about 1")
    counted = on_a_terminal(folder, "count", "pictures", "--by", "label").splitlines()
    assert [line.split() for line in counted] == [
        ["label", "rows", "share"],
        ["cat", "2", "67", "%"],
        ["dog", "1", "33", "%"],
        ["all", "3"],
    ]


def test_a_person_sees_what_columns_hold(folder: Path) -> None:
    rows = [{"x": number, "kind": "[b]" if number else "\x1b]0;mine\x07"} for number in range(3)]
    (folder / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    shown = on_a_terminal(folder, "stats", "odd.jsonl").splitlines()

    none = "\N{EN DASH}"
    assert [line.split() for line in shown] == [
        ["column", "type", "rows", "missing", "min", "max", "mean", "std", "values"],
        ["x", "int64", "3", "0", "0", "2", "1", "1", none],
        ["kind", "text", "3", "0", *[none] * 4, "2:", "[b]", "2,", "\ufffd]0;mine\ufffd", "1"],
    ]
