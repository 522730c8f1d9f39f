"""Rows that are kept as parquet on the run's storage: the same ones, made once."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import ray
from pydantic import JsonValue

from tests.app.data.builders_plan import (
    FUNCTIONS,
    MemoryBlocks,
    make_pass,
    make_plan,
    with_fields,
    write_rows,
)
from tests.app.ray_head import start_here
from trainshed.data.loader.arrow_blocks import from_block
from trainshed.data.loader.batches import Feed
from trainshed.data.loader.data_server import DataServer, ExecutionLimits, Slice
from trainshed.data.loader.disk_cache import DiskCache
from trainshed.data.sampler.dataset_plan import DatasetPlan, OrderFingerprint
from trainshed.data.sampler.epoch_pass import EpochPass
from trainshed.data.sources.errors import DataError
from trainshed.failures import InfrastructureError
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import ROWS_LIST

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

GROUPS = ([5, 11], [1, 30, 8], [26])
ROWS = 50
Row = tuple[float, float]
# Of a database: fewer than 50 rows a task Ray reads in one.
SHARDED = 200
# Its connections: one of ours, then Ray's, which looks for shards four times and counts the rows in
# between, then those of three tasks.
LAST_LOOK, LAST_COUNT, FIRST_TASK = 7, 8, 9
IN_SHARDS: dict[str, JsonValue] = {
    "shard_keys": ["id"],
    "shard_hash_fn": "abs",
    "override_num_blocks": 3,
}
EXACT = make_pass("exact", world_size=1, batch_size=7)


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

    def __init__(self, plan: DatasetPlan, disk_cache: DiskCache) -> None:
        self.data_server = DataServer({plan.name: plan}, ExecutionLimits(2), print, disk_cache)

    def counts(self) -> list[int]:
        counts: list[int] = self.data_server.cached("train").counts.tolist()
        return counts

    def rows(self, at: EpochPass) -> list[Row]:
        """Return id and draw of all rows that the feeder sends in a pass, in their order."""
        found: list[Row] = []
        while isinstance(taken := self.data_server.take(at, 0), Slice):
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


def expected(plan: DatasetPlan, at: EpochPass) -> list[Row]:
    streamed = replace(with_fields(plan, steps="known"), cache="none")
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
    here = Here(plan, DiskCache(Disk(tmp_path)))
    at = make_pass(epoch=1, world_size=1, batch_size=5)

    assert here.rows(at) == expected(plan, at)


def test_an_attempt_that_goes_on_does_not_make_them_again(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder)
    first = Here(plan, DiskCache(Disk(tmp_path / "1"))).counts()
    second = Here(plan, DiskCache(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),)))

    assert second.counts() == first
    assert not (tmp_path / "2").exists()


def test_one_that_begins_anew_does(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder)
    for attempt in ("1", "2"):
        Here(plan, DiskCache(Disk(tmp_path / attempt))).counts()

    assert (tmp_path / "2" / "train" / ROWS_LIST).exists()


def test_an_attempt_makes_only_the_files_that_one_before_it_did_not(
    folder: Path, tmp_path: Path
) -> None:
    plan = planned(folder)
    first = Here(plan, DiskCache(Disk(tmp_path / "1"))).counts()
    rows = tmp_path / "1" / "train"
    (rows / ROWS_LIST).unlink()  # as if it was killed before the last two files
    *left, damaged, missing = sorted(rows.glob("part-*"))
    os.truncate(damaged / "rows.parquet", 100)
    shutil.rmtree(missing)
    before = {each.name: each.stat().st_mtime_ns for each in left}

    earlier = (Disk(tmp_path / "1"),)
    second = Here(plan, DiskCache(Disk(tmp_path / "2"), earlier, "", False, earlier))

    at = make_pass(world_size=1, batch_size=5)
    assert second.counts() == first
    assert second.rows(at) == expected(plan, at)
    assert {each.name: each.stat().st_mtime_ns for each in left} == before
    assert len(list(rows.glob("part-*"))) == len(first) + 1  # the damaged one stays
    assert not (tmp_path / "2").exists()


@pytest.mark.parametrize("is_cut_short", [True, False])
def test_an_attempt_with_other_files_of_code_makes_all_files(
    folder: Path, tmp_path: Path, is_cut_short: bool
) -> None:
    plan = planned(folder)
    Here(plan, DiskCache(Disk(tmp_path / "1"))).counts()
    if is_cut_short:
        (tmp_path / "1" / "train" / ROWS_LIST).unlink()

    Here(plan, DiskCache(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),), "", False)).counts()

    assert (tmp_path / "2" / "train" / ROWS_LIST).exists()


def test_rows_of_other_columns_are_made_again(folder: Path, tmp_path: Path) -> None:
    Here(planned(folder), DiskCache(Disk(tmp_path / "1"))).counts()
    plan = planned(folder)
    read = plan.spec.read.model_copy(update={"columns": ("id",)})
    other = with_fields(plan, read=read)

    Here(other, DiskCache(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),))).counts()

    assert (tmp_path / "2" / "train" / ROWS_LIST).exists()


@pytest.mark.parametrize("under_way", [False, True])
def test_rows_of_other_code_are_made_again_where_no_epoch_hangs_on_them(
    folder: Path, tmp_path: Path, under_way: bool
) -> None:
    plan = planned(folder)
    counts = Here(plan, DiskCache(Disk(tmp_path / "1"), code="old")).counts()
    going_on = replace(plan, kept=OrderFingerprint(tuple(counts), under_way))
    disk_cache = DiskCache(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),), "new")
    said: list[str] = []

    DataServer({"train": going_on}, ExecutionLimits(2), said.append, disk_cache).cached("train")

    assert (tmp_path / "2" / "train" / ROWS_LIST).exists() == (not under_way)
    assert len(said) == under_way
    assert all("cached with other code (old) stay" in note for note in said)


def test_rows_that_are_not_there_to_their_end_are_made_again(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder)
    first = Here(plan, DiskCache(Disk(tmp_path / "1"))).counts()
    part = next((tmp_path / "1" / "train").glob("*/rows.parquet"))
    os.truncate(part, 100)

    again = Here(plan, DiskCache(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),)))

    at = make_pass(world_size=1, batch_size=5)
    assert again.counts() == first
    assert again.rows(at) == expected(plan, at)


def test_a_list_that_was_not_written_to_its_end_is_none(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder)
    first = Here(plan, DiskCache(Disk(tmp_path))).counts()
    (tmp_path / "train" / ROWS_LIST).write_text("")

    assert Here(plan, DiskCache(Disk(tmp_path))).counts() == first


def test_rows_of_a_database_are_read_once_and_kept(database: Path, tmp_path: Path) -> None:
    fill(database)
    plan = make_plan(None, read=reading_sql("connected"), cache="disk")
    here = Here(plan, DiskCache(Disk(tmp_path / "1")))

    found = here.rows(EXACT)

    assert sorted(row[0] for row in found) == list(range(ROWS))
    database.unlink()
    again = Here(plan, DiskCache(Disk(tmp_path / "2"), (Disk(tmp_path / "1"),)))
    assert again.rows(EXACT) == found


def fill(database: Path, rows: int = ROWS, *refused: int) -> None:
    """Write a database anew of so many rows; some calls of `connected_in_time` are refused."""
    for ending in (".db", ".calls"):
        database.with_suffix(ending).unlink(missing_ok=True)
    database.with_suffix(".refused").write_text(" ".join(map(str, refused)), "utf-8")
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("create table numbers (id integer, half real)")
        values = [(number, number / 2) for number in range(rows)]
        opened.executemany("insert into numbers values (?, ?)", values)


def reading_sql(connect: str, **options: JsonValue) -> dict[str, JsonValue]:
    sql = "select id, half from numbers"
    factory = f"{FUNCTIONS}:{connect}"
    return {
        "reader": "read_sql",
        "options": {"sql": sql, "connection_factory": factory, **options},
    }


def in_shards(connect: str, cache: str = "disk") -> DatasetPlan:
    """Return the plan of rows of a database that three tasks read."""
    return make_plan(None, read=reading_sql(connect, **IN_SHARDS), cache=cache)


@pytest.mark.parametrize("refused", [1, LAST_COUNT, FIRST_TASK, FIRST_TASK + 2])
@pytest.mark.parametrize("cache", ["disk", "objects"])
def test_rows_of_a_database_come_once_where_a_connection_is_refused(
    database: Path, tmp_path: Path, cache: str, refused: int
) -> None:
    fill(database, SHARDED, refused)
    here = Here(in_shards("connected_in_time", cache), DiskCache(Disk(tmp_path)))

    with pytest.raises(
        InfrastructureError, match=r"datasets\.train: .*Connection refused"
    ) as caught:
        here.counts()

    assert caught.value.kind == "network"
    assert not (tmp_path / "train" / ROWS_LIST).exists()
    assert sorted(row[0] for row in here.rows(EXACT)) == list(range(SHARDED))
    assert len(here.counts()) == 3


def test_rows_of_a_database_come_once_where_it_is_then_read_in_one(
    database: Path, tmp_path: Path
) -> None:
    fill(database, SHARDED, LAST_LOOK)
    here = Here(in_shards("connected_in_time"), DiskCache(Disk(tmp_path)))

    assert sorted(row[0] for row in here.rows(EXACT)) == list(range(SHARDED))
    assert len(here.counts()) == 1


@pytest.mark.parametrize("is_sharded", [True, False])
def test_a_database_that_is_locked_is_read_when_it_no_longer_is(
    database: Path, tmp_path: Path, is_sharded: bool
) -> None:
    fill(database, SHARDED)
    whole = make_plan(None, read=reading_sql("connected_in_time"), cache="disk")
    plan = in_shards("connected_in_time") if is_sharded else whole
    here = Here(plan, DiskCache(Disk(tmp_path)))

    with closing(sqlite3.connect(database)) as other:
        other.execute("begin exclusive")
        with pytest.raises(
            InfrastructureError, match=r"datasets\.train: .*database is locked"
        ) as caught:
            here.counts()

    assert caught.value.kind == "storage"
    assert not (tmp_path / "train" / ROWS_LIST).exists()
    assert sorted(row[0] for row in here.rows(EXACT)) == list(range(SHARDED))


def test_what_an_attempt_kept_of_some_shards_is_not_taken_for_all(
    database: Path, tmp_path: Path
) -> None:
    fill(database, SHARDED, FIRST_TASK + 2)
    plan, first = in_shards("connected_in_time"), Disk(tmp_path / "1")
    with pytest.raises(InfrastructureError):
        Here(plan, DiskCache(first)).counts()

    again = Here(plan, DiskCache(Disk(tmp_path / "2"), (first,)))

    assert sorted(row[0] for row in again.rows(EXACT)) == list(range(SHARDED))


WRONG_READS: dict[str, tuple[dict[str, JsonValue], str]] = {
    "a password is missing": (
        {"connection_factory": f"{FUNCTIONS}:not_connected"},
        "KeyError: 'DATABASE_PASSWORD'",
    ),
    "a table is missing": (
        {"sql": "select * from digits"},
        "OperationalError: no such table: digits",
    ),
}


@pytest.mark.parametrize(("options", "want"), WRONG_READS.values(), ids=WRONG_READS)
@pytest.mark.parametrize("is_sharded", [True, False])
def test_what_is_wrong_with_a_read_of_a_database_is_said(
    database: Path, tmp_path: Path, is_sharded: bool, options: dict[str, JsonValue], want: str
) -> None:
    fill(database)
    shards = IN_SHARDS if is_sharded else {}
    read = reading_sql("connected_in_time", **{**shards, **options})
    here = Here(make_plan(None, read=read, cache="disk"), DiskCache(Disk(tmp_path)))

    with pytest.raises(DataError, match=rf"^spec\.data\.datasets\.train: {want}$"):
        here.counts()


def test_rows_that_would_be_in_no_shard_are_refused(database: Path, tmp_path: Path) -> None:
    fill(database)
    lacking: dict[str, JsonValue] = {"sql": "select nullif(id, 7) as id, half from numbers"}
    read = reading_sql("connected_in_time", **{**IN_SHARDS, **lacking})
    here = Here(make_plan(None, read=read, cache="disk"), DiskCache(Disk(tmp_path)))

    with pytest.raises(
        DataError, match=r"read\.options\.shard_keys: 1 rows have no id; expected keys"
    ):
        here.counts()


def test_rows_that_are_others_than_a_checkpoint_says_end_an_epoch(
    folder: Path, tmp_path: Path
) -> None:
    plan = replace(planned(folder), kept=OrderFingerprint((1, 2, 3), under_way=True))

    with pytest.raises(DataError, match="rows in 3 blocks after the transforms"):
        Here(plan, DiskCache(Disk(tmp_path))).counts()
