"""A column that a function makes has one type in all blocks, whatever block a row comes in."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.app.data.builders_plan import FUNCTIONS, MemoryBlocks, grouped_rows, make_pass
from tests.builders import make_data, make_run
from trainshed.data.loader.batches import Feed
from trainshed.data.sampler.dataset_plan import DatasetPlan
from trainshed.data.sampler.function import Function, with_types
from trainshed.data.sources.apply_functions import augment, transform
from trainshed.data.sources.column_arrays import as_objects
from trainshed.data.sources.errors import DataError
from trainshed.planning.explanation import explain_lines
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError

HERE = __name__
USE = "spec.data.datasets.train.transforms[0].use"
CACHES = ("none", "objects", "disk", "workers")
ROWS, FILES = 40, 4


def write_ids(folder: Path, first: int = 0) -> None:
    (folder / "rows").mkdir()
    for number in range(FILES):
        ids = np.arange(number * ROWS, (number + 1) * ROWS) + first
        pq.write_table(pa.table({"id": ids}), folder / "rows" / f"{number}.parquet")


def prepared(folder: Path, **fields: JsonValue) -> Prepared:
    """Return a run of the files, whose first rows were looked at."""
    in_order: JsonValue = {"mode": "none"}
    read: JsonValue = {"format": "parquet", "path": "rows"}
    data = make_data({"read": read, "shuffle": in_order, **fields})
    return prepare(
        make_run(train="tests.app.processes:children", data=data), RunLocation(Disk(folder))
    )


def gapped(at: int, **fields: JsonValue) -> list[JsonValue]:
    """Return a transform that makes a gap at an id, and floats of the blocks that have one."""
    return [{"use": f"{FUNCTIONS}:gapped", "options": {"at": at}, **fields}]


def batches_of(plan: DatasetPlan, rank: int) -> list[tuple[str, list[float]]]:
    """Return type and values of the column in each batch of 6 rows for 2 ranks."""
    at = make_pass(batch_size=12)
    tensors = [
        each.tensors["v"] for each in Feed(plan, MemoryBlocks(plan, rank, 5), rank).batches(at)
    ]
    return [(str(each.dtype), each.tolist()) for each in tensors]


@pytest.mark.parametrize("cache", CACHES)
def test_blocks_with_and_without_a_gap_have_the_type_of_the_first_rows(
    cache: str, tmp_path: Path
) -> None:
    write_ids(tmp_path)
    plan = prepared(tmp_path, transforms=gapped(at=3), cache=cache).plans["train"]

    for rank in (0, 1):
        made = batches_of(plan, rank)
        assert {kind for kind, _ in made} == {"torch.float64"}
        assert made[1][1] == [12.0 + 6 * rank + step for step in range(6)]


@pytest.mark.parametrize("group", [1, 2])
def test_row_groups_inside_of_a_file_tell_types_too(group: int, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    table = pa.table({"id": np.arange(3 * ROWS)})
    pq.write_table(table, tmp_path / "rows" / "0.parquet", row_group_size=ROWS)
    gap = group * ROWS + 3

    plan = prepared(tmp_path, transforms=gapped(at=gap), cache="none").plans["train"]

    assert plan.row_bytes == 8 * 2  # of the first rows alone, with columns id and v
    assert {kind for kind, _ in batches_of(plan, 0)} == {"torch.float64"}


def test_a_gap_that_no_first_row_had_is_refused_with_column_value_and_function(
    tmp_path: Path,
) -> None:
    write_ids(tmp_path)
    plan = prepared(tmp_path, transforms=gapped(at=ROWS + 20), cache="none").plans["train"]

    said = (
        rf"^spec\.data\.datasets\.train\.transforms\[0\]\.use: {FUNCTIONS}:gapped returned a row "
        r"without a value for column v, where the first rows of the files have int64: got nan; "
        r"expected a number in each row\. Fill it in, as fillna does, or return float64 from each "
        r"call, as astype\(\"float64\"\) does\.$"
    )
    with pytest.raises(DataError, match=said):
        batches_of(plan, 0)


def test_each_group_has_the_type_of_the_first_rows(tmp_path: Path) -> None:
    write_ids(tmp_path)
    users: JsonValue = {"use": f"{FUNCTIONS}:with_users", "options": {"as_text": False}}
    transforms: list[JsonValue] = [users, *gapped(at=3, kind="groups", by=["user"])]
    plan = prepared(tmp_path, transforms=transforms, cache="objects").plans["train"]

    alone = transform({"id": np.arange(7, 14)}, plan.transforms)
    assert str(alone["v"].dtype) == "float64"
    assert sorted(grouped_rows(plan)["v"].tolist())[:3] == [0.0, 1.0, 2.0]


def test_first_rows_that_have_no_exact_type_together_are_refused(tmp_path: Path) -> None:
    write_ids(tmp_path, first=2**53)

    said = (
        r"transforms\[0\]\.use: .*gapped returned int64 for column v, where the first rows of the "
        r"files have float64: got 9007199254741033; expected an integer that float64 holds exactly"
    )
    with pytest.raises(SpecError, match=said):
        prepared(tmp_path, transforms=gapped(at=2**53 + 3))


def test_types_are_those_of_the_last_function_that_makes_columns(tmp_path: Path) -> None:
    write_ids(tmp_path)
    above: JsonValue = {"use": f"{FUNCTIONS}:above", "kind": "filter", "options": {"least": 0}}
    run = prepared(tmp_path, transforms=[*gapped(at=3), above], augment=gapped(at=2))
    plan = run.plans["train"]

    assert [each.types for each in plan.transforms] == [(("id", "int64"), ("v", "float64")), ()]
    assert plan.column_types == (("id", "int64"), ("v", "float64"))
    lines = [line.strip() for line in explain_lines(run)]
    assert "types     id int64, v float64 in all rows" in lines


def test_augmentations_give_each_block_the_type_of_the_first_rows(tmp_path: Path) -> None:
    write_ids(tmp_path)
    plan = prepared(tmp_path, augment=gapped(at=3)).plans["train"]

    ids = np.arange(50, 60)
    made = augment({"id": ids}, plan.augments, ids, seed=0, epoch=0)
    assert (str(made["v"].dtype), made["v"].tolist()) == ("float64", ids.tolist())


@given(
    ids=st.lists(st.integers(0, 2**60), min_size=1, max_size=8, unique=True),
    at=st.integers(0, 2**60),
    kind=st.sampled_from(["batches", "rows"]),
    wanted=st.sampled_from(["int64", "float64", "float32", "int16"]),
    size=st.sampled_from([None, 1, 3]),
)
def test_a_block_has_the_type_and_the_values_or_is_refused(
    ids: list[int], at: int, kind: str, wanted: str, size: int | None
) -> None:
    function = Function(f"{FUNCTIONS}:gapped", USE, options=(("at", at),), batch_size=size)
    if kind == "rows":
        function = Function(f"{HERE}:as_it_is", USE, "rows")
    with contextlib.suppress(DataError):
        made = transform({"id": np.asarray(ids)}, with_types([function], (("v", wanted),)))["v"]
        assert str(made.dtype) == wanted
        for value, number in zip(made.tolist(), ids, strict=True):
            is_gap = number == at and kind == "batches"
            assert np.isnan(value) if is_gap else int(value) == number


def as_it_is(row: dict[str, object]) -> dict[str, object]:
    """Return the id of a row."""
    return {"v": row["id"]}


def objects(batch: dict[str, object], *, values: list[object]) -> dict[str, object]:
    """Return a column of objects."""
    made = [np.asarray(value) if isinstance(value, list) else value for value in values]
    return {"v": as_objects(made)}


@pytest.mark.parametrize(
    ("values", "wanted", "said"),
    [
        ([1, None], "int64", "a row without a value for column v, .* int64: got None; expected a"),
        ([1.5, None], "float64", "a row without a value for column v, .* float64: got None; "),
        ([float("nan"), "text"], "float64", "object for column v, .* float64: got 'text'; "),
        ([1, 2.5, "text"], "int64", "object for column v, .* int64: got 2.5; "),
        ([1, 2**80], "int64", f"object for column v, .* int64: got {2**80}; "),
        ([1, 2], "int64", "object for column v, .* int64: got 1; "),
    ],
)
def test_the_first_object_that_does_not_fit_among_numbers_is_named(
    values: list[object], wanted: str, said: str
) -> None:
    function = Function(f"{HERE}:objects", USE, options=(("values", values),))
    (typed,) = with_types([function], (("v", wanted),))

    with pytest.raises(DataError, match=rf"^{re.escape(USE)}: {HERE}:objects returned {said}"):
        transform({"id": np.arange(len(values))}, [typed])


def nullable(frame: pd.DataFrame, *, dtype: str) -> pd.DataFrame:
    """Return a column of a type that has missing values, one of which is."""
    column = pd.Series([1, 0, 1], dtype=dtype)
    return pd.DataFrame({"v": column.where(frame.index != 1)})


@pytest.mark.parametrize(
    ("dtype", "wanted"), [("Int64", "int64"), ("UInt8", "uint8"), ("boolean", "bool")]
)
def test_a_missing_value_of_a_nullable_type_is_said_to_be_missing(dtype: str, wanted: str) -> None:
    function = Function(f"{HERE}:nullable", USE, options=(("dtype", dtype),), batch_format="pandas")
    (typed,) = with_types([function], (("v", wanted),))

    said = f"returned a row without a value for column v, .* have {wanted}: got (nan|None); "
    with pytest.raises(DataError, match=said):
        transform({"id": np.arange(3)}, [typed])


def words_later(row: dict[str, int]) -> dict[str, object]:
    """Return a text for later rows, and NaN for the first ones."""
    return {"v": f"w{row['id']}" if row["id"] >= (FILES - 1) * ROWS + 20 else float("nan")}


def test_texts_may_follow_first_rows_that_have_nothing_but_nan(tmp_path: Path) -> None:
    write_ids(tmp_path)
    use = f"{HERE}:words_later"
    feed: JsonValue = {"collate": {"use": f"{HERE}:ids_alone"}}
    plan = prepared(tmp_path, transforms=[{"use": use, "kind": "rows"}], feed=feed).plans["train"]

    assert [each.types for each in plan.transforms] == [()]
    ids = np.arange(FILES * ROWS - 3, FILES * ROWS)
    assert transform({"id": ids}, plan.transforms)["v"].tolist() == ["w157", "w158", "w159"]


def ids_alone(batch: dict[str, object]) -> dict[str, object]:
    """Return nothing of the texts."""
    return {"rows": torch.zeros(len(np.asarray(batch["v"])))}


@pytest.mark.parametrize("values", [[[1.0, 2.0], [3.0]], [[1.0], None], [None, None]])
def test_rows_of_any_length_and_rows_without_a_value_stay_as_they_are(values: list[object]) -> None:
    function = Function(f"{HERE}:objects", USE, options=(("values", values),))
    (typed,) = with_types([function], (("v", "float64"),))

    assert transform({"id": np.arange(2)}, [typed])["v"].dtype == object
