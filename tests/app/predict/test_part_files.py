"""The parts of predictions on a disk: whose they are, and who writes them."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from trainshed.data.sources.column_arrays import as_objects
from trainshed.predict import part_files
from trainshed.predict.part_files import PartFiles
from trainshed_api.errors import SpecError


@pytest.mark.parametrize("name", ["mine", "deep/identity"])
def test_a_folder_of_the_user_is_not_deleted(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "out.jsonl.parts" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")

    with pytest.raises(SpecError, match=r"^--output: got .*out.jsonl; expected a name for which"):
        PartFiles(tmp_path / "out.jsonl", "model", None)

    assert mine.read_text() == "mine"


def test_a_file_at_the_path_of_the_parts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.parts").write_text("mine")

    with pytest.raises(SpecError, match=r"^--output: got .*out.jsonl; expected a name for which"):
        PartFiles(tmp_path / "out.jsonl", "model", None)


def test_two_predictions_do_not_write_one_file(tmp_path: Path) -> None:
    with closing(PartFiles(tmp_path / "out.jsonl", "model", None)) as first:
        first.write(0, [])

        with pytest.raises(SpecError, match="expected a file that no other prediction writes"):
            PartFiles(tmp_path / "out.jsonl", "other", None)

    with closing(PartFiles(tmp_path / "out.jsonl", "model", None)) as second:
        assert second.has(0)


def test_parts_of_another_identity_are_deleted(tmp_path: Path) -> None:
    with closing(PartFiles(tmp_path / "out.jsonl", "model", None)) as first:
        first.write(0, [])

    for identity in ("other", "model"):
        with closing(PartFiles(tmp_path / "out.jsonl", identity, None)) as again:
            assert not again.has(0)


@pytest.mark.parametrize("first", [[None], [None, [2.5]], [[2.5], None]])
def test_a_column_without_a_first_value_has_the_type_of_its_later_values(
    tmp_path: Path, first: list[object]
) -> None:
    file = tmp_path / "out.parquet"
    rows: list[list[object]] = [first, [[1.5], [1.0, 2.0]], [None]]
    with closing(PartFiles(file, "model", None)) as parts:
        for number, values in enumerate(rows):
            tables = [{"v": as_objects([each]), "w": as_objects([None])} for each in values]
            assert parts.write(number, tables) == len(values)
        parts.finish(3)

    want = [*first, [1.5], [1.0, 2.0], None]
    assert pq.read_table(file).to_pydict() == {"v": want, "w": [None] * len(want)}


@pytest.mark.parametrize("value", ["late", 2.5, [1.0, 2.0], np.ones((2, 3))])
def test_a_first_value_may_be_in_a_later_row_group(
    value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "_GROUP_ROWS", 2)
    file = tmp_path / "out.parquet"
    rows = [(0, None), (1, None), (2, None), (3, None), (4, value), (5, value), (6, None)]
    with closing(PartFiles(file, "model", None)) as parts:
        tables = [{"id": np.array([n]), "v": as_objects([each])} for n, each in rows]
        assert parts.write(0, tables) == len(rows)
        parts.finish(1)

    read = pq.read_table(file)
    assert read["id"].to_pylist() == list(range(7))
    assert [each is None for each in read["v"].to_pylist()] == [each is None for _, each in rows]
