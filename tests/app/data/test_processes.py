"""Processes that read for a worker: the same rows as it reads itself, and no process left over."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import pytest
import torch
from pydantic import JsonValue

from tests.app.data.builders_plan import make_mix, make_pass, make_plan, shuffles, write_rows
from tests.app.processes import ROOT, Mark
from trainshed.data.loader.batches import Batch, Feed
from trainshed.data.loader.processes import Processes
from trainshed.data.loader.requests import check_room, requests_for
from trainshed.data.loader.row_sources import LocalSource
from trainshed.data.sampler.bad_records import BadRecordList, BadRecordLog
from trainshed.data.sampler.dataset_plan import DatasetPlan, telling
from trainshed.data.sampler.permutation import RowRange
from trainshed.data.sources.errors import DataError, FunctionError
from trainshed.data.sources.fragment_reader import everything, parts, reading
from trainshed.failures import InfrastructureError
from trainshed.worker.process import users_traceback

FUNCTIONS = "tests.app.data.loader_functions"
SAMPLES = "tests.app.data.sample_functions"
# Row groups of every size; requests are of 16 rows, so that a file of 39 is read in three.
GROUPS = ([5, 11], [1, 30, 8], [26])
ROW_BYTES = 2**21
SHUFFLES = shuffles(13)
WAYS = [
    *((mode, "none") for mode in SHUFFLES),
    *((mode, "workers") for mode in ("none", "local")),
]
# More of them than this machine may have CPUs.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


@pytest.fixture(scope="module")
def pools() -> dict[int, Processes]:
    return {number: Processes(number) for number in (1, 3)}


@pytest.fixture(scope="module")
def pool(pools: dict[int, Processes]) -> Processes:
    return pools[1]


def planned(
    folder: Path, processes: int = 1, cache: str = "none", **fields: JsonValue
) -> DatasetPlan:
    """Return a plan of `loader: torch`."""
    return make_plan(
        folder,
        loader="torch",
        row_bytes=ROW_BYTES,
        processes=processes,
        cache=cache,
        **fields,  # type: ignore[arg-type]  # of the spec
    )


def by(name: str, **options: JsonValue) -> JsonValue:
    """Return transforms: one."""
    return [{"use": f"{FUNCTIONS}:{name}", "options": options}]


def pass_of(plan: DatasetPlan, pool: Processes | None, epoch: int = 0) -> Iterator[Batch]:
    """Return a pass on one rank that reads no batch ahead."""
    return Feed(plan, LocalSource(plan, pool), 0).batches(make_pass(epoch=epoch, num_ranks=1))


def processes_of(batches: Iterator[Batch]) -> set[int]:
    """Return the processes that read the rows, by the transform `whose`."""
    return {int(number) for batch in batches for number in batch.tensors["process"]}


def as_numbers(batches: Iterator[Batch]) -> list[list[list[float]]]:
    """Return the rows of each batch, column by column."""
    return [
        [batch.tensors[name].flatten().tolist() for name in ("id", "x", "draw")]
        for batch in batches
    ]


def are_gone(processes: set[int]) -> bool:
    """Say whether the processes are, in a while."""
    deadline = time.monotonic() + 10
    while living := {number for number in processes if Path(f"/proc/{number}").exists()}:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return not living


# ---------------------------------------------------------------- the rows


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(("mode", "cache"), WAYS)
def test_any_number_of_processes_gives_the_same_batches(
    folder: Path, pools: dict[int, Processes], mode: str, cache: str, number: int
) -> None:
    def plan(processes: int) -> DatasetPlan:
        return planned(
            folder,
            processes,
            cache,
            transforms=by("doubled"),
            shuffle=SHUFFLES[mode],
            augment=[{"use": f"{FUNCTIONS}:noise"}],
            feed={"lastBatch": "keep"},
        )

    own, theirs = LocalSource(plan(0)), LocalSource(plan(number), pools[number])
    for ranks, first_step in product((1, 2), (0, 5)):
        at = make_pass(epoch=2, num_ranks=ranks, first_step=first_step)
        for rank in range(ranks):
            want = as_numbers(Feed(plan(0), own, rank).batches(at))
            assert as_numbers(Feed(plan(number), theirs, rank).batches(at)) == want
            assert len(want) == 11 - first_step


@pytest.mark.parametrize("first_step", [0, 4])
def test_datasets_that_are_mixed_give_the_same_batches(
    folder: Path, tmp_path: Path, pools: dict[int, Processes], first_step: int
) -> None:
    other = write_rows(tmp_path / "other", ([20, 30],), first=1000)
    augment: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]

    def mixed(processes: int) -> DatasetPlan:
        first, second = (
            planned(place, processes, shuffle=SHUFFLES["blocks"], augment=augment)
            for place in (folder, other)
        )
        parts = {"a": (first, 3.0), "b": (second, 1.0)}
        return make_mix(parts, loader="torch", rowsPerEpoch=100, shuffle=SHUFFLES["local"])

    own = LocalSource(mixed(0))
    at = make_pass(epoch=2, num_ranks=2, first_step=first_step)
    for rank, (number, pool) in product((0, 1), pools.items()):
        theirs = LocalSource(mixed(number), pool)
        want = as_numbers(Feed(mixed(0), own, rank).batches(at))
        assert as_numbers(Feed(mixed(number), theirs, rank).batches(at)) == want
        assert len(want) == 12 - first_step


def test_a_stream_is_augmented_in_the_processes_and_what_is_kept_in_the_worker(
    folder: Path, pool: Processes
) -> None:
    augment: JsonValue = [{"use": f"{FUNCTIONS}:whose"}]
    streamed = planned(folder, augment=augment)
    kept = planned(folder, cache="workers", augment=augment)
    mixed = planned(folder, shuffle=SHUFFLES["global"], augment=augment)

    assert os.getpid() not in processes_of(pass_of(streamed, pool))
    assert processes_of(pass_of(kept, pool)) == processes_of(pass_of(mixed, pool)) == {os.getpid()}


def test_columns_without_numbers_arrive_as_they_are(folder: Path, pool: Processes) -> None:
    tables = [
        list(Feed(plan, LocalSource(plan, processes), 0).columns(make_pass("exact", num_ranks=1)))
        for plan, processes in (
            (planned(folder, 0, transforms=by("worded")), None),
            (planned(folder, transforms=by("worded")), pool),
        )
    ]
    want, seen = (
        [[(array.dtype, array.tolist()) for array in table.values()] for table in mine]
        for mine in tables
    )
    assert seen == want
    assert all(array.flags.writeable for table in tables[1] for array in table.values())


def test_processes_take_nothing_from_the_randomness_of_the_run(folder: Path) -> None:
    before = torch.get_rng_state()
    processes_of(pass_of(planned(folder, transforms=by("whose")), Processes(1)))

    assert torch.equal(torch.get_rng_state(), before)


# ------------------------------------------------------------ the processes


def test_all_processes_read_and_go_on_in_the_next_epoch_and_in_another_dataset(
    folder: Path, tmp_path: Path, pools: dict[int, Processes]
) -> None:
    plan = planned(folder, 3, transforms=by("whose"))
    other = planned(write_rows(tmp_path / "other", ([20, 30],)), 3, transforms=by("whose"))
    first = processes_of(pass_of(plan, pools[3]))

    assert len(first) == 3
    assert processes_of(pass_of(plan, pools[3], epoch=1)) == first
    assert processes_of(pass_of(other, pools[3])) <= first


def test_two_passes_are_open_at_once(folder: Path, pool: Processes) -> None:
    plan = planned(folder, transforms=by("whose"))
    feed = Feed(plan, LocalSource(plan, pool), 0)
    training = feed.batches(make_pass(num_ranks=1))
    begun = list(islice(training, 3))
    evaluated = list(feed.batches(make_pass("exact", num_ranks=1)))
    trained = [*begun, *training]

    rows = [
        [int(row) for batch in mine for row in batch.tensors["id"]] for mine in (trained, evaluated)
    ]
    assert rows == [list(range(80)), list(range(81))]
    assert processes_of(iter(trained)).isdisjoint(processes_of(iter(evaluated)))


def test_a_pass_that_is_given_up_ends_its_processes_and_the_next_has_others(
    folder: Path, tmp_path: Path
) -> None:
    pool = Processes(1)
    slow = planned(folder, transforms=by("slow", seconds=0.05, note=str(tmp_path)))
    given_up = Feed(slow, LocalSource(slow, pool), 0).batches(make_pass(num_ranks=1))
    next(given_up)
    given_up.close()
    (number,) = (int(note.name) for note in tmp_path.iterdir())

    assert are_gone({number})
    assert number not in processes_of(pass_of(planned(folder, transforms=by("whose")), pool))


def test_processes_end_with_the_one_that_has_them(folder: Path) -> None:
    pool = Processes(2)
    found = processes_of(pass_of(planned(folder, transforms=by("whose")), pool))
    del pool

    assert are_gone(found)


def test_no_process_is_left_of_a_worker_that_was_killed(folder: Path) -> None:
    mark = Mark()
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.app.data.reading_worker", folder],
        cwd=ROOT,
        env=os.environ | mark.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        with parent:
            assert parent.stdout
            assert parent.stdout.readline() == b"reading\n"
            assert len(mark.processes()) >= 4  # two, what forks them, and the one they read for
            parent.kill()

        assert mark.left_over(within_seconds=10) == []
    finally:
        mark.kill()


# ---------------------------------------------------------------- what fails


def test_an_error_of_a_transform_comes_with_its_message_and_the_users_traceback(
    folder: Path, pool: Processes
) -> None:
    with pytest.raises(FunctionError) as caught:
        list(pass_of(planned(folder, transforms=by("broken", at=40)), pool))

    assert str(caught.value) == (
        f"spec.data.datasets.train.transforms[0].use: {FUNCTIONS}:broken raised ValueError: "
        "row 40 is bad"
    )
    assert 'loader_functions.py", line' in users_traceback(caught.value)
    assert ", in broken\n" in users_traceback(caught.value)


def test_a_transform_that_ends_its_process_is_an_error_like_others(
    folder: Path, pool: Processes
) -> None:
    with pytest.raises(DataError, match=r"^spec\.data\.datasets\.train: SystemExit: 3$"):
        list(pass_of(planned(folder, transforms=by("leaving", at=40)), pool))


def test_a_process_that_is_killed_is_said_with_what_may_have_killed_it(
    folder: Path, pool: Processes
) -> None:
    with pytest.raises(InfrastructureError) as caught:
        list(pass_of(planned(folder, transforms=by("killed", at=40)), pool))

    assert caught.value.kind == "killed"
    said = "read and transformed rows for a worker was killed (SIGKILL), as happens where memory"
    assert str(caught.value).startswith("spec.data.datasets.train: process ")
    assert said in str(caught.value)
    # What comes next has processes of its own.
    assert processes_of(pass_of(planned(folder, transforms=by("whose")), pool))


def test_a_process_that_ended_while_nobody_read_is_replaced(folder: Path) -> None:
    pool, plan = Processes(1), planned(folder, transforms=by("whose"))
    (number,) = processes_of(pass_of(plan, pool))
    os.kill(number, 9)
    assert are_gone({number})

    assert processes_of(pass_of(plan, pool)) != {number}


def test_too_little_shared_memory_is_said_before_it_ends_a_process() -> None:
    with pytest.raises(
        InfrastructureError, match=r"^train: /dev/shm has .* left and needs"
    ) as caught:
        check_room(2**60, "train")
    assert caught.value.kind == "memory"


def test_no_process_has_all_of_ray_in_it(folder: Path, pool: Processes) -> None:
    batches = pass_of(planned(folder, transforms=by("modules")), pool)

    assert not any(batch.tensors["has_ray"].any() for batch in batches)


def test_passes_of_several_threads_have_processes_of_their_own(
    folder: Path, pool: Processes
) -> None:
    plan = planned(folder, transforms=by("whose"))
    seen: list[set[int]] = []
    threads = [
        threading.Thread(target=lambda: seen.append(processes_of(pass_of(plan, pool))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 2


def test_what_processes_leave_out_the_worker_tells(
    tmp_path: Path, pools: dict[int, Processes]
) -> None:
    lines = ["q" if row % 10 == 9 else str(row) for row in range(200)]
    (tmp_path / "a.csv").write_text("\n".join(["id", *lines]))
    read: dict[str, JsonValue] = {"format": "csv", "options": {"types": {"id": "int64"}}}
    transforms: JsonValue = [{"use": f"{SAMPLES}:picky", "options": {"bad": [50, 101]}}]
    plan = make_plan(tmp_path, loader="torch", read=read, onBadRecord="skip", transforms=transforms)
    for pool in pools.values():
        told: list[BadRecordList] = []
        how = replace(reading(telling(plan, told.append)), chunk_rows=7)
        ledger = BadRecordLog(plan.field, 100, None)
        for _ in range(2):
            asked = requests_for(how, parts(plan, [RowRange(0, 0, 178)]), everything, pool.number)
            answers = list(pool.read(asked))
            found = [int(row) for tables in answers for table, _ in tables for row in table["id"]]
            assert found == [n for n in range(200) if n % 10 != 9 and n not in (50, 101)]
            for each in told:
                ledger.take(each)
            # The last line of all is behind the rows that were asked for.
            assert ledger.rows == 19 + 2
