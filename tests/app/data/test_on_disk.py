"""Rows that are kept as parquet on the run's storage: the same ones, made once."""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ray
from pydantic import JsonValue

from tests.app.data.builders_plan import FUNCTIONS, MemoryBlocks, make_pass, make_plan, write_rows
from tests.app.ray_head import start_here
from trainshed.data.feed.batches import Feed
from trainshed.data.feed.datasets import from_block
from trainshed.data.feed.feeder import Feeder, Limits, Slice
from trainshed.data.feed.on_disk import Shelf
from trainshed.data.order.plan import DatasetPlan, Kept
from trainshed.data.order.schedule import Pass
from trainshed.data.read.errors import DataError
from trainshed.records.disk import Disk
from trainshed.records.folder import ROWS_LIST

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

GROUPS = ([5, 11], [1, 30, 8], [26])
ROWS = 50
Row = tuple[float, float]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file for a database, which the processes of Ray are told of."""
    path = tmp_path_factory.mktemp("database") / "rows.db"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRAINSHED_TEST_DATABASE", str(path))
        yield path


@pytest.fixture(scope="module", autouse=True)
def session(database: Path) -> Iterator[None]:
    with start_here(cpus=2):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


class Here:
    """The feeder in this process, asked as a worker asks it."""

    def __init__(self, plan: DatasetPlan, shelf: Shelf) -> None:
        self.feeder = Feeder({plan.name: plan}, Limits(2), print, shelf)

    def counts(self) -> list[int]:
        counts: list[int] = self.feeder.cached("train").counts.tolist()
        return counts

    def rows(self, at: Pass) -> list[Row]:
        """Return id and draw of all rows that the feeder sends in a pass, in their order."""
        found: list[Row] = []
        while isinstance(taken := self.feeder.take(at, 0), Slice):
            columns = from_block(ray.get(taken.block))
            ids, draws = columns["id"], columns.get("draw", columns["id"])
            found += zip(
                ids[taken.start : taken.stop].tolist(),
                draws[taken.start : taken.stop].tolist(),
                strict=True,
            )
        return found


def planned(folder: Path, mode: str = "none", **fields: JsonValue) -> DatasetPlan:
    shuffle: JsonValue = {"mode": mode}
    augment: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]
    return make_plan(folder, cache="disk", shuffle=shuffle, augment=augment, **fields)  # type: ignore[arg-type]  # fields of the spec


def expected(plan: DatasetPlan, at: Pass) -> list[Row]:
    streamed = replace(plan, cache="none", steps="known")
    rows: list[Row] = []
    for batch in Feed(streamed, MemoryBlocks(streamed, 0), 0).batches(at):
        ids = batch.tensors["id"].tolist()
        rows += zip(ids, batch.tensors["draw"].tolist(), strict=True)
    return rows


@pytest.mark.parametrize("mode", ["none", "blocks", "global"])
def test_kept_rows_are_those_of_a_stream(folder: Path, tmp_path: Path, mode: str) -> None:
    odd: JsonValue = [{"use": f"{FUNCTIONS}:odd_rows"}]
    plan = planned(folder, mode, transforms=odd)
    plan = replace(plan, changes_rows=True)
    here = Here(plan, Shelf(Disk(tmp_path)))
    at = make_pass(epoch=1, num_ranks=1, batch_size=5)

    assert here.rows(at) == expected(plan, at)


def test_an_attempt_that_goes_on_does_not_make_them_again(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder)
    first = Here(plan, Shelf(Disk(tmp_path / "1"))).counts()
    second = Here(plan, Shelf(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),)))

    assert second.counts() == first
    assert not (tmp_path / "2").exists()


def test_one_that_begins_anew_does(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder)
    for attempt in ("1", "2"):
        Here(plan, Shelf(Disk(tmp_path / attempt))).counts()

    assert (tmp_path / "2" / "train" / ROWS_LIST).exists()


def test_rows_of_other_columns_are_made_again(folder: Path, tmp_path: Path) -> None:
    Here(planned(folder), Shelf(Disk(tmp_path / "1"))).counts()
    other = replace(planned(folder), columns=("id",))

    Here(other, Shelf(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),))).counts()

    assert (tmp_path / "2" / "train" / ROWS_LIST).exists()


@pytest.mark.parametrize("under_way", [False, True])
def test_rows_of_other_code_are_made_again_where_no_epoch_hangs_on_them(
    folder: Path, tmp_path: Path, under_way: bool
) -> None:
    plan = planned(folder)
    counts = Here(plan, Shelf(Disk(tmp_path / "1"), code="old")).counts()
    going_on = replace(plan, kept=Kept(tuple(counts), under_way))
    shelf = Shelf(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),), "new")
    said: list[str] = []

    Feeder({"train": going_on}, Limits(2), said.append, shelf).cached("train")

    assert (tmp_path / "2" / "train" / ROWS_LIST).exists() == (not under_way)
    assert len(said) == under_way
    assert all("kept with other code (old) stay" in note for note in said)


def test_rows_that_are_not_there_to_their_end_are_made_again(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder)
    first = Here(plan, Shelf(Disk(tmp_path / "1"))).counts()
    part = next((tmp_path / "1" / "train").glob("*/rows.parquet"))
    os.truncate(part, 100)

    again = Here(plan, Shelf(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),)))

    at = make_pass(num_ranks=1, batch_size=5)
    assert again.counts() == first
    assert again.rows(at) == expected(plan, at)


def test_a_list_that_was_not_written_to_its_end_is_none(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder)
    first = Here(plan, Shelf(Disk(tmp_path))).counts()
    (tmp_path / "train" / ROWS_LIST).write_text("")

    assert Here(plan, Shelf(Disk(tmp_path))).counts() == first


def test_rows_of_a_database_are_read_once_and_kept(database: Path, tmp_path: Path) -> None:
    with sqlite3.connect(database) as opened:
        opened.execute("create table numbers (id integer, half real)")
        values = [(number, number / 2) for number in range(ROWS)]
        opened.executemany("insert into numbers values (?, ?)", values)
    plan = make_plan(None, read=reading_sql(f"{FUNCTIONS}:connected"), cache="disk")
    here = Here(plan, Shelf(Disk(tmp_path / "1")))
    at = make_pass("exact", num_ranks=1, batch_size=7)

    found = here.rows(at)

    assert sorted(row[0] for row in found) == list(range(ROWS))
    database.unlink()
    again = Here(plan, Shelf(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),)))
    assert again.rows(at) == found


def reading_sql(connect: str) -> dict[str, JsonValue]:
    sql = "select id, half from numbers order by id"
    return {"reader": "read_sql", "options": {"sql": sql, "connection_factory": connect}}


def test_rows_that_are_others_than_a_checkpoint_says_end_an_epoch(
    folder: Path, tmp_path: Path
) -> None:
    plan = replace(planned(folder), kept=Kept((1, 2, 3), under_way=True))

    with pytest.raises(DataError, match="rows in 3 blocks after the transforms"):
        Here(plan, Shelf(Disk(tmp_path))).counts()
