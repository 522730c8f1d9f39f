"""What is said of a run that waits for data, by its meters; no run is needed for that."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.data.builders_plan import make_mix, make_plan, write_rows
from trainshed.coordinator.bottleneck import StepTiming, diagnose, say_limit
from trainshed.coordinator.data_wait import TRAINING, WAITING, DataWaitMonitor
from trainshed.coordinator.stage_rates import Means
from trainshed.data.sampler.sizes import Size
from trainshed.data.sampler.stage_time import Spending, Spent, StageKey

GB = 2**30
TRANSFORMS: JsonValue = [{"use": "my:decode"}]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), [[100] * 10])


def make_means(cores: int | None = None, object_store: int | None = None) -> Means:
    return Means(2, 2, cores, object_store)


def spending(rows: int = 10_000, dataset: str = "train", **milliseconds: float) -> Spending:
    """Return what stages took of so many rows, from milliseconds a row; `wait` is seconds."""
    names = {"transform": "transforms[0]", "augment": "augment[0]"}
    return {
        StageKey(dataset, names.get(stage, stage)): Spent(each, 0)
        if stage in ("wait", "starved")
        else Spent(each * rows / 1000, rows)
        for stage, each in milliseconds.items()
    }


@dataclass(frozen=True)
class Case:
    """A dataset and its meters, and what must be said of it.

    Training takes 610 rows a second of the 10,000 that were given while it does not wait.

    Args:
        fields: of the dataset.
        spent: by stage.
        want: the stage, and words of the message.
        loop: of the workers.
        means: that it is prepared with.
        settings: of the plan.
    """

    fields: Mapping[str, JsonValue]
    spent: Spending
    want: tuple[str, ...]
    loop: StepTiming = StepTiming(training=10_000 / 610, waiting=24.1)  # noqa: RUF009 - frozen
    means: Means = make_means()  # noqa: RUF009 - frozen
    settings: Mapping[str, object] | None = None


DECODE = spending(read=0.01, transform=8.1, deal=0.02, batch=0.001, wait=46.0)
STREAMED: dict[str, JsonValue] = {"cache": "none", "transforms": TRANSFORMS}
SIZE = Size(GB, GB, GB)
CASES = {
    "a slow transform": Case(
        STREAMED,
        DECODE,
        (
            "transforms[0]",
            "waiting for data takes 60 % of the time: transform my:decode needs 8.1 ms a row on "
            "2 CPUs for data = 246 rows/s, training takes 610: set data.cpus to 5",
        ),
    ),
    "tasks of two CPUs each": Case(
        STREAMED | {"task": {"cpus": 2}},
        DECODE,
        (
            "transforms[0]",
            "needs 8.1 of 16.3 ms a row on 2 CPUs for data = 123 rows/s, training takes 610: set "
            "data.cpus to 10",
        ),
    ),
    "rows that all workers get": Case(
        STREAMED | {"split": False},
        {**DECODE, **spending(20_000, batch=0.001)},
        ("transforms[0]", "= 246 rows/s, training takes 610: set data.cpus to 5"),
    ),
    "rows that evaluation takes, too": Case(
        STREAMED,
        {
            **spending(30_000, read=0.01, transform=8.1, deal=0.02, batch=0.001),
            StageKey("train", "wait"): Spent(46.0, 10_000),
        },
        ("transforms[0]", "= 246 rows/s, training takes 610: set data.cpus to 5"),
    ),
    "one that a cache would spare": Case(
        STREAMED,
        DECODE,
        ("transforms[0]", "set data.cpus to 5, or cache: objects (about 1,024.0 MB, which fits)"),
        means=make_means(object_store=3 * GB),
        settings={"size": SIZE},
    ),
    "one that no cache has room for": Case(
        STREAMED,
        DECODE,
        (
            "transforms[0]",
            "or a larger object store for cache: objects (about 1,024.0 MB, of 1,024.0 MB half), "
            "or cache: disk (about 1,024.0 MB on the run's storage)",
        ),
        means=make_means(object_store=GB),
        settings={"size": SIZE},
    ),
    "more CPUs than there are": Case(
        STREAMED,
        DECODE,
        ("transforms[0]", "set data.cpus to 5 (there are 4)"),
        means=make_means(cores=4),
    ),
    "far more CPUs than anybody has": Case(
        STREAMED,
        DECODE,
        ("transforms[0]", "set data.cpus as high as can be (813 would do, there are 4)"),
        loop=StepTiming(training=0.1, waiting=60.0),
        means=make_means(cores=4),
    ),
    "a transform of single rows": Case(
        {"cache": "none", "transforms": [{"use": "my:decode", "kind": "rows"}]},
        DECODE,
        ("transforms[0]", "kind: batches"),
    ),
    "two stages that are too slow together": Case(
        STREAMED,
        spending(read=2.0, transform=2.5, batch=0.001, deal=0.1, wait=46.0),
        ("transforms[0]", "needs 2.5 of 4.6 ms a row on 2 CPUs for data = 435 rows/s"),
    ),
    "a slow function of batches": Case(
        {"cache": "none", "feed": {"collate": {"use": "my:pad"}}},
        spending(read=0.1, deal=0.1, batch=0.1, collate=8.0, device=0.1, wait=46.0),
        (
            "collate",
            "collating by my:pad needs 8 ms a row on 2 workers' threads = 244 rows/s, "
            "training takes 610: train with more workers, or what a row needs by itself, such as "
            "its tokens, made in transforms",
        ),
    ),
    "slow reading": Case(
        {"cache": "none"},
        spending(read=8.0, deal=0.1, batch=0.001, wait=46.0),
        ("read", "reading parquet needs 8 ", "set data.cpus to 5, or read.columns"),
    ),
    "slow augmentation on the data's CPUs": Case(
        {"cache": "none", "augment": [{"use": "my:flip"}]},
        spending(read=0.1, augment=8.0, deal=0.1, batch=0.001, wait=46.0),
        ("augment[0]", "augmentation my:flip needs 8 ", "set data.cpus to 6"),
    ),
    "slow augmentation in the workers": Case(
        {"cache": "workers", "augment": [{"use": "my:flip"}]},
        spending(augment=8.0, batch=0.001, wait=46.0),
        ("augment[0]", "2 workers' threads", "cache: objects, with which the data's CPUs augment"),
    ),
    "rows that come from far": Case(
        {"cache": "none"},
        spending(read=0.1, deal=0.1, transfer=6.0, batch=0.1, wait=46.0),
        ("transfer", "bringing rows to a worker needs 6 ", "data.placement"),
    ),
    "batches that take long to make": Case(
        {"cache": "none"},
        spending(read=0.1, deal=0.1, transfer=0.1, batch=6.0, wait=46.0),
        ("batch", "making batches needs 6 ", "more workers", "fewer bytes a row"),
    ),
    "batches that nobody makes ahead": Case(
        {"cache": "none", "feed": {"prefetchBatches": 0}},
        spending(read=0.1, deal=0.1, transfer=0.1, batch=6.0, wait=46.0),
        ("batch", "set feed.prefetchBatches to 2"),
    ),
    "batches that come unevenly": Case(
        {"cache": "none"},
        spending(read=0.1, deal=0.1, transfer=0.1, batch=0.1, wait=46.0),
        ("batch", "unevenly: set feed.prefetchBatches to 4"),
    ),
    "rows that do not come though there is time": Case(
        {"cache": "none"},
        spending(read=0.1, deal=0.1, batch=0.1, wait=46.0, starved=46.0),
        ("starved", "free for data?"),
    ),
    "a cache that is filled": Case(
        {"cache": "objects", "transforms": TRANSFORMS},
        spending(read=1.0, transform=8.1, batch=0.001, wait=1.0),
        ("read", "24 s before first batches, while the cache of train was filled, once"),
    ),
    "a cache on disk whose filling took long": Case(
        {"cache": "disk", "transforms": TRANSFORMS},
        spending(fill=80.0, read=8.0, deal=0.1, batch=0.001, wait=46.0),
        ("read", "needs 8 ms a row on 2 CPUs for data = 247 rows/s", "set data.cpus to 5"),
    ),
    "a slow transform of rows that workers keep": Case(
        {"cache": "workers", "transforms": [{"use": "my:decode", "kind": "rows"}]},
        spending(read=0.01, transform=8.1, deal=0.02, batch=0.001, wait=46.0, starved=46.0),
        ("transforms[0]", "transform my:decode needs 8.1 ms", "set data.cpus to 5"),
    ),
    "a sort in each epoch": Case(
        {"cache": "none", "shuffle": {"mode": "global"}},
        spending(read=0.1, deal=0.1, batch=0.01, wait=1.0),
        ("read", "mode: global reads and sorts all rows", "mode: blocks"),
    ),
    "a buffer that fills up": Case(
        {"cache": "none", "shuffle": {"mode": "local", "bufferSize": 5000}},
        spending(read=0.1, deal=0.1, batch=0.01, wait=1.0),
        ("read", "a buffer of 5,000 rows"),
    ),
    "epochs that are short": Case(
        {"cache": "none"},
        spending(read=0.1, deal=0.1, batch=0.01, wait=1.0),
        ("read", "24 s before first batches of epochs", "rowsPerEpoch"),
    ),
    "rows that were counted": Case(
        {"cache": "none", "steps": "known"},
        spending(read=0.1, deal=0.1, batch=0.01, wait=1.0, count=2.0),
        ("count", "rows were counted before the first step: leave out steps: known"),
    ),
    "rows that were counted for epochs of so many": Case(
        {"cache": "none", "rowsPerEpoch": 500},
        spending(read=0.1, deal=0.1, batch=0.01, wait=1.0, count=2.0),
        ("count", "before the first step, as rowsPerEpoch needs their number"),
    ),
    "rows that were counted for a framework": Case(
        {"cache": "none"},
        spending(read=0.1, deal=0.1, batch=0.01, wait=1.0, count=2.0),
        ("count", "as the framework needs their number: files of trainshed data write tell it"),
    ),
    "rows that are all read before the first step": Case(
        STREAMED,
        spending(read=0.01, transform=8.1, deal=0.02, batch=0.001),
        (
            "transforms[0]",
            "24 s before the first step, until all rows were read; transform my:decode needs 8.1 "
            "ms a row on 2 CPUs for data = 246 rows/s: set more data.cpus",
        ),
        means=replace(make_means(), reads_ahead=True),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_short_is_named_with_what_to_change(rows: Path, case: Case) -> None:
    plan = make_plan(rows, **case.fields)  # type: ignore[arg-type]  # of the spec
    plan = replace(plan, **(case.settings or {"size": None}))  # type: ignore[arg-type]

    found = diagnose(plan, case.spent, case.means, case.loop)

    assert found
    stage, *said = case.want
    assert found.stage == StageKey("train", stage)
    assert all(words in found.message for words in said), found.message


def test_of_a_mix_the_part_is_named_whose_rows_were_counted(rows: Path) -> None:
    plain = make_plan(rows, cache="none")
    plan = make_mix({"web": (plain, 0.5), "books": (plain, 0.5)})
    spent = {
        **spending(deal=0.1, batch=0.01, wait=1.0),
        StageKey("books", "count"): Spent(20.0, 100),
    }

    found = diagnose(plan, spent, make_means(), StepTiming(10_000 / 610, 24.1))

    assert found
    assert found.stage == StageKey("books", "count")
    assert "rows of books were counted before the first step, as a mix needs" in found.message


def test_of_a_mix_the_slow_part_is_named(rows: Path) -> None:
    plain, slow = make_plan(rows, cache="none"), make_plan(rows, **STREAMED)  # type: ignore[arg-type]
    plan = make_mix({"web": (plain, 0.5), "books": (slow, 0.5)})
    spent = {
        **spending(5000, "web", read=0.1),
        **spending(5000, "books", read=0.1, transform=16.0),
        **spending(deal=0.1, batch=0.01, wait=46.0),
    }

    found = diagnose(plan, spent, make_means(), StepTiming(10_000 / 610, 24.1))

    assert found
    assert found.stage == StageKey("books", "transforms[0]")
    assert "transform my:decode of books needs 8 ms a row" in found.message


QUIET = {
    "hardly any waiting": StepTiming(training=100.0, waiting=9.0),
    "not for long yet": StepTiming(training=1.0, waiting=20.0),
    "nothing yet": StepTiming(0.0, 0.0),
}


@pytest.mark.parametrize("loop", QUIET.values(), ids=QUIET)
def test_nothing_is_said_of_a_run_that_does_well(rows: Path, loop: StepTiming) -> None:
    assert diagnose(make_plan(rows), DECODE, make_means(), loop) is None


def test_where_nobody_trains_the_limit_is_told(rows: Path) -> None:
    plan = make_plan(rows, **STREAMED)  # type: ignore[arg-type]  # of the spec

    said = say_limit(replace(plan, size=None), DECODE, make_means())

    assert said == (
        "slowest: transform my:decode needs 8.1 ms a row on 2 CPUs for data = 246 rows/s; what "
        "helps: more data.cpus (123 rows/s each)"
    )


@pytest.fixture
def waits(rows: Path) -> DataWaitMonitor:
    plan = make_plan(rows, **STREAMED)  # type: ignore[arg-type]  # of the spec
    return DataWaitMonitor({"train": plan}, make_means())


def test_waiting_is_told_once_and_at_the_end_only_where_it_is_something_else(
    waits: DataWaitMonitor,
) -> None:
    seconds = {TRAINING: 10_000 / 610, WAITING: 24.1}
    slow_read = spending(read=8.0, deal=0.1, batch=0.001, wait=46.0)

    assert waits.notice({TRAINING: 1.0, WAITING: 5.0}, DECODE) is None
    assert "my:decode" in str(waits.notice(seconds, DECODE))
    assert waits.notice(seconds, DECODE) is None
    assert waits.notice(seconds, slow_read) is None
    assert waits.notice(seconds, DECODE, is_over=True) is None
    assert "reading parquet" in str(waits.notice(seconds, slow_read, is_over=True))


def grown(spent: Spending, times: float) -> Spending:
    return {key: Spent(each.seconds * times, int(each.rows * times)) for key, each in spent.items()}


def test_what_training_waited_for_is_said_until_it_has_not_for_a_while(
    waits: DataWaitMonitor,
) -> None:
    waited, spent = {TRAINING: 1640.0, WAITING: 2410.0}, grown(DECODE, 100)

    told, lately = [], []
    for minutes in range(35):
        busy = {**waited, TRAINING: waited[TRAINING] + 60.0 * minutes}
        told.append(waits.notice(busy, spent))
        lately.append(waits.now is not None)

    assert [said is not None for said in told] == [True] + 34 * [False]
    assert lately == 30 * [True] + 5 * [False]
    assert waits.verdict(busy, spent)


def test_waiting_that_begins_late_is_told_however_long_the_run_has_gone_on(
    waits: DataWaitMonitor,
) -> None:
    weeks, told = 2_000_000.0, []
    waits.notice({TRAINING: weeks}, {})
    for minutes in range(1, 61):  # it waits as in the other cases
        seconds = {TRAINING: weeks + 24.0 * minutes, WAITING: 36.0 * minutes}
        told.append(waits.notice(seconds, grown(DECODE, 1.464 * minutes)))
        assert waits.verdict(seconds, DECODE) is None

    (said,) = filter(None, told)
    assert "waiting for data takes 60 % of the time: transform my:decode needs 8.1 ms" in said
    assert waits.now


def test_another_stage_is_told_once_the_first_one_did_not_hold(waits: DataWaitMonitor) -> None:
    waited = {TRAINING: 10_000 / 610, WAITING: 24.1}
    assert waits.notice(waited, DECODE)
    for training in (2000.0, 4000.0):
        assert waits.notice({**waited, TRAINING: training}, DECODE) is None

    slow_read = spending(
        1_240_000, read=8.0, transform=0.1, deal=0.02, batch=0.001, wait=46.0 + 1500.0
    )
    later = {TRAINING: 4016.0, WAITING: waited[WAITING] + 1000.0}

    assert "reading parquet" in str(waits.notice(later, slow_read))


def test_of_two_datasets_in_a_loop_the_one_that_is_waited_for_is_told(rows: Path) -> None:
    plans = {
        "train": make_plan(rows, cache="none"),
        "pairs": replace(make_plan(rows, **STREAMED), name="pairs"),  # type: ignore[arg-type]
    }
    waits = DataWaitMonitor(plans, make_means())
    seconds = {TRAINING: 10_000 / 610, WAITING: 24.1}
    quick = spending(read=0.01, deal=0.02, batch=0.001, wait=0.2)
    slow = spending(dataset="pairs", read=0.01, transform=8.1, deal=0.02, batch=0.001, wait=46.0)

    found = waits.verdict(seconds, {**quick, **slow})

    assert found
    assert found.stage == StageKey("pairs", "transforms[0]")
    assert found.message.startswith("dataset pairs: waiting for data takes 60 % of the time: ")
    first = waits.verdict(seconds, {**quick, **slow, StageKey("pairs", "wait"): Spent(1.0, 0)})
    assert first
    assert first.stage.dataset == "train"


def test_what_a_lost_group_waited_for_does_not_count(waits: DataWaitMonitor) -> None:
    seconds = {TRAINING: 10_000 / 610, WAITING: 24.1}
    waits.begin(seconds, DECODE)

    assert waits.verdict(seconds, DECODE) is None
    later = {TRAINING: seconds[TRAINING] + 100.0, WAITING: 24.1}
    assert waits.verdict(later, DECODE) is None
