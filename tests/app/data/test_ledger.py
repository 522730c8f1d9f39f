"""Every second of a thread on rows is in one stage at most, and is told soon."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.clock import Clock
from tests.app.data.builders_plan import FUNCTIONS, MemoryBlocks, make_pass, make_plan, write_rows
from trainshed.data.loader.batches import Batch, Feed
from trainshed.data.loader.prefetch import Prefetched
from trainshed.data.loader.row_sources import LocalSource
from trainshed.data.sampler.stage_time import (
    BATCH,
    COUNT,
    DEAL,
    DEVICE,
    READ,
    STARVED,
    Spending,
    Spent,
    StageKey,
    added,
    key_of,
    seconds_a_row,
    since,
)
from trainshed.data.sources.fragment_reader import count_rows, reading
from trainshed.data.sources.stage_timer import STAGE_TIMER, StageTimer, StatsReporter

MADE, INNER = StageKey("train", BATCH), StageKey("train", READ)
SECONDS = 60.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stage_timer(clock: Clock) -> StageTimer:
    return StageTimer(clock)


def test_a_stage_inside_another_one_is_not_the_others_time(
    stage_timer: StageTimer, clock: Clock
) -> None:
    with stage_timer.inside(MADE, rows=10):
        clock.pass_(1)
        with stage_timer.inside(INNER, rows=7):
            clock.pass_(2)
        clock.pass_(4)
    clock.pass_(8)

    assert stage_timer.take() == {MADE: Spent(5, 10), INNER: Spent(2, 7)}


def test_items_count_until_they_are_there_and_not_while_they_are_used(
    stage_timer: StageTimer, clock: Clock
) -> None:
    def make() -> Iterator[int]:
        for rows in (1, 2):
            clock.pass_(rows)
            yield rows

    for _ in stage_timer.each(MADE, make(), lambda rows: rows):
        clock.pass_(8)

    assert stage_timer.take() == {MADE: Spent(3, 3)}


def test_what_goes_on_is_told_as_far_as_it_came(stage_timer: StageTimer, clock: Clock) -> None:
    with stage_timer.inside(MADE, rows=10):
        clock.pass_(1)
        assert stage_timer.take() == {MADE: Spent(1, 0)}
        clock.pass_(2)

    assert stage_timer.take() == {MADE: Spent(2, 10)}
    assert stage_timer.take() == {}


def test_an_error_ends_a_stage(stage_timer: StageTimer, clock: Clock) -> None:
    def fail(item: int) -> int:
        clock.pass_(1)
        raise ValueError(item)

    with pytest.raises(ValueError, match="7"):
        next(stage_timer.each(MADE, map(fail, [7])))
    clock.pass_(2)

    assert stage_timer.take() == {MADE: Spent(1, 0)}


def test_each_thread_is_in_a_stage_of_its_own(stage_timer: StageTimer, clock: Clock) -> None:
    def read() -> None:
        with stage_timer.inside(INNER):
            clock.pass_(1)

    with stage_timer.inside(MADE):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        assert stage_timer.stage() == MADE

    assert stage_timer.take() == {MADE: Spent(1, 0), INNER: Spent(1, 0)}


def test_a_wait_for_another_thread_is_no_work(stage_timer: StageTimer, clock: Clock) -> None:
    with stage_timer.inside(MADE), stage_timer.starving():
        clock.pass_(1)
    with stage_timer.starving():  # who trains waits, whose time is metered elsewhere
        clock.pass_(2)

    assert stage_timer.take() == {MADE: Spent(0, 0), StageKey("train", STARVED): Spent(1, 0)}


@pytest.mark.usefixtures("empty_ledger")
def test_a_pass_that_counts_rows_is_one_stage(tmp_path: Path) -> None:
    plan = make_plan(write_rows(tmp_path, [[20]]), transforms=[{"use": f"{FUNCTIONS}:odd_rows"}])
    assert plan.source

    assert count_rows(reading(plan), plan.source.fragments[0]) == 20
    assert set(STAGE_TIMER.take()) == {StageKey("train", COUNT)}


@pytest.mark.usefixtures("empty_ledger")
def test_batches_of_a_worker_that_reads_itself_say_what_each_stage_took(tmp_path: Path) -> None:
    plan = make_plan(
        write_rows(tmp_path, [[40, 40]]),
        cache="none",
        transforms=[{"use": f"{FUNCTIONS}:doubled"}],
        augment=[{"use": f"{FUNCTIONS}:noise"}],
    )
    at = make_pass(world_size=1)

    given = sum(batch.rows for batch in Feed(plan, LocalSource(plan), 0).batches(at))

    spent = STAGE_TIMER.take()
    stages = ("read", "transforms[0]", "augment[0]", "batch")
    assert {stage: spent[StageKey("train", stage)].rows for stage in stages} == dict.fromkeys(
        stages, given
    )
    assert all(spent[StageKey("train", stage)].seconds > 0 for stage in stages)


@pytest.mark.usefixtures("empty_ledger")
def test_a_thread_that_fills_a_buffer_works_for_the_stage_that_asked() -> None:
    def make() -> Iterator[int]:
        for number in range(3):
            time.sleep(0.05)
            yield number

    for _ in STAGE_TIMER.each(MADE, Prefetched(make(), 1)):
        pass

    spent = STAGE_TIMER.take()
    assert spent[MADE].seconds >= 0.15
    assert spent[StageKey("train", STARVED)].seconds >= 0.1


@pytest.mark.usefixtures("empty_ledger")
def test_what_is_staged_is_a_stage(tmp_path: Path) -> None:
    plan = make_plan(write_rows(tmp_path, [[16]]))

    def stage(batch: Batch) -> Batch:
        time.sleep(0.02)
        return replace(batch)

    list(Feed(plan, MemoryBlocks(plan, 0), 0).batches(make_pass(world_size=1), stage))

    assert STAGE_TIMER.take()[StageKey("train", DEVICE)].seconds >= 0.02


def test_what_is_spent_is_told_soon_and_once(clock: Clock, stage_timer: StageTimer) -> None:
    told: list[Spending] = []
    heard = threading.Event()

    def listen(spending: Spending) -> None:
        told.append(spending)
        heard.set()

    stage_timer.add({MADE: Spent(1, 2)})
    stats_reporter = StatsReporter(stage_timer, seconds_between=0.01)
    stats_reporter.tell(listen)
    assert heard.wait(SECONDS)
    stats_reporter.tell_now()

    assert told == [{MADE: Spent(1, 2)}]


def test_spending_adds_up() -> None:
    first, second = {MADE: Spent(1, 2)}, {MADE: Spent(4, 8), INNER: Spent(16, 32)}

    assert added(first, second) == {MADE: Spent(5, 10), INNER: Spent(16, 32)}
    assert since(added(first, second), first) == second


def test_fields_of_the_spec_are_stages() -> None:
    assert key_of("spec.data.datasets.train", READ) == StageKey("train", "read")
    field = "spec.data.datasets.train.transforms[1].use"
    assert key_of(field) == StageKey("train", "transforms[1]")


def test_a_row_took_what_all_stages_took_where_it_was_made() -> None:
    spent = {
        StageKey("train", READ): Spent(2.0, 1000),
        StageKey("train", "transforms[0]"): Spent(3.0, 1000),
        StageKey("train", DEAL): Spent(0.5, 10),
        StageKey("part", READ): Spent(0.5, 10),
        StageKey("train", STARVED): Spent(50.0, 10),
        StageKey("valid", READ): Spent(70.0, 10),
    }

    assert seconds_a_row(spent, "train") == pytest.approx(0.55)
    assert seconds_a_row(spent, "train", ["part"]) == pytest.approx(0.6)
    assert seconds_a_row(spent, "valid") is None
