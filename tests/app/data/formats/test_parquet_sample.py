"""Many small parquet files: types of a sample of footers, rows counted as they are read."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import FIELD, dtypes_of, open_files, read_all
from tests.app.data.builders_plan import MemoryBlocks, make_pass, make_plan
from trainshed.data.loader.batches import Feed
from trainshed.data.sampler.dataset_plan import DatasetPlan
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources import parquet
from trainshed.data.sources.arrow_columns import from_arrow
from trainshed.data.sources.dataset_files import open_source, place_of, read_sample
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import parquet_sample, shared_types
from trainshed.data.sources.fragment_reader import count_rows, reading
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec

FILES = 24
# A file of which no footer is in the sample.
UNSEEN = "01.parquet"


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_sample, "MOST_COUNTED", 10)
    monkeypatch.setattr(shared_types, "MOST_LOOKED_AT", 0)


def table_of(number: int) -> pa.Table:
    """Return the three rows of a file."""
    ids = np.arange(3 * number, 3 * number + 3)
    lacking = pa.array([None, 1, 2]) if number == 0 else pa.array([0, 1, 2])
    return pa.table({"id": ids, "x": ids / 8, "n": lacking, "s": [f"row {each}" for each in ids]})


def write(folder: Path, files: int = FILES, unseen: pa.Table | None = None) -> Path:
    for number in range(files):
        pq.write_table(table_of(number), folder / f"{number:02}.parquet", row_group_size=2)
    if unseen is not None:
        pq.write_table(unseen, folder / UNSEEN)
    return folder


def opened(folder: Path, begun_with: str | None = None, **read: JsonValue) -> Source:
    spec = ReadSpec.model_validate({"format": "parquet", "path": str(folder), **read})
    return open_source(Disk(folder), spec, FIELD, begun_with=begun_with)


def test_rows_are_those_of_the_files_and_their_number_is_an_estimate(tmp_path: Path) -> None:
    source = open_files(write(tmp_path), "parquet")

    assert source.rows is None
    assert source.about_rows == pytest.approx(3 * FILES, rel=0.1)
    assert [each.path for each in source.fragments] == [
        str(tmp_path / f"{number:02}.parquet") for number in range(FILES)
    ]
    found = read_all(source)
    assert found["id"].tolist() == list(range(3 * FILES))
    assert found["s"].tolist() == [f"row {each}" for each in range(3 * FILES)]
    assert dtypes_of(source) == {"id": "int64", "x": "float64", "n": "float64", "s": "object"}


def test_a_sample_and_a_place_of_a_file_outside_of_the_sample(tmp_path: Path) -> None:
    source = open_files(write(tmp_path, unseen=table_of(1).slice(0, 0)), "parquet")
    empty, full = source.fragments[1], source.fragments[2]

    assert read_sample(source.scan, empty, (), 2) == {}
    assert read_sample(source.scan, full, ("id",), 2)["id"].tolist() == [6, 7]
    assert place_of(source.scan, full, 2) == (full.path, "row 2 of the file")
    assert len(read_all(source)["id"]) == 3 * (FILES - 1)


def test_a_few_files_and_large_files_have_row_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setattr(parquet_sample, "FRAGMENT_BYTES", 100)
    assert opened(tmp_path).rows == 3 * FILES
    monkeypatch.undo()
    assert opened(tmp_path).rows == 3 * FILES


def with_a_large_file(folder: Path) -> None:
    """Add a file that is large, also as it is stored, and not in the sample."""
    noise = np.random.default_rng(0).random(20_000)
    pq.write_table(pa.table({"id": np.arange(20_000), "x": noise}), folder / UNSEEN)


def with_large_row_groups(folder: Path) -> None:
    """Add a file of the sample that is small as it is stored, and has two fragments."""
    pq.write_table(
        pa.table({"id": np.zeros(20_000, np.int64)}),
        folder / "00.parquet",
        row_group_size=10_000,
        use_dictionary=False,
    )


def without_rows_in_the_sample(folder: Path) -> None:
    """Leave rows only in a file outside of the sample."""
    for number in {*range(FILES)} - {1}:
        pq.write_table(table_of(number).slice(0, 0), folder / f"{number:02}.parquet")


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (with_a_large_file, 3 * FILES - 3 + 20_000),
        (with_large_row_groups, 3 * FILES - 3 + 20_000),
        (without_rows_in_the_sample, 3),
    ],
)
def test_rows_are_counted_where_a_sample_does_not_stand_for_all_files(
    change: Callable[[Path], None], rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (parquet_sample, parquet):
        monkeypatch.setattr(module, "FRAGMENT_BYTES", 100_000)
    change(write(tmp_path))

    assert opened(tmp_path).rows == rows


def test_many_files_without_rows_are_refused(tmp_path: Path) -> None:
    for number in range(FILES):
        pq.write_table(table_of(number).slice(0, 0), tmp_path / f"{number:02}.parquet")

    with pytest.raises(SpecError, match="expected files with at least one row"):
        opened(tmp_path)


@pytest.mark.parametrize("how", [{}, {"by": "id"}], ids=str)
def test_the_sides_of_a_holdout_share_no_row_if_one_has_a_condition(
    how: dict[str, JsonValue], tmp_path: Path
) -> None:
    """The first row group of each file is empty: a counted file begins with the second."""
    for number in range(FILES):
        with pq.ParquetWriter(tmp_path / f"{number:02}.parquet", table_of(0).schema) as writer:
            writer.write_table(table_of(number).slice(0, 0))
            writer.write_table(table_of(number))
    holdout: dict[str, JsonValue] = {"share": 0.5, **how}

    rest = opened(tmp_path, holdout={**holdout, "keep": "rest"})
    held = opened(tmp_path, holdout={**holdout, "keep": "held"}, where="id >= 0")

    sides = [
        number
        for source in (rest, held)
        for fragment in source.fragments
        for number in read_sample(source.scan, fragment, ("id",), 3).get("id", np.empty(0)).tolist()
    ]
    assert sorted(sides) == list(range(3 * FILES))


def test_a_condition_leaves_out_files_by_their_footers(tmp_path: Path) -> None:
    assert len(opened(write(tmp_path), where="id < 6").fragments) == 2


def test_a_run_goes_on_with_the_fragments_with_which_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setattr(parquet_sample, "MOST_COUNTED", FILES)
    before = opened(tmp_path)
    monkeypatch.setattr(parquet_sample, "MOST_COUNTED", 10)
    now = opened(tmp_path)

    assert before.rows == 3 * FILES
    assert opened(tmp_path, before.fingerprint) == before
    assert opened(tmp_path, now.fingerprint) == now
    assert now.rows is None


def steps_of(plan: DatasetPlan, world_size: int, first_step: int = 0) -> list[list[int]]:
    """Return the ids of the rows of each step of all workers, sorted."""
    at = make_pass(epoch=1, first_step=first_step, world_size=world_size)
    feeds = [Feed(plan, MemoryBlocks(plan, rank), rank) for rank in range(world_size)]
    return [
        sorted(number for batch in step for number in batch.tensors["id"].tolist())
        for step in zip(*(feed.batches(at) for feed in feeds), strict=True)
    ]


@pytest.mark.parametrize("mode", ["blocks", "local"])
def test_steps_have_the_rows_that_they_have_where_footers_count_them(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)

    def plan() -> DatasetPlan:
        shuffle: JsonValue = {"mode": mode, "bufferSize": 20}
        return make_plan(tmp_path, read={"columns": ["id"]}, shuffle=shuffle, cache="none")

    sampled = plan()
    monkeypatch.setattr(parquet_sample, "MOST_COUNTED", FILES)
    steps = steps_of(plan(), world_size=1)

    assert len(steps) == 3 * FILES // 8
    for world_size in (1, 2, 4):
        assert steps_of(sampled, world_size) == steps
        assert steps_of(sampled, world_size, first_step=4) == steps[4:]


def test_rows_are_counted_by_one_column(tmp_path: Path) -> None:
    change = with_column("x", pa.array(["a", "b", "c"]))
    plan = make_plan(write(tmp_path, unseen=change(table_of(1))), cache="none")
    assert plan.source

    assert {count_rows(reading(plan), each) for each in plan.source.fragments} == {3}


class Misfit(NamedTuple):
    change: Callable[[pa.Table], pa.Table]
    says: str


def with_column(name: str, values: pa.Array) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        if place < 0:
            return table.append_column(name, values)
        return table.set_column(place, name, values)

    return change


MISFITS = {
    "a wider type": Misfit(
        with_column("id", pa.array([0.5, 1, 2])),
        "column id: got double; expected int64 or a type.*, such as .*00.parquet",
    ),
    "another kind of values": Misfit(
        with_column("s", pa.array([1, 2, 3])), "column s: got int64; expected string or a type"
    ),
    "a further column": Misfit(
        with_column("late", pa.array([1, 2, 3])),
        "column late: got int64; expected no such column, .*, such as .*00.parquet",
    ),
    "two columns of one name": Misfit(
        lambda table: table.append_column("x", table.column("x")),
        "column x: got several; expected one column of this name",
    ),
    "a missing integer": Misfit(
        with_column("id", pa.array([3, None, 5])),
        "column id: got a row without a value; .*, such as .*00.parquet.* id is not None",
    ),
    "no such column of integers": Misfit(
        lambda table: table.drop_columns(["id"]), "column id: got a row without a value"
    ),
}


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS)
def test_a_file_outside_of_the_sample_that_does_not_fit_is_refused_by_its_reader(
    misfit: Misfit, tmp_path: Path
) -> None:
    source = open_files(write(tmp_path, unseen=misfit.change(table_of(1))), "parquet")

    with pytest.raises(DataError, match=rf"{UNSEEN}: {misfit.says}"):
        read_all(source)
    with pytest.raises(DataError, match=rf"{UNSEEN}: {misfit.says}"):
        read_sample(source.scan, source.fragments[1], (), 3)


def not_null(kind: pa.DataType) -> pa.Field:
    return pa.field("item", kind, nullable=False)


def moment(unit: str, zone: str | None = None) -> pa.Array:
    return pa.array([1_000_000] * 3, pa.timestamp("us")).cast(pa.timestamp(unit, zone))


PRICES = pa.array([Decimal("1.25")] * 3)
TEXTS = pa.array(["a", "b", "a"])
LISTS = pa.array([[1], [2, 3], []])
FITS = {
    "a dictionary with more values": (
        TEXTS.cast(pa.dictionary(pa.int8(), pa.string())),
        pa.array([f"text {each}" for each in range(200)]).dictionary_encode(),
    ),
    "texts beside a dictionary": (TEXTS.dictionary_encode(), TEXTS),
    "large texts beside a dictionary": (TEXTS.dictionary_encode(), TEXTS.cast(pa.large_string())),
    "large texts": (TEXTS, TEXTS.cast(pa.large_string())),
    "large bytes": (TEXTS.cast(pa.binary()), TEXTS.cast(pa.large_binary())),
    "large lists": (LISTS, LISTS.cast(pa.large_list(pa.int32()))),
    "lists whose values may be missing": (LISTS.cast(pa.list_(not_null(pa.int64()))), LISTS),
    "large texts in lists": (
        pa.array([["a"], [], ["b"]]),
        pa.array([["a"], [], ["b"]], pa.list_(pa.large_string())),
    ),
    "another zone": (moment("us", "UTC"), moment("us", "Europe/Berlin")),
    "a shorter unit": (moment("us", "Europe/Berlin"), moment("ms", "Europe/Berlin")),
    "a short decimal": (PRICES.cast(pa.decimal32(5, 2)), PRICES.cast(pa.decimal32(4, 2))),
    "integers beside a decimal": (
        PRICES.cast(pa.decimal64(12, 2)),
        pa.array([1, 2, 3], pa.int16()),
    ),
}


@pytest.mark.parametrize(("settled", "other"), FITS.values(), ids=FITS)
def test_a_file_outside_of_the_sample_fits_if_planning_would_have_settled_on_the_same_type(
    settled: pa.Array, other: pa.Array, tmp_path: Path
) -> None:
    for number in range(FILES):
        pq.write_table(pa.table({"v": settled}), tmp_path / f"{number:02}.parquet")
    pq.write_table(pa.table({"v": other}), tmp_path / UNSEEN)
    source = opened(tmp_path)

    assert source.rows is None
    [same, found] = [
        read_sample(source.scan, source.fragments[number], ("v",), 200)["v"] for number in (0, 1)
    ]
    assert found.dtype == same.dtype
    assert len(found) == len(other)
    assert all(map(np.array_equal, found, from_arrow(pa.table({"v": other}))["v"]))


@pytest.mark.parametrize("row_groups", [0, 1])
def test_a_file_without_rows_may_have_any_columns(row_groups: int, tmp_path: Path) -> None:
    write(tmp_path)
    empty = pa.table({"id": pa.array([], pa.list_(pa.string())), "late": pa.array([], pa.int8())})
    with pq.ParquetWriter(tmp_path / UNSEEN, empty.schema) as writer:
        for _ in range(row_groups):
            writer.write_table(empty)
    source = opened(tmp_path)

    assert len(read_all(source)["id"]) == 3 * (FILES - 1)
    assert read_sample(source.scan, source.fragments[1], (), 3) == {}


def test_columns_outside_of_the_selected_ones_may_differ(tmp_path: Path) -> None:
    change = with_column("x", pa.array(["a", "b", "c"]))
    source = open_files(write(tmp_path, unseen=change(table_of(1))), "parquet", columns=["id"])

    assert read_all(source, ["id"])["id"].tolist() == list(range(3 * FILES))


def test_a_file_outside_of_the_sample_may_have_narrower_types_and_lack_texts(
    tmp_path: Path,
) -> None:
    change = with_column("id", pa.array([3, 4, 5], pa.int32()))
    unseen = change(table_of(1)).drop_columns(["s", "x"])
    source = open_files(write(tmp_path, unseen=unseen), "parquet")

    assert dtypes_of(source) == {"id": "int64", "x": "float64", "n": "float64", "s": "object"}
    found = read_all(source)
    assert found["id"].tolist() == list(range(3 * FILES))
    assert found["s"].tolist()[2:7] == ["row 2", None, None, None, "row 6"]


def test_damage_outside_of_the_sample_names_the_file(tmp_path: Path) -> None:
    write(tmp_path)
    content = (tmp_path / UNSEEN).read_bytes()
    (tmp_path / UNSEEN).write_bytes(bytes(len(content)))
    source = open_files(tmp_path, "parquet")

    with pytest.raises(DataError, match=rf"{UNSEEN}: cannot be read: Parquet magic bytes"):
        read_all(source)
