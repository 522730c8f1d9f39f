"""Two datasets that have each row once between them have to number a file's rows alike."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import write_csv, write_json, write_pictures
from tests.app.data.builders_media import write_film
from tests.app.data.builders_tables import table_rows, write_delta
from tests.builders import make_run
from trainshed.data.sources.formats import parquet_sample
from trainshed.planning.holdouts import check_holdouts
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError

Read = dict[str, JsonValue]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of each format in folders of their names."""
    home = tmp_path_factory.mktemp("home")
    write_csv(home / "csv" / "a.csv", 0, 40)
    write_csv(home / "both" / "a.csv", 0, 40)
    write_json(home / "both" / "a.jsonl", 0, 40)
    write_pictures(home / "images", {"cat": 20, "dog": 20})
    write_film(home / "video" / "a.mp4", 60)
    (home / "text").mkdir()
    (home / "text" / "a.txt").write_text("one\n\ntwo\n" * 20)
    for first in (0, 20):
        write_delta(home / "delta", table_rows(first, 20))
    return home


def look_at(home: Path, train: Read, valid: Read) -> Prepared:
    """Look at a run of two datasets, which share what is in a folder of their format's name."""

    def read(keep: str, given: Read) -> JsonValue:
        held: Read = {"share": 0.5, "keep": keep}
        return {"path": str(given["format"]), "holdout": held, **given}

    datasets: JsonValue = {
        "train": {"read": read("rest", train)},
        "valid": {"read": read("held", valid)},
    }
    # One that takes rows of any columns.
    use = "tests.app.plain_functions:count_rows"
    return prepare(make_run(train=use, data={"datasets": datasets}), RunLocation(Disk(home)))


class Case(NamedTuple):
    """How two datasets are read."""

    train: Read
    valid: Read
    want: str = ""


def case(form: str, train: Read, valid: Read, want: str = "", **alike: JsonValue) -> Case:
    """Return two datasets of a format with other options."""
    both: Read = {"format": form, **alike}
    return Case({**both, "options": train}, {**both, "options": valid}, want)


def sides(train: JsonValue, valid: JsonValue) -> Case:
    """Return two datasets of a film, of which one has more frames, with these holdouts."""
    both = case("video", {"every": 5}, {}, columns=["number"])
    return Case({**both.train, "holdout": train}, {**both.valid, "holdout": valid}, "every: got 1")


HELD: Read = {"share": 0.5, "keep": "held"}
REST: Read = {"share": 0.5, "keep": "rest"}
REFUSED = {
    "frames of a film": case(
        "video",
        {"every": 5},
        {},
        r"spec\.data\.datasets\.valid\.read\.options\.every: got 1; expected 5, as "
        r"spec\.data\.datasets\.train\.read: holdout selects rows by their positions in the files",
        columns=["number"],
    ),
    "lines with nothing on them": case(
        "text",
        {},
        {"emptyLines": True},
        r"valid\.read\.options\.emptyLines: got true; expected false",
    ),
    "a line that is a header": case(
        "csv",
        {},
        {"header": False, "names": ["id", "x", "name"]},
        r"valid\.read\.options\.header: got false; expected true",
    ),
    "lines that are cut otherwise": case(
        "csv", {"multiline": True}, {}, r"valid\.read\.options\.multiline: got false; expected true"
    ),
    "versions of a table": case(
        "delta", {"version": 0}, {}, r"valid\.read\.options\.version: got 1; expected 0"
    ),
    "formats": Case(
        {"format": "csv"},
        {"format": "binary", "path": "csv"},
        r"valid\.read\.format: got binary; expected csv, as spec\.data\.datasets\.train\.read: ",
    ),
    "the held ones first": sides(HELD, REST),
    "a smaller share that is held": sides(REST, {"share": 0.2, "keep": "held"}),
    "a side by value, and one by position": Case(
        {"format": "csv", "holdout": {**REST, "by": "name"}},
        {"format": "csv", "holdout": HELD},
        r"valid\.read\.holdout\.by: got nothing; expected name, as spec\.data\.datasets\.train",
    ),
    "a time that is not yet the other's": Case(
        {"format": "csv", "holdout": {"keep": "rest", "by": "id", "before": "30"}},
        {"format": "csv", "holdout": {"keep": "held", "by": "id", "before": "9"}},
        r"valid\.read\.holdout\.before: got 9; expected 30 or a later value, as",
    ),
    "the same with the held ones first": Case(
        {"format": "csv", "holdout": {"keep": "held", "by": "id", "before": "9"}},
        {"format": "csv", "holdout": {"keep": "rest", "by": "id", "before": "30"}},
        r"valid\.read\.holdout\.before: got 30; expected 9 or an earlier value, as",
    ),
    "a side by time, and one at random": Case(
        {"format": "csv", "holdout": {"keep": "rest", "by": "id", "before": "30"}},
        {"format": "csv", "holdout": {**HELD, "by": "id"}},
        r"valid\.read\.holdout\.before: got nothing; expected a value, as",
    ),
    "a column of another type": Case(
        {"format": "csv", "holdout": {**REST, "by": "id"}, "options": {"types": {"id": "string"}}},
        {"format": "csv", "holdout": {**HELD, "by": "id"}},
        r"valid\.read\.holdout\.by: got id of int64; expected a column of string, as",
    ),
    "one that is stratified": Case(
        {"format": "csv", "holdout": REST},
        {"format": "csv", "holdout": {**HELD, "stratify": "name"}},
        r"valid\.read\.holdout\.stratify: got name; expected no value, as",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_row_has_one_place_in_both(home: Path, case: Case) -> None:
    with pytest.raises(SpecError, match=case.want):
        look_at(home, case.train, case.valid)


ACCEPTED = {
    "all alike": case("text", {"emptyLines": True}, {"emptyLines": True}),
    "a size, and other columns": Case(
        {"format": "video", "options": {"size": [24, 32]}},
        {"format": "video", "columns": ["number"]},
    ),
    "names and types": case(
        "csv",
        {"header": False, "names": ["id", "x", "name"]},
        {"header": False, "names": ["a", "b", "c"], "types": {"a": "string"}},
    ),
    "files that are a row each": Case(
        {"format": "images", "columns": ["image"]},
        {"format": "binary", "path": "images", "columns": ["bytes"]},
    ),
    "no file in both": Case(
        {"format": "csv", "path": "both"}, {"format": "json", "path": "both", "columns": ["id"]}
    ),
    "the newest version by its number": case("delta", {"version": 1}, {}),
    "other folders": Case(
        {"format": "csv", "options": {"multiline": True}}, {"format": "csv", "path": "both"}
    ),
    "sides by a value, which no position changes": Case(
        {"format": "video", "options": {"every": 5}, "holdout": {**REST, "by": "number"}},
        {"format": "video", "columns": ["number"], "holdout": {**HELD, "by": "number"}},
    ),
    "a gap between two times": Case(
        {"format": "csv", "holdout": {"keep": "rest", "by": "id", "before": "9"}},
        {"format": "csv", "holdout": {"keep": "held", "by": "id", "before": "30"}},
    ),
    "the same side twice": sides(HELD, HELD),
    "other seeds": sides(REST, {**HELD, "seed": 1}),
    "shares that have rows in common": sides(REST, {"share": 0.8, "keep": "held"}),
    "one that has all rows": sides(REST, None),
}


@pytest.mark.parametrize("case", ACCEPTED.values(), ids=ACCEPTED)
def test_what_moves_no_row_may_differ(home: Path, case: Case) -> None:
    assert list(look_at(home, case.train, case.valid).plans) == ["train", "valid"]


def test_a_value_has_one_side_whether_all_footers_are_read_or_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_sample, "MOST_COUNTED", 1)
    (tmp_path / "parquet").mkdir()
    for number in range(3):
        users = pa.array(["a", "b", "c", "d"]).dictionary_encode()
        table = pa.table({"user": users, "x": [number] * 4})
        pq.write_table(table, tmp_path / "parquet" / f"{number}.parquet")
    train: Read = {"format": "parquet", "holdout": {**REST, "by": "user"}}
    valid: Read = {"format": "parquet", "holdout": {**HELD, "by": "user"}, "where": "x >= 0"}

    assert list(look_at(tmp_path, train, valid).plans) == ["train", "valid"]


def test_frames_of_one_video_on_both_sides_are_noted(home: Path) -> None:
    def notes(**rule: JsonValue) -> list[str]:
        sides: list[Read] = [
            {"format": "video", "columns": ["number"], "holdout": {**side, **rule}}
            for side in (REST, HELD)
        ]
        return [note for note in look_at(home, *sides).notes if "holdout" in note]

    [train, valid] = notes()

    assert train.startswith("spec.data.datasets.train.read.holdout: frames of one video are in")
    assert valid.startswith("spec.data.datasets.valid.read.holdout: frames of one video are in")
    assert notes(by="number") == []


def test_a_group_on_both_sides_is_noted(home: Path) -> None:
    options: JsonValue = {"length": 2, "columns": ["x"]}
    use = "trainshed.transforms:windows"
    transforms: JsonValue = [{"use": use, "kind": "groups", "by": ["name"], "options": options}]
    read: Read = {"path": "csv", "format": "csv", "holdout": REST}
    run = make_run(
        train="tests.app.plain_functions:count_rows",
        data={"datasets": {"train": {"read": read, "transforms": transforms}}},
    )

    [note] = [note for note in prepare(run, RunLocation(Disk(home))).notes if "holdout" in note]

    assert note.endswith("Set `by: name` to have each group on one side.")


def test_somebody_who_writes_a_table_meanwhile_ends_no_run(home: Path) -> None:
    """Both mean the newest version, and one of them was opened a moment before the other."""
    prepared = look_at(home, {"format": "delta"}, {"format": "delta"})
    plans = prepared.plans
    source = plans["valid"].source
    assert source
    options = source.scan.options.model_copy(update={"version": 2})
    later = replace(source, scan=replace(source.scan, options=options))

    check_holdouts(
        {**plans, "valid": replace(plans["valid"], source=later)}, prepared.spec.data.datasets
    )
