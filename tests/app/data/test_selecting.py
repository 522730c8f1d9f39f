"""Rows that a condition or a part leaves out are left out everywhere, and nothing else is."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from tests.app.data.builders_formats import FIELD, write_csv, write_pictures
from trainshed.data.sampler.dataset_plan import plan_dataset
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sampler.sizes import CacheMemory, Measured
from trainshed.data.sources.column_arrays import Columns, join
from trainshed.data.sources.dataset_files import open_source
from trainshed.data.sources.fragment_reader import read_whole, reading
from trainshed.storage.disk import Disk
from trainshed_api.data import DatasetSpec
from trainshed_api.errors import SpecError

ROWS = 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows with id, half, a word that may be missing, and bits, in four row groups of two files."""
    folder = tmp_path_factory.mktemp("rows")
    ids = np.arange(ROWS)
    words = [None if number % 10 == 0 else f"word {number % 3}" for number in ids.tolist()]
    table = pa.table({"id": ids, "half": ids / 2, "a word": words, "odd": ids % 2 == 1})
    for number, start in enumerate((0, 1000)):
        path = folder / f"part-{number}.parquet"
        pq.write_table(table.slice(start, 1000), path, row_group_size=500)
    return folder


def opened(folder: Path, form: str = "parquet", **read: JsonValue) -> tuple[Source, Columns]:
    """Return a source and all rows of it."""
    spec = DatasetSpec.model_validate({"read": {"format": form, "path": str(folder), **read}})
    source = open_source(Disk(folder), spec.read, FIELD)
    memory, sample = CacheMemory(2**30, 2**30), Measured(20.0, keeps_rows=True)
    plan = plan_dataset("train", spec, source, sample, memory, 1)
    rows = [read_whole(reading(plan), fragment) for fragment in source.fragments]
    tables = [table for table in rows if table]
    return source, join(tables) if tables else {}


Holds = Callable[[int], bool]
CONDITIONS: dict[str, Holds] = {
    "id < 5": lambda row: row < 5,
    "5 > id": lambda row: row < 5,
    "id >= 1990 or id == 3": lambda row: row >= 1990 or row == 3,
    "10 <= id < 20 and not odd == True": lambda row: 10 <= row < 20 and row % 2 == 0,
    "id in (7, 1, 5000)": lambda row: row in (7, 1),
    "id not in [0, 1] and id <= 3": lambda row: row in (2, 3),
    "half == 2.5": lambda row: row == 5,
    'col("a word") == "word 1"': lambda row: row % 10 != 0 and row % 3 == 1,
    'col("a word") is None': lambda row: row % 10 == 0,
    'col("a word") is not None and id < 4': lambda row: row in (1, 2, 3),
    'col("a word") in ("word 1", "word 2")': lambda row: row % 10 != 0 and row % 3 > 0,
    'col("a word") not in ("word 1",)': lambda row: row % 10 != 0 and row % 3 != 1,
    'not (col("a word") in ("word 1",))': lambda row: row % 10 != 0 and row % 3 != 1,
    'not (col("a word") == "word 1")': lambda row: row % 10 != 0 and row % 3 != 1,
    'col("a word") not in ("word 1",) or col("a word") is None': (
        lambda row: row % 10 == 0 or row % 3 != 1
    ),
    'not (col("a word") in ("word 1",) and id >= 0)': lambda row: row % 10 != 0 and row % 3 != 1,
    'not (col("a word") not in ("word 1",))': lambda row: row % 10 != 0 and row % 3 == 1,
    "id != 0": lambda row: row != 0,
    "id > -1": lambda row: row >= 0,
}


@pytest.mark.parametrize(("where", "holds"), CONDITIONS.items(), ids=CONDITIONS)
def test_rows_that_meet_a_condition_are_read(folder: Path, where: str, holds: Holds) -> None:
    _, found = opened(folder, where=where)

    assert found["id"].tolist() == [row for row in range(ROWS) if holds(row)]


@pytest.mark.parametrize("sign", ["==", "!=", "<=", ">", ">=", "in"])
def test_numbers_of_32_bits_meet_what_is_written_in_one_row_group_or_two(
    tmp_path: Path, sign: str
) -> None:
    """0.1 is no number of 32 bits: what a row group may have was asked with 64, and so lost."""
    values = np.repeat(np.asarray([0.1, 0.5], dtype=np.float32), 100)
    table, where = pa.table({"x": values}), f"x {sign} {'(0.1, 0.7)' if sign == 'in' else 0.1}"
    (tmp_path / "two").mkdir()
    pq.write_table(table, tmp_path / "one.parquet")
    for number, start in enumerate((0, 100)):
        pq.write_table(table.slice(start, 100), tmp_path / "two" / f"{number}.parquet")

    found = [opened(tmp_path / name, where=where)[1]["x"] for name in ("one.parquet", "two")]

    kept = {"==": values[:100], "in": values[:100], "<=": values[:100], ">=": values}
    assert [rows.tolist() for rows in found] == [kept.get(sign, values[100:]).tolist()] * 2


@pytest.mark.parametrize(
    ("where", "want"),
    [("ok == True", [0, 3]), ("ok in (False,)", [1]), ("not ok == True", [1]), ("ok is None", [2])],
)
def test_booleans_of_which_some_are_missing_are_asked_as_such(
    tmp_path: Path, where: str, want: list[int]
) -> None:
    oks = pa.array([True, False, None, True])
    pq.write_table(pa.table({"id": range(4), "ok": oks}), tmp_path / "a.parquet")

    _, found = opened(tmp_path, where=where)

    assert found["id"].tolist() == want


def test_a_column_without_a_value_is_in_no_list(tmp_path: Path) -> None:
    for number, word in enumerate([None, "a"]):
        table = pa.table({"id": [number], "word": pa.array([word], pa.string())})
        pq.write_table(table, tmp_path / f"{number}.parquet")

    _, found = opened(tmp_path, where="word in ('a', 'b')")

    assert found["id"].tolist() == [1]


def test_a_condition_may_be_on_a_column_that_is_not_read(folder: Path) -> None:
    _, found = opened(folder, columns=["half"], where="id < 3")

    assert {name: array.tolist() for name, array in found.items()} == {"half": [0.0, 0.5, 1.0]}


def test_row_groups_that_cannot_have_such_rows_are_not_read(folder: Path) -> None:
    source, _ = opened(folder, where="id < 5")

    assert [fragment.path for fragment in source.fragments] == [f"{folder}/part-0.parquet"]


@pytest.mark.parametrize(("keep", "want"), [("rest", ["a", "c"]), ("held", ["b", "c"])])
def test_row_groups_of_the_other_side_of_a_time_are_not_read(
    tmp_path: Path, keep: str, want: list[str]
) -> None:
    for name, days in {"a": [1, 2], "b": [8, 9], "c": [8, None]}.items():
        pq.write_table(pa.table({"day": days}), tmp_path / f"{name}.parquet")

    source, found = opened(tmp_path, holdout={"by": "day", "before": "5", "keep": keep})

    read = [Path(fragment.path).stem for fragment in source.fragments]
    assert read == want
    assert len(found["day"]) == 3


def test_a_row_group_with_nan_may_have_rows_without_a_value(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1.0, float("nan")])})
    pq.write_table(table, tmp_path / "a.parquet")

    assert len(opened(tmp_path, where="x is None")[1]["x"]) == 1


@pytest.mark.parametrize("sign", ["in", "not in"])
def test_row_groups_are_left_out_as_rows_without_a_value_are(sign: str, tmp_path: Path) -> None:
    """A row group of one value and nothing: by its ends it may meet `in`, its rows decide."""
    words = ["a", None, "a", None, "b", None, None, None]
    pq.write_table(pa.table({"word": words}), tmp_path / "a.parquet", row_group_size=2)

    _, found = opened(tmp_path, where=f'word {sign} ("a",)')

    assert found["word"].tolist() == (["a", "a"] if sign == "in" else ["b"])


def test_rows_of_other_formats_are_chosen_alike(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 20)

    _, found = opened(tmp_path, "csv", where='name == "two, with a comma" and x < 2')

    assert found["id"].tolist() == [1, 5, 9, 13]


def test_two_parts_have_each_row_once_whatever_else_they_say(folder: Path) -> None:
    held: JsonValue = {"share": 0.25, "keep": "held"}
    rest: JsonValue = {"share": 0.25, "keep": "rest"}

    _, one = opened(folder, holdout=held)
    _, other = opened(folder, holdout=rest, columns=["id"])
    _, some = opened(folder, holdout=held, where="id < 700")

    assert sorted([*one["id"].tolist(), *other["id"].tolist()]) == list(range(ROWS))
    assert len(one["id"]) == pytest.approx(ROWS / 4, rel=0.15)
    assert some["id"].tolist() == [row for row in one["id"].tolist() if row < 700]


def test_another_file_changes_the_part_of_no_row(folder: Path, tmp_path: Path) -> None:
    before = opened(folder, holdout={"share": 0.5, "keep": "held"})[1]["id"].tolist()
    for path in folder.glob("*.parquet"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    pq.write_table(pq.read_table(folder / "part-0.parquet"), tmp_path / "a-first.parquet")

    after = opened(tmp_path, holdout={"share": 0.5, "keep": "held"})[1]["id"].tolist()

    assert after[-len(before) :] == before


def test_another_picture_changes_the_part_of_none(tmp_path: Path) -> None:
    """Pictures are read many at once; each was drawn by its place among those read with it."""
    write_pictures(tmp_path, {"cats": 40, "dogs": 40})
    read: dict[str, JsonValue] = {"columns": ["path"], "holdout": {"share": 0.5, "keep": "held"}}
    before = opened(tmp_path, "images", **read)[1]["path"].tolist()
    write_pictures(tmp_path, {"cats": 45})

    after = opened(tmp_path, "images", **read)[1]["path"].tolist()

    new = {f"cats/{number:04}.png" for number in range(40, 45)}
    assert [name for name in after if name not in new] == before
    assert 20 < len(before) < 60


def test_pictures_are_chosen_by_names_that_nobody_reads(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"cats": 2, "dogs": 2})

    _, found = opened(tmp_path, "images", where='path == "dogs/0001.png"')

    assert sorted(found) == ["image", "label"]
    assert found["label"].tolist() == [1]


@given(
    files=st.lists(
        st.lists(st.none() | st.integers(-(2**62), 2**62) | st.integers(0, 9)), min_size=1
    ),
    share=st.sampled_from([0.1, 0.5, 0.8]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_no_value_of_by_is_on_both_sides(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[int | None]],
    share: float,
    seed: int,
) -> None:
    """Whatever file a value is in, and whether that file has missing values, too."""
    folder = tmp_path_factory.mktemp("users")
    parts: list[list[int | None]] = [[7], *files]
    users = [user for part in parts for user in part]
    ids = iter(range(len(users)))
    for number, part in enumerate(parts):
        columns = {"user": pa.array(part, pa.int64()), "id": list(islice(ids, len(part)))}
        schema = pa.schema({"user": pa.int64(), "id": pa.int64()})
        pq.write_table(pa.table(columns, schema), folder / f"{number:03}.parquet")
    rest, held = (
        opened(
            folder,
            columns=["id"],
            holdout={"share": share, "keep": keep, "by": "user", "seed": seed},
        )[1].get("id", np.empty(0, int))
        for keep in ("rest", "held")
    )

    assert sorted([*rest.tolist(), *held.tolist()]) == list(range(len(users)))
    assert {users[row] for row in rest}.isdisjoint(users[row] for row in held)


def test_by_holds_out_about_the_share_of_the_values_and_all_their_rows(folder: Path) -> None:
    parts = {
        keep: opened(folder, holdout={"share": 0.25, "keep": keep, "by": "id"})[1]["id"]
        for keep in ("held", "rest")
    }

    assert len(parts["held"]) == pytest.approx(ROWS / 4, rel=0.15)
    assert len(parts["held"]) + len(parts["rest"]) == ROWS


@pytest.mark.parametrize(("before", "first"), [("750", 750), ("749.5", 750), ("1", 1)])
def test_a_split_by_time_holds_out_what_is_not_before_it(
    folder: Path, before: str, first: int
) -> None:
    rule: dict[str, JsonValue] = {"by": "id", "before": before}
    _, held = opened(folder, holdout={**rule, "keep": "held"}, where="id != 1999")
    _, rest = opened(folder, holdout={**rule, "keep": "rest"}, where="id >= 0")

    assert held["id"].tolist() == list(range(first, 1999))
    assert rest["id"].tolist() == list(range(first))


def test_a_side_of_a_time_without_a_row_group_is_refused(folder: Path) -> None:
    with pytest.raises(SpecError, match=r"holdout\.before: got no rows; expected a condition"):
        opened(folder, holdout={"by": "id", "before": "-3", "keep": "rest"})


def test_rows_without_a_time_are_outside_the_holdout(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(4), "day": [3, None, 1, 2]}), tmp_path / "a.parquet")
    rule: dict[str, JsonValue] = {"by": "day", "before": "2"}

    held, rest = (
        opened(tmp_path, columns=["id"], holdout={**rule, "keep": keep})[1]["id"].tolist()
        for keep in ("held", "rest")
    )

    assert (held, rest) == ([0, 3], [1, 2])


@pytest.mark.parametrize("before", ["20260201", "2026"])
def test_a_time_of_digits_is_a_text_beside_texts(tmp_path: Path, before: str) -> None:
    days = ["20251231", "20260131", "20260201"]
    pq.write_table(pa.table({"day": days}), tmp_path / "a.parquet")

    _, held = opened(tmp_path, holdout={"by": "day", "before": before, "keep": "held"})

    assert held["day"].tolist() == [day for day in days if day >= before]


@pytest.mark.parametrize("before", ["nan", "1_0", " 7 ", "soon"])
def test_a_time_that_is_no_number_is_refused_beside_numbers(folder: Path, before: str) -> None:
    with pytest.raises(SpecError, match=r"holdout\.before: got .* for column half of type double"):
        opened(folder, holdout={"by": "half", "before": before, "keep": "held"})


SPLITS: dict[str, tuple[dict[str, JsonValue], str]] = {
    "no rule": ({}, "share: missing; expected a number between 0 and 1"),
    "two rules": (
        {"share": 0.1, "by": "id", "before": "3"},
        "share: got 0.1; expected no value with before",
    ),
    "a time of no column": ({"before": "3"}, "before: got 3; expected no value without by"),
    "a share of each value, on one side": (
        {"share": 0.1, "by": "id", "stratify": "odd"},
        "stratify: got odd; expected no value with by",
    ),
    "a column that is not there": (
        {"share": 0.1, "by": "user"},
        r"holdout\.by: got user; expected one of id, half, a word, odd",
    ),
}


@pytest.mark.parametrize(("rule", "want"), SPLITS.values(), ids=SPLITS)
def test_a_split_without_one_rule_is_refused(
    folder: Path, rule: dict[str, JsonValue], want: str
) -> None:
    with pytest.raises((ValidationError, SpecError), match=want):
        opened(folder, holdout={"keep": "held", **rule})


def test_another_seed_holds_other_rows_out(folder: Path) -> None:
    parts = [
        opened(folder, holdout={"share": 0.5, "keep": "held", "seed": seed})[1]["id"].tolist()
        for seed in (0, 0, 1)
    ]

    assert parts[0] == parts[1] != parts[2]


def test_only_reading_tells_how_many_rows_are_left(folder: Path) -> None:
    source, _ = opened(folder, holdout={"share": 0.1, "keep": "held"})

    assert source.rows is None
    assert source.likely_rows == ROWS / 10


WRONG = {
    "a column that is not there": ("label < 5", r"where: got label; expected one of id, half"),
    "no row at all": (
        "id > 5000",
        "where: got no rows; expected a condition that at least one row",
    ),
}


@pytest.mark.parametrize(("where", "want"), WRONG.values(), ids=WRONG)
def test_a_condition_that_no_row_can_meet_is_refused(folder: Path, where: str, want: str) -> None:
    with pytest.raises(SpecError, match=want):
        opened(folder, where=where)
