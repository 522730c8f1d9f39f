"""Of each value of a column of files exactly the share is held out, wherever rows are read."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.data.builders_buckets import files_behind
from tests.app.data.builders_formats import FIELD, open_files, write_pictures
from tests.app.data.builders_plan import MemoryBlocks, make_pass, make_plan
from tests.app.data.builders_records import write_records
from tests.app.data.builders_tables import write_delta, write_lance
from tests.app.data.builders_tar import write_tar
from tests.builders import make_data, make_run
from tests.bundle.repository import ROOT
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from tests.s3_faults import Rule
from trainshed.data.loader.batches import Feed
from trainshed.data.sampler.bad_records import BadRecordList
from trainshed.data.sampler.dataset_plan import DatasetPlan
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources import opener, stratifying
from trainshed.data.sources.column_arrays import Columns, join
from trainshed.data.sources.dataset_files import open_source, read_fragment
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import webdataset
from trainshed.data.sources.fragment_reader import Reading, read_whole, reading
from trainshed.data.sources.stratifying import KnownStrata, kinds_of
from trainshed.planning.explanation import explain_lines
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec

ROWS = 600
# (rows,): 5, 100, 195 and 300 of them, and those of each lie anywhere.
LABELS = np.random.default_rng(0).permutation(np.repeat([7, 1, 2, 0], [5, 100, 195, 300]))
# Of a share of 0.3, halves up.
WANT = {7: 2, 1: 30, 2: 59, 0: 90}


def write_parquet(folder: Path, table: pa.Table) -> None:
    """Write two files of three row groups each."""
    half = len(table) // 2
    for number in range(2):
        pq.write_table(
            table.slice(number * half, half), folder / f"{number}.parquet", row_group_size=half // 3
        )


def write_csv(folder: Path, table: pa.Table) -> None:
    """Write two files."""
    half = len(table) // 2
    for number in range(2):
        pyarrow.csv.write_csv(table.slice(number * half, half), folder / f"{number}.csv")


def write_json(folder: Path, table: pa.Table) -> None:
    """Write a file of lines."""
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def write_shards(folder: Path, table: pa.Table) -> None:
    """Write a tar file of samples."""
    files = {}
    for row in table.to_pylist():
        files[f"{row['id']:04}.cls"] = str(row["label"]).encode()
        files[f"{row['id']:04}.txt"] = str(row["id"]).encode()
    write_tar(folder / "a.tar", files)


def write_partitions(folder: Path, table: pa.Table) -> None:
    """Write a table of which no file holds the label."""
    write_delta(folder, table, partitions=["label"])


WRITERS: dict[str, Callable[[Path, pa.Table], None]] = {
    "parquet": write_parquet,
    "csv": write_csv,
    "json": write_json,
    "delta": write_partitions,
    "lance": write_lance,
    "tfrecords": lambda folder, table: write_records(folder / "a.tfrecord", table.to_pylist()),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows with id, label and a half, in a folder for each format."""
    home = tmp_path_factory.mktemp("home")
    table = pa.table({"id": np.arange(ROWS), "label": LABELS, "half": np.arange(ROWS) + 0.5})
    for form, write in WRITERS.items():
        if form != "lance":
            (home / form).mkdir()
        write(home / form, table)
    return home


def holdout(keep: str, share: float = 0.3, column: str = "label", seed: int = 0) -> JsonValue:
    """Return a spec's `holdout`."""
    return {"share": share, "keep": keep, "stratify": column, "seed": seed}


def opened(folder: Path, form: str, known: KnownStrata | None = None, **read: JsonValue) -> Source:
    """Return what is known of a folder's files."""
    spec = ReadSpec.model_validate({"format": form, "path": str(folder), **read})
    return open_source(Disk(folder), spec, FIELD, known=known)


def rows_of(folder: Path, form: str, keep: str, **read: JsonValue) -> Columns:
    """Return all rows of a side."""
    return read_as(folder, {"format": form, "holdout": holdout(keep), **read})


def read_as(folder: Path, read: dict[str, JsonValue]) -> Columns:
    """Return all rows of a dataset."""
    plan = make_plan(folder, read=read)
    assert plan.source
    tables = [read_whole(reading(plan), fragment) for fragment in plan.source.fragments]
    return join([table for table in tables if table])


def ids_of(folder: Path, form: str, keep: str, **read: JsonValue) -> list[int]:
    """Return which rows are on a side."""
    ids: list[int] = rows_of(folder, form, keep, **read)["id"].tolist()
    return ids


@pytest.mark.parametrize("form", WRITERS)
def test_of_each_value_exactly_the_share_is_held_out(home: Path, form: str) -> None:
    held, rest = (ids_of(home / form, form, keep) for keep in ("held", "rest"))

    assert Counter(LABELS[held].tolist()) == WANT
    assert sorted([*held, *rest]) == list(range(ROWS))


@pytest.mark.parametrize("world_size", [1, 2, 5])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_any_number_of_workers_trains_on_the_same_side(
    home: Path, form: str, world_size: int
) -> None:
    read: dict[str, JsonValue] = {"format": form, "holdout": holdout("rest")}
    plan = make_plan(
        home / form,
        read=read,
        cache="none",
        steps="known",
        shuffle={"mode": "blocks"},
        feed={"lastBatch": "keep"},
    )
    at = make_pass(world_size=world_size, batch_size=8 * world_size, seed=world_size)

    ids = [
        batch.tensors["id"].numpy()[: batch.rows]
        for rank in range(world_size)
        for batch in Feed(plan, MemoryBlocks(plan, rank), rank).batches(at)
    ]

    assert sorted(np.concatenate(ids).tolist()) == sorted(ids_of(home / form, form, "rest"))


OTHERWISE: dict[str, dict[str, JsonValue]] = {
    "other columns": {"columns": ["id"]},
    "the column after others": {"columns": ["half", "label", "id"]},
}


@pytest.mark.parametrize("read", OTHERWISE.values(), ids=OTHERWISE)
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_what_else_is_read_moves_no_row(home: Path, form: str, read: dict[str, JsonValue]) -> None:
    found = rows_of(home / form, form, "held", **read)

    assert list(found) == read["columns"]
    assert found["id"].tolist() == ids_of(home / form, form, "held")


def test_a_condition_chooses_among_the_rows_of_a_side(home: Path) -> None:
    """Whatever it is: the other side may have another condition."""
    held = ids_of(home / "parquet", "parquet", "held")

    some = ids_of(home / "parquet", "parquet", "held", where="id < 200")
    label = ids_of(home / "parquet", "parquet", "held", where="label == 2")

    assert some == [row for row in held if row < 200]
    assert len(label) == WANT[2]


def test_another_seed_or_share_holds_other_rows_out(home: Path) -> None:
    ways = [holdout("held"), holdout("held", seed=1), holdout("held", share=0.5)]
    zero, one, half = (set(ids_of(home / "csv", "csv", "held", holdout=way)) for way in ways)

    assert len(zero) == len(one)
    assert zero != one
    assert zero < half  # by the same numbers


def test_values_of_samples_are_read_alone(tmp_path: Path) -> None:
    """Of tar files only reading tells which columns there are."""
    table = pa.table({"id": np.arange(ROWS), "label": LABELS})
    write_shards(tmp_path, table)

    sides = [
        rows_of(tmp_path, "webdataset", keep, holdout=holdout(keep, column="cls"))
        for keep in ("held", "rest")
    ]

    assert Counter(sides[0]["cls"].tolist()) == WANT
    texts = [text for side in sides for text in side["txt"].tolist()]
    assert sorted(map(int, texts)) == list(range(ROWS))


def test_labels_of_folders_are_values(tmp_path: Path) -> None:
    """Pictures are read many at once, and each is a row."""
    write_pictures(tmp_path, {"cats": 40, "dogs": 11})

    labels = rows_of(tmp_path, "images", "held", holdout=holdout("held", 0.1))["label"]

    assert Counter(labels.tolist()) == {0: 4, 1: 1}


VALUES: dict[str, pa.Array] = {
    "texts": pa.array(["a", "b", "a", "", "a", "b", "a", "a"]),
    "bytes": pa.array([b"a", b"\xff", b"a", b"a", b"a", b"\xff"]),
    "booleans": pa.array([True, False, True, True, False]),
    "floats of 16 bits": pa.array(np.asarray([1, 2, 1, 1, 0], np.float16)),
    "floats that are whole": pa.array([1.0, 2.0, 1.0, -0.0, 0.0, 1.0]),
    "missing numbers": pa.array([1, None, None, 1, None, 1, None]),
    "missing booleans": pa.array([True, None, None, True, None, False, None]),
    "missing texts": pa.array(["a", None, None, "a", None, "a", None]),
    "nothing but missing ones": pa.array([None, None, None, None], pa.int32()),
    "days": pa.array([1, 2, 1, 1, 1, 2], pa.date32()),
    "times": pa.array([1, 2, 1, 1, 1, 2], pa.timestamp("us")),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_values_of_these_types_are_told_apart(tmp_path: Path, values: pa.Array) -> None:
    """What is missing is a value of its own."""
    table = pa.table({"id": np.arange(len(values)), "label": values})
    pq.write_table(table, tmp_path / "a.parquet")

    held = ids_of(tmp_path, "parquet", "held", holdout=holdout("held", 0.5))

    python = values.to_pylist()
    want = {value: (rows + 1) // 2 for value, rows in Counter(python).items()}
    assert Counter(python[row] for row in held) == want


def test_booleans_of_lines_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,label\n0,true\n1,\n2,true\n3,false\n4,\n5,false\n")

    held = ids_of(tmp_path, "csv", "held", holdout=holdout("held", 0.5))

    assert Counter(("t", "", "t", "f", "", "f")[row] for row in held) == {"t": 1, "": 1, "f": 1}


def test_a_number_is_one_value_whatever_type_a_file_has_for_it(tmp_path: Path) -> None:
    """Whole numbers are floats in what is read together with a missing one."""
    for name, ids, labels in (("a", [0, 1, 2], [5, 5, 5]), ("b", [3, 4], [5, None])):
        table = pa.table({"id": ids, "label": pa.array(labels, pa.int64())})
        pq.write_table(table, tmp_path / f"{name}.parquet")

    held = ids_of(tmp_path, "parquet", "held", holdout=holdout("held", 0.5))

    assert len(held) == 3
    assert 4 in held


def refused(table: pa.Table, tmp_path: Path, **held: JsonValue) -> str:
    """Return what is said of a column before anything starts."""
    pq.write_table(table, tmp_path / "a.parquet")
    read: JsonValue = {"share": 0.5, "keep": "held", "stratify": "label", **held}
    with pytest.raises(SpecError) as caught:
        opened(tmp_path, "parquet", holdout=read)
    (problem,) = caught.value.problems
    return str(problem)


COLUMN = f"{FIELD}.holdout.stratify"
NO_CLASSES: dict[str, tuple[pa.Array, str]] = {
    "numbers with a fraction": (pa.array([1.0, 0.25]), "has 0.25"),
    "infinity": (pa.array([1.0, float("inf")]), "has inf"),
    "whole numbers that are no floats": (pa.array([1, 2**53]), f"has {2**53}"),
    "decimals with a fraction": (pa.array([Decimal("1.50"), Decimal("2.00")]), "has 1.50"),
    "lists": (pa.array([[1], [2, 3]]), "has "),
    "days that no calendar has": (pa.array([2**30], pa.date32()), "has days="),
}


@pytest.mark.parametrize(("values", "said"), NO_CLASSES.values(), ids=NO_CLASSES)
def test_a_column_that_tells_no_values_apart_is_refused(
    tmp_path: Path, values: pa.Array, said: str
) -> None:
    problem = refused(pa.table({"label": values}), tmp_path)

    assert problem.startswith(
        f"{COLUMN}: got label; expected {stratifying.EXPECTED}: {tmp_path}/a.parquet"
    )
    assert said in problem


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    problem = refused(pa.table({"label": [1], "id": [1]}), tmp_path, stratify="class")

    assert problem == f"{COLUMN}: got class; expected one of label, id"


def test_rows_of_a_file_that_lacks_the_column_have_a_share_too(tmp_path: Path) -> None:
    for name, column in {"a": "label", "b": "other"}.items():
        rows = pa.table({"id": range(10), column: [1] * 10})
        pq.write_table(rows, tmp_path / f"{name}.parquet")

    source = opened(tmp_path, "parquet", columns=["id"], holdout=holdout("held"))

    assert source.likely_rows == 6


def test_a_column_of_too_many_values_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stratifying, "MOST_VALUES", 10)

    problem = refused(pa.table({"label": np.arange(11)}), tmp_path)

    want = "a column of at most 10 values, such as labels: it has more"
    assert problem == f"{COLUMN}: got label; expected {want}"


def test_files_in_which_no_record_has_a_value_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,label\n0,p\n1,q\n")
    options: dict[str, JsonValue] = {"types": {"label": "int64"}}

    with pytest.raises(SpecError) as caught:
        open_files(tmp_path, "csv", options, skips_bad=True, holdout=holdout("held"))

    assert (
        str(caught.value)
        == f"{COLUMN}: got label; expected a column that can be read: no record's can"
    )


def test_datasets_that_find_other_values_in_the_same_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip\n" + "01\n1\n" * 20)
    known = KnownStrata()
    sides: dict[str, JsonValue] = {"held": "int64", "rest": "string"}
    read: dict[str, dict[str, JsonValue]] = {
        keep: {"holdout": holdout(keep, column="zip"), "options": {"types": {"zip": of}}}
        for keep, of in sides.items()
    }
    opened(tmp_path, "csv", known, **read["held"])

    with pytest.raises(
        SpecError, match=r"stratify: got zip; expected .*read both with one options"
    ):
        opened(tmp_path, "csv", known, **read["rest"])


def test_looking_at_samples_holds_no_content_of_other_members(tmp_path: Path) -> None:
    parts = {f"{number}.{end}": b"3" for number in range(4) for end in ("cls", "txt")}
    write_tar(tmp_path / "a.tar", parts)
    source = opened(tmp_path, "webdataset")
    (fragment,) = source.fragments
    held: list[dict[str, bytes]] = []
    with pytest.MonkeyPatch.context() as patched:
        columns = webdataset._columns

        def noted(rows: Sequence[webdataset._Sample], *rest: Any) -> Columns:
            held.extend({end: each.content for end, each in row.members.items()} for row in rows)
            return columns(rows, *rest)

        patched.setattr(webdataset, "_columns", noted)
        list(read_fragment(source.scan, fragment, ("cls",), 8))

    assert held == [{"cls": b"3", "txt": b""}] * 4


def test_planning_keeps_no_files_of_a_bucket(
    s3: S3Server, through_proxy: Bucket, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(home / "parquet", files_behind(s3, through_proxy), dirs_exist_ok=True)

    def never(*_: object) -> object:
        raise AssertionError("a file is fetched")

    monkeypatch.setattr(opener, "kept_here", never)
    read = {"format": "parquet", "path": str(through_proxy), "localCache": "1Gi"}
    spec = ReadSpec.model_validate({**read, "holdout": holdout("held")})

    assert open_source(through_proxy, spec, FIELD).likely_rows == sum(WANT.values())


SIDES = {"held": ("0.1", "a larger share"), "rest": ("0.9", "a smaller share")}


@pytest.mark.parametrize("keep", SIDES)
def test_a_share_that_leaves_a_side_without_a_row_is_refused(tmp_path: Path, keep: str) -> None:
    share, want = SIDES[keep]
    table = pa.table({"label": [1, 2, 3, 3]})

    problem = refused(table, tmp_path, share=float(share), keep=keep)

    why = "no value of label has enough rows to leave one here"
    assert problem == f"{FIELD}.holdout.share: got {share}; expected {want}: {why}"


def test_a_value_that_comes_after_the_plan_ends_the_run(tmp_path: Path) -> None:
    pq.write_table(pa.table({"label": [1, 2]}), tmp_path / "a.parquet")
    plan = make_plan(tmp_path, read={"holdout": holdout("held", 0.5)})
    pq.write_table(pa.table({"label": [1, 3]}), tmp_path / "a.parquet")
    assert plan.source
    as_if_not_seen = replace(plan.source.fragments[0], stamps=())

    with pytest.raises(
        DataError, match=r"a\.parquet: column label has a value that it did not have"
    ):
        read_whole(reading(plan), as_if_not_seen)


def told_by(plan: DatasetPlan) -> tuple[Reading, list[BadRecordList]]:
    """Return how rows are read, and what is said of bad ones."""
    told: list[BadRecordList] = []
    return replace(reading(plan), tell=told.append), told


def test_bad_records_have_no_value_and_move_no_row(tmp_path: Path) -> None:
    """One whose label cannot be read is on no side; both say so, as nobody knows whose it is."""
    lines = ["id,label,price", *(f"{row},{row % 2},{row}" for row in range(20))]
    lines[5:5] = ["x,no label,1", "y"]
    (tmp_path / "a.csv").write_text("\n".join([*lines[:-1], "19,1,no price"]) + "\n")
    options: JsonValue = {"types": {"id": "int64", "label": "int64", "price": "int64"}}

    def side(keep: str, *columns: str) -> tuple[list[int], int]:
        read: dict[str, JsonValue] = {
            "format": "csv",
            "options": options,
            "columns": list(columns),
            "holdout": holdout(keep),
        }
        plan = make_plan(tmp_path, read=read, onBadRecord="skip")
        how, told = told_by(plan)
        assert plan.source
        [fragment] = plan.source.fragments
        return read_whole(how, fragment)["id"].tolist(), told[-1].rows

    (held, bad_held), (rest, bad_rest) = side("held", "id"), side("rest", "id")
    assert sorted([*held, *rest]) == list(range(20))
    assert Counter(row % 2 for row in held) == {0: 3, 1: 3}
    assert bad_held == bad_rest == 2

    # A price that cannot be read leaves its row out of its side, and moves no other.
    with_price = [*side("held", "id", "price")[0], *side("rest", "id", "price")[0]]
    assert sorted(with_price) == list(range(19))
    assert side("rest", "id", "price")[0] == [row for row in rest if row != 19]


def test_a_bad_record_is_refused_where_none_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,label\n0,1\n1,q\n")
    options: dict[str, JsonValue] = {"types": {"label": "int64"}}

    with pytest.raises(SpecError, match="onBadRecord: skip leaves such records out"):
        open_files(tmp_path, "csv", options, holdout=holdout("held"))


def test_two_datasets_of_the_same_files_look_at_them_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def counted(array: np.ndarray[tuple[int], np.dtype[np.generic]]) -> object:
        looked.append(len(array))
        return kinds_of(array)

    monkeypatch.setattr(stratifying, "kinds_of", counted)
    known = KnownStrata()
    ways: list[tuple[JsonValue, JsonValue]] = [
        (holdout("held"), []),
        (holdout("rest"), ["id"]),
        (holdout("rest", seed=1), []),
    ]
    found = [
        opened(home / "parquet", "parquet", known, holdout=held, columns=columns)
        for held, columns in ways
    ]

    assert sum(looked) == 2 * ROWS
    strata = [source.scan.selection.holdout.strata for source in found]  # type: ignore[union-attr]
    assert strata[0] is strata[1] != strata[2]


def test_explain_says_that_planning_reads_the_column(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 80)
    pq.write_table(pa.table({"id": range(80), "label": [0, 1] * 40}), tmp_path / "l.parquet")

    def chosen(keep: str) -> Iterator[str]:
        read: JsonValue = {"format": "parquet", "path": "l.parquet", "holdout": holdout(keep)}
        run = make_run(train="tests.app.processes:children", data=make_data({"read": read}))
        lines = explain_lines(prepare(run, RunLocation(Disk(tmp_path))))
        return (line.strip() for line in lines if "holdout  " in line)

    column = "holdout   planning reads column label of all rows once"
    said: dict[str, Sequence[str]] = {keep: list(chosen(keep)) for keep in ("held", "rest")}
    assert said["held"] == [
        "holdout   rows in the holdout by label: 24 of 80, 30.0% of each of 2 values",
        column,
    ]
    assert said["rest"] == [
        "holdout   rows outside the holdout by label: 56 of 80, 70.0% of each of 2 values",
        column,
    ]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_the_same_rows_of_a_bucket_are_held_out_whatever_is_lost(
    home: Path, s3: S3Server, faulty_s3: FaultyS3, through_proxy: Bucket, form: str
) -> None:
    folder = files_behind(s3, through_proxy)
    shutil.copytree(home / form, folder, dirs_exist_ok=True)
    spec = ReadSpec.model_validate(
        {"format": form, "path": str(through_proxy), "holdout": holdout("held")}
    )

    faulty_s3.add(Rule("answer lost", every=4))
    found = open_source(through_proxy, spec, FIELD).scan.selection.holdout

    here = opened(home / form, form, holdout=holdout("held")).scan.selection.holdout
    assert found == here


PAGE = (ROOT / "docs" / "data" / "rows.md").read_text("utf-8")
[SHOWN] = re.findall(r"^```yaml\n([^`]*stratify[^`]*)^```$", PAGE, re.MULTILINE)


def test_what_the_page_shows_holds_out_as_many_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flights").mkdir()
    carriers = ["AA"] * 45 + ["DL"] * 44 + ["UA"]
    # carrier itself is not among the columns that the page reads: each has a distance of its own.
    distances = [{"AA": 100, "DL": 200, "UA": 300}[prefetcher] for prefetcher in carriers]
    table = pa.table(
        {"carrier": carriers, "distance": distances, "hour": np.arange(90), "late": [False] * 90}
    )
    pq.write_table(table, "flights/a.parquet")
    datasets = yaml.safe_load(SHOWN)["data"]["datasets"]

    sides = {name: read_as(Path("flights"), each["read"]) for name, each in datasets.items()}

    assert Counter(sides["valid"]["distance"].tolist()) == {100: 5, 200: 4}
    assert Counter(sides["train"]["distance"].tolist()) == {100: 40, 200: 40, 300: 1}
