"""What the rows of each run in manifests/samples/data have to be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from tests.app.data.builders_samples import Sample
from tests.app.data.sample_files import (
    CARRIERS,
    Write,
    animals,
    both,
    clicks,
    flights,
    flown,
    in_a_database,
    in_arrays,
    in_csv,
    in_delta,
    in_files,
    in_films,
    in_iceberg,
    in_json,
    in_lance,
    in_one_file,
    in_parquet,
    in_recordings,
    in_tar,
    in_text,
    in_tfrecords,
    orders,
    vectors_to_mix,
    visits,
)

Check = Callable[[Sample], None]


@dataclass(frozen=True)
class Case:
    """A sample's data.

    Args:
        write: them below the folder that relative paths lie under.
        check: the rows; raises where they are others.
        settings: of what is another here, "path=value" each.
    """

    write: Write
    check: Check
    settings: tuple[str, ...] = ()


def has(**want: Sequence[object]) -> Check:
    """Hold the rows of `train` to be these, by column."""
    return datasets(train=want)


def datasets(**want: Mapping[str, Sequence[object]]) -> Check:
    """Hold the rows of datasets to be these."""

    def check(sample: Sample) -> None:
        assert {name: sample.rows(name) for name in want} == want

    return check


def of_pictures(*means: float) -> list[object]:
    """Return how decoded pictures are told."""
    return [((32, 32, 3), pytest.approx(mean, abs=1)) for mean in means]


ANIMALS: dict[str, Sequence[object]] = {
    "image": of_pictures(0, 7, 14, 21, 28, 35),
    "label": [0] * 4 + [1] * 2,
}


def check_choosing(sample: Sample) -> None:
    """Of 400 flights one side has what two conditions leave of most, the other of a tenth."""
    table = flights(400)
    late = table.filter(pc.is_valid(table["delay"]))
    chosen = late.filter(pc.is_in(late["carrier"], pa.array(["AA", "DL"])))
    train, valid = (set(sample.rows(name)["distance"]) for name in ("train", "valid"))

    assert not train & valid
    assert valid < set(late["distance"].to_pylist())
    assert train == set(chosen["distance"].to_pylist()) - valid
    assert 0.05 < len(valid) / len(late) < 0.15


def check_strata(sample: Sample) -> None:
    """Of 40 flights of each carrier four are held out, and not those of another seed."""
    carriers = {distance: CARRIERS[n % 3] for n, distance in enumerate(flown(120)["distance"])}
    train, valid = (sample.rows(name)["distance"] for name in ("train", "valid"))
    held = [carriers[distance] for distance in valid]

    assert len(train) + len(valid) == len(carriers)
    assert {*train, *valid} == carriers.keys()
    assert {prefetcher: held.count(prefetcher) for prefetcher in CARRIERS} == dict.fromkeys(
        CARRIERS, 4
    )


def check_sides(column: str) -> Check:
    """Hold each value of a column of visits to be on one side, and both sides to have some."""
    values = dict(zip(*(visits()[name].to_pylist() for name in ("price", column)), strict=True))

    def check(sample: Sample) -> None:
        train, valid = (sample.rows(name)["price"] for name in ("train", "valid"))
        assert len(train) + len(valid) == len(values)
        assert {*train, *valid} == values.keys()
        sides = [{values[price] for price in prices} for prices in (train, valid)]
        assert sides[0].isdisjoint(sides[1])
        assert all(sides)

    return check


def check_after(sample: Sample) -> None:
    """Hold the sides to meet at the first of March."""
    check_sides("day")(sample)
    days = visits()["day"].to_pylist()
    assert sample.rows("valid")["price"] == [
        number for number, day in enumerate(days) if day >= date(2026, 3, 1)
    ]


def check_mix(sample: Sample) -> None:
    """Of 100 rows of an epoch about 70 are of the one, so its 40 come round."""
    for epoch in range(2):
        rows = sample.epoch(epoch)
        assert len(rows["label"]) == 100
        assert abs(rows["label"].count(0) - 70) <= 5
        assert rows["vector"] == [[1.0 if label else -1.0] * 4 for label in rows["label"]]


def check_bad_records(sample: Sample) -> None:
    """What is left, and what was left out."""
    left = sample.rows()

    assert left == {"age": [30, 33, 35], "price": [1.5, 3.5, 4.5], "paid": [1, 0, 1]}
    assert max(told.rows for told in sample.left_out) == 3


def check_kept_by_workers(sample: Sample) -> None:
    """Each epoch has the same rows, in an order of its own."""
    _each_epoch_has(sample, flown())


def check_read_anew(sample: Sample) -> None:
    """Each epoch has all flights that are long enough, in an order of its own."""
    _each_epoch_has(sample, flown(16, first=4))


def _each_epoch_has(sample: Sample, want: Mapping[str, Sequence[object]]) -> None:
    rows = list(zip(*want.values(), strict=True))
    epochs = [list(zip(*sample.epoch(epoch).values(), strict=True)) for epoch in range(2)]
    # What fills no step is left out, other rows in each epoch.
    full = len(rows) - len(rows) % sample.run.spec.batch_size

    assert list(zip(*sample.rows().values(), strict=True)) == rows
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert len(epoch) == len(set(epoch)) == full
        assert set(epoch) <= set(rows)


def check_augmented(sample: Sample) -> None:
    """Pictures are those of the files where they are evaluated, and other ones in each epoch."""
    has(**ANIMALS)(sample)
    first, second = (
        torch.cat([batch.tensors["image"] for batch in sample.batches("train", epoch=epoch)])
        for epoch in range(2)
    )

    assert len(first) == len(second) == 4  # of six, what fills a step
    assert not torch.equal(first, second)


def check_feeding(sample: Sample) -> None:
    """Columns have the types that are asked for, and the last step what is left."""
    batches = sample.batches("train")

    assert [batch.rows for batch in batches] == [4, 4, 2]
    assert {name: tensor.dtype for name, tensor in batches[0].tensors.items()} == {
        "distance": torch.float32,
        "hour": torch.float32,
        "late": torch.int64,
    }
    plans, data = sample.plans, sample.run.spec.data
    assert (plans["train"].spec.feed.prefetch_batches, data.placement, data.cpus) == (10, "cpu", 2)
    assert (plans["train"].spec.split, plans["valid"].spec.split) == (True, False)
    datasets(train=flown(), valid=flown(4, first=20))(sample)


def check_transforms(sample: Sample) -> None:
    """Each function has done its part, on what the one before it left."""
    table = flights(4, first=6)
    distances, hours = table["distance"].to_pylist(), table["hours"].to_pylist()
    places = {"AA": 0, "DL": 1, "UA": 2}

    assert sample.rows() == {
        "distance": [pytest.approx((each - 1000) / 500) for each in distances],
        "hours": hours,
        "carrier": [places[each] for each in table["carrier"].to_pylist()],
        "delay": [each or 0.0 for each in table["delay"].to_pylist()],
        "late": table["late"].to_pylist(),
        "speed": [pytest.approx(far / long) for far, long in zip(distances, hours, strict=True)],
    }
    assert (sample.plans["train"].task_cpus, sample.plans["train"].task_memory) == (2, 2**29)


def check_windows(sample: Sample) -> None:
    """Two windows of the first user's 40 rows, and one of the second's 33, each in its order."""
    found = sample.rows()
    columns = (found[name] for name in ("user", "time", "item", "price", "bought"))
    windows = {(user, time): rest for user, time, *rest in zip(*columns, strict=True)}

    assert len(found["user"]) == 3
    assert windows == {
        (user, first + 31): [
            [100 * user + first + n for n in range(32)],
            [float(first + n) for n in range(32)],
            (first + 31) % 2,
        ]
        for user, first in ((1, 0), (1, 8), (2, 0))
    }


def check_drawn(sample: Sample) -> None:
    """As many points as the options say."""
    found = sample.rows()

    assert len(found["label"]) == 40
    assert found["xy"][:2] == [[0.0, 1.0], pytest.approx([np.sin(1), np.cos(3)])]
    assert found["label"][:2] == [0, 0]


LETTERS = "abcdefghijklmnopqrstuvwxyz"
FLIGHTS = in_parquet(flights())

# Read by this process, as Ray Data's tasks would.
HERE: dict[str, Case] = {
    "parquet": Case(FLIGHTS, has(**flown())),
    "csv": Case(in_csv, has(**flown())),
    "json": Case(in_json, datasets(train=flown(), valid=flown(3, first=10))),
    "text": Case(
        in_text,
        has(
            letters=[
                [float("abadcab".count(letter)) for letter in LETTERS],
                [float("zz".count(letter)) for letter in LETTERS],
            ],
            label=[0, 1],
        ),
    ),
    "images": Case(animals("animals"), check_augmented),
    "binary": Case(
        in_files, has(pixels=[list(range(64)), [255] * 64], label=[3, 7]), ("spec.batchSize=2",)
    ),
    "numpy": Case(
        in_arrays,
        has(features=[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], label=[0, 1, 0]),
        ("spec.batchSize=3",),
    ),
    "tfrecords": Case(
        in_tfrecords,
        has(tokens=[[7] * 2 + [0] * 14, [7] + [0] * 15, [7] * 16], label=[0, 1, 0]),
    ),
    "webdataset": Case(in_tar, has(image=of_pictures(0, 10, 20), label=[5, 6, 7])),
    "delta": Case(in_delta, has(**flown())),
    "iceberg": Case(in_iceberg, has(**flown())),
    "lance": Case(
        in_lance, has(vector=[[0, 1, 2, 3], [4, 5, 6, 7]], label=[0, 1]), ("spec.batchSize=2",)
    ),
    "audio": Case(
        in_recordings,
        has(
            audio=[((8000,), pytest.approx(level, abs=0.001)) for level in (0.25, 0.5)],
            label=[0, 1],
        ),
        ("spec.batchSize=2",),
    ),
    "video": Case(
        in_films,
        has(
            frame=[((24, 32, 3), pytest.approx(grey, abs=3)) for grey in (0, 50, 100)],
            number=[0, 10, 20],
        ),
    ),
    "cache-workers": Case(FLIGHTS, check_kept_by_workers),
    "choosing-rows": Case(in_parquet(flights(400)), check_choosing),
    "stratify": Case(in_parquet(flights(120)), check_strata),
    "holdout-by-value": Case(in_parquet(visits(), "visits"), check_sides("user")),
    "holdout-by-time": Case(in_parquet(visits(), "visits"), check_after),
    "mix": Case(vectors_to_mix, check_mix, ("spec.data.datasets.train.rowsPerEpoch=100",)),
    "bad-records": Case(orders, check_bad_records),
    "transforms": Case(FLIGHTS, check_transforms),
    "feeding": Case(
        both(FLIGHTS, in_parquet(flights(4, first=20), "flights-of-may")), check_feeding
    ),
}

# Read from a server.
SERVED: dict[str, Case] = {
    "http": Case(in_one_file, has(**flown())),
    "bucket": Case(animals("train"), has(**ANIMALS)),
}

# Made, kept or streamed by Ray Data.
IN_RAY: dict[str, Case] = {
    "function": Case(both(), check_drawn, ("spec.data.datasets.train.read.options={rows: 40}",)),
    "database": Case(in_a_database, has(**flown())),
    "cache-none": Case(in_parquet(flights(20), row_group_size=5), check_read_anew),
    "cache-objects": Case(animals("animals"), check_augmented),
    "cache-disk": Case(
        animals("animals"),
        has(**ANIMALS),
    ),
    "groups": Case(clicks, check_windows),
}
