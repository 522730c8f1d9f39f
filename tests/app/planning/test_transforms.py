"""Transforms of every kind are tried out on a few rows before anything starts."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.data.builders_plan import FUNCTIONS, write_rows
from tests.builders import make_data, make_run
from trainshed.data.sampler.dataset_plan import ROW_BYTES
from trainshed.planning.explanation import explain_lines
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError

USE = "spec.data.datasets.train.transforms[0]"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_rows(folder / "rows", [[100]] * 10)
    return folder


def prepared(home: Path, transform: dict[str, JsonValue], **fields: JsonValue) -> Prepared:
    """Return a run whose dataset has a transform, beside other fields."""
    read: JsonValue = {"format": "parquet", "path": "rows"}
    dataset: dict[str, JsonValue] = {"read": read, "transforms": [transform], **fields}
    run = make_run(train="tests.app.processes:children", data=make_data(dataset))
    return prepare(run, RunLocation(Disk(home)))


def make_filter(least: int) -> dict[str, JsonValue]:
    return {"use": f"{FUNCTIONS}:above", "kind": "filter", "options": {"least": least}}


def test_a_filter_is_known_to_change_rows_though_the_first_ones_stay(home: Path) -> None:
    run = prepared(home, make_filter(-1), cache="none")

    assert run.plans["train"].changes_rows
    assert run.plans["train"].is_learned
    lines = [line.strip() for line in explain_lines(run)]
    assert f"transform {FUNCTIONS}:above (filter)" in lines


def test_rows_are_shown_to_augmentations_from_where_a_filter_lets_some_pass(home: Path) -> None:
    words: JsonValue = [{"use": f"{FUNCTIONS}:words"}]
    with pytest.raises(SpecError, match="train: column word: got values of str; expected numbers"):
        prepared(home, make_filter(500), augment=words)

    # And where none passes nobody knows.
    plan = prepared(home, make_filter(5000), augment=words).plans["train"]
    assert plan.row_bytes == ROW_BYTES


def test_columns_are_numbers_wherever_rows_are_looked_at(tmp_path: Path) -> None:
    """A run ended at the first rows whose lists differ in length."""
    (tmp_path / "rows").mkdir()
    for number, lists in enumerate([[[1, 2], [3, 4]], [[1], [2, 3]]]):
        pq.write_table(pa.table({"x": lists}), tmp_path / "rows" / f"{number}.parquet")

    data = make_data({"read": {"format": "parquet", "path": "rows"}})
    run = make_run(train="tests.app.processes:children", data=data)

    with pytest.raises(SpecError, match="train: column x: got values of ndarray; expected numbers"):
        prepare(run, RunLocation(Disk(tmp_path)))


@pytest.mark.parametrize("on_bad_record", ["fail", "skip"])
def test_of_rows_that_transforms_make_small_few_are_read_at_once(
    on_bad_record: str, tmp_path: Path
) -> None:
    """Frames of films were read by as many as fit once they were labels: gigabytes."""
    write_rows(tmp_path / "rows", [[70]], width=2**16)  # of 256 KB
    summed: dict[str, JsonValue] = {"use": f"{FUNCTIONS}:row_sum", "kind": "rows"}

    plan = prepared(tmp_path, summed, onBadRecord=on_bad_record).plans["train"]

    assert plan.read_bytes == pytest.approx(2**18 + 8)
    assert plan.chunk_rows == 16
    assert plan.block_rows > 2**18  # what travels together, as it was


def test_groups_are_tried_out_and_explained(home: Path) -> None:
    groups: dict[str, JsonValue] = {
        "use": f"{FUNCTIONS}:first_of_each",
        "kind": "groups",
        "by": ["id"],
        "orderBy": ["id"],
    }
    run = prepared(home, groups, task={"cpus": 2, "memory": "1Gi"})
    lines = [line.strip() for line in explain_lines(run)]

    assert f"transform {FUNCTIONS}:first_of_each (groups of id, by id)" in lines
    assert "task      2 CPUs, 1,024.0 MB of memory for each task" in lines
    assert "count     rows counted while the cache is filled" in lines
    (cache,) = [line for line in lines if line.startswith("cache ")]
    said = "groups are made once, and about .* kB go into them, which the object store holds"
    assert re.fullmatch(f"cache     objects: {said}", cache)


FAULTS: dict[str, tuple[dict[str, JsonValue], str]] = {
    "groups by what is not there": (
        {"use": f"{FUNCTIONS}:listed", "kind": "groups", "by": ["user"]},
        f'{USE}.by: there is no column "user"; expected one of id, x',
    ),
    "a DataFrame for who wants a dict": (
        {"use": f"{FUNCTIONS}:noted", "batchFormat": "pandas"},
        f"{USE}.use: {FUNCTIONS}:noted raised TypeError: expected a dict, got a DataFrame",
    ),
    "arguments of a constructor for a function": (
        {"use": f"{FUNCTIONS}:doubled", "init": {"column": "x"}},
        f"{USE}.init: got column; expected no value, as {FUNCTIONS}:doubled is no class; arguments "
        "of a function are its options",
    ),
    "other arguments than a constructor takes": (
        {"use": f"{FUNCTIONS}:Scaled", "init": {"scale": 2}},
        f"{USE}.init: got scale; expected keyword arguments of {FUNCTIONS}:Scaled, which are "
        "factor, column (missing a required argument: 'factor')",
    ),
    "no argument where a constructor needs one": (
        {"use": f"{FUNCTIONS}:Scaled"},
        f"{USE}.init: got none; expected keyword arguments of {FUNCTIONS}:Scaled",
    ),
}


@pytest.mark.parametrize(("transform", "want"), FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_is_said_at_its_field(
    home: Path, transform: dict[str, JsonValue], want: str
) -> None:
    with pytest.raises(SpecError) as caught:
        prepared(home, transform)

    assert str(caught.value).startswith(want)
