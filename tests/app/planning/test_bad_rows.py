"""Bad rows among those that are looked at before a run: left out and said, or refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.data.builders_plan import FUNCTIONS
from tests.builders import make_data, make_run
from trainshed.planning.explanation import explain_lines
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError

if TYPE_CHECKING:
    from pydantic import JsonValue

BAD = "q,1"


def look_at(folder: Path, files: Sequence[Sequence[str]], on_bad_record: str = "skip") -> Prepared:
    """Look at the rows of a run; a line of a file has columns x and y."""
    (folder / "rows").mkdir()
    for number, lines in enumerate(files):
        (folder / "rows" / f"{number}.csv").write_text("\n".join(["x,y", *lines]))
    options: JsonValue = {"types": {"x": "float32"}}
    read: JsonValue = {"format": "csv", "path": "rows", "options": options}
    run = make_run(
        train="tests.app.train_functions:regress",
        epochs=1,
        batchSize=2,
        data={"datasets": {"train": {"read": read, "onBadRecord": on_bad_record}}},
    )
    return prepare(run, RunLocation(Disk(folder)))


def test_bad_rows_that_are_met_are_left_out_and_said(tmp_path: Path) -> None:
    prepared = look_at(tmp_path, [["1,1", BAD, "2,1"], ["3,1", "4,1", BAD]])

    (note,) = (note for note in prepared.notes if "looked at" in note)
    assert "spec.data.datasets.train: 2 of the rows that were looked at are bad" in note
    assert "rows/0.csv: byte 8: " in note
    assert prepared.plans["train"].bad_record_limit == 1000
    assert "  skip      bad records, at most 1000" in explain_lines(prepared)


def test_a_file_of_which_nothing_is_good_stands_in_nobodys_way(tmp_path: Path) -> None:
    prepared = look_at(tmp_path, [[BAD] * 300, ["1,1", "2,1", "3,1"]])

    assert any("100 of the rows that were looked at are bad" in note for note in prepared.notes)


def test_rows_of_which_none_is_good_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"0\.csv: byte 4: .*none of 2 places has one"):
        look_at(tmp_path, [[BAD] * 3, [BAD]])


def test_without_leave_a_bad_row_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"0\.csv: byte 8: .*invalid value 'q'"):
        look_at(tmp_path, [["1,1", BAD, "2,1"]], "fail")


@pytest.mark.parametrize(
    ("where", "transforms", "place"),
    [
        (None, [], r"row 5 of row group 0 in \S+/0\.parquet"),
        (
            "n >= 4",
            [],
            r"row 1 of row group 0 in \S+/0\.parquet, of the rows that are chosen",
        ),
        (
            None,
            [{"use": f"{FUNCTIONS}:odd_rows"}],
            r"row 2 of row group 0 in \S+/0\.parquet as the transforms leave them",
        ),
    ],
)
def test_a_value_that_its_type_cannot_hold_is_said_with_its_row(
    where: str | None, transforms: list["JsonValue"], place: str, tmp_path: Path
) -> None:
    numbers = list(range(8))
    table = pa.table({"id": numbers, "n": numbers, "x": [0.5 if n == 5 else 1.0 for n in numbers]})
    (tmp_path / "rows").mkdir()
    pq.write_table(table, tmp_path / "rows" / "0.parquet")
    read: JsonValue = {"format": "parquet", "path": "rows", "where": where}
    feed: JsonValue = {"dtypes": {"x": "int64"}}
    data = make_data({"read": read, "feed": feed, "transforms": transforms})

    with pytest.raises(SpecError, match=rf"feed\.dtypes\.x: column x, {place}: got 0\.5; "):
        prepare(
            make_run(train="tests.app.processes:children", data=data), RunLocation(Disk(tmp_path))
        )
