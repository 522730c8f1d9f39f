"""The files that several workers write: whose folder it is, what is missing, and their types."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from trainshed.data.sources.column_arrays import Columns, as_objects
from trainshed.predict.part_folder import PartFolder, stale_files
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError


def parts_of(folder: Path, count: int = 2, identity: str = "model") -> PartFolder:
    return PartFolder(Disk(folder), identity, count, None)


def a_table(*values: object) -> Columns:
    return {"prediction": as_objects(list(values))}


def test_a_prediction_continues_in_its_own_folder(tmp_path: Path) -> None:
    parts_of(tmp_path / "out.jsonl").begin()
    parts_of(tmp_path / "out.jsonl").write(1, [a_table("cat")])

    again = parts_of(tmp_path / "out.jsonl")
    again.begin()

    assert again.missing() == [0]


REFUSED = {
    "a folder of another prediction": ("_identity", "predictions of another model"),
    "a folder of the user": ("mine", "this one has other files"),
    "a complete prediction": ("_SUCCESS", "this one has all predictions"),
}


@pytest.mark.parametrize(("name", "want"), REFUSED.values(), ids=REFUSED)
def test_a_folder_with_other_files_is_refused_and_left(
    tmp_path: Path, name: str, want: str
) -> None:
    (tmp_path / "out.jsonl").mkdir()
    (tmp_path / "out.jsonl" / name).write_text("other")

    with pytest.raises(SpecError, match=rf"^--output: got .*out.jsonl; expected .*{want}"):
        parts_of(tmp_path / "out.jsonl").begin()

    assert (tmp_path / "out.jsonl" / name).read_text() == "other"


def test_a_file_as_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").touch()

    with pytest.raises(SpecError, match=r"expected a new folder; this is a file"):
        parts_of(tmp_path / "out.jsonl").begin()


class BegunMeanwhile(Disk):
    """A folder in which another command begins just after this one has seen that it is empty."""

    def names(self) -> list[str]:
        names = super().names()
        if not names:
            parts_of(self.at, identity="another model").begin()
        return names


def test_two_predictions_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = BegunMeanwhile(tmp_path / "out.jsonl")

    with pytest.raises(SpecError, match="this one has predictions of another model"):
        PartFolder(folder, "model", 2, None).begin()

    assert folder.read("_identity") == b"another model"


def test_a_folder_that_became_that_of_another_prediction_is_not_finished(tmp_path: Path) -> None:
    parts = parts_of(tmp_path / "out.jsonl", 1)
    parts.begin()
    parts.write(0, [a_table("cat")])
    (tmp_path / "out.jsonl" / "_identity").write_text("another model")

    with pytest.raises(SpecError, match="this one has predictions of another model"):
        parts.finish()

    assert not (tmp_path / "out.jsonl" / "_SUCCESS").exists()


def test_a_file_that_another_command_wrote_stays(tmp_path: Path) -> None:
    first, second = parts_of(tmp_path / "out.jsonl"), parts_of(tmp_path / "out.jsonl")

    rows = first.write(0, [a_table("cat")]), second.write(0, [a_table("dog")])

    assert rows == (1, 0)
    assert "cat" in (tmp_path / "out.jsonl" / "part-000000.jsonl").read_text()


def test_a_folder_without_a_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"expected a name that ends with .jsonl or .parquet"):
        parts_of(tmp_path / "out")


def test_files_on_other_nodes_are_missed_at_the_end(tmp_path: Path) -> None:
    parts = parts_of(tmp_path / "out.jsonl")
    parts.begin()
    parts.write(0, [a_table("cat")])

    with pytest.raises(SpecError, match="1 of 2 files are on others"):
        parts.finish()


def test_a_part_without_rows_is_written_and_no_reader_sees_it(tmp_path: Path) -> None:
    parts = parts_of(tmp_path / "out.parquet")
    parts.begin()
    parts.write(0, [])
    parts.write(1, [a_table("cat")])

    parts.finish()

    assert pq.read_table(tmp_path / "out.parquet")["prediction"].to_pylist() == ["cat"]


def test_all_files_get_types_that_hold_the_values_of_all(tmp_path: Path) -> None:
    parts = parts_of(tmp_path / "out.parquet", 3)
    parts.write(0, [{"score": np.array([1, 2])}])
    parts.write(1, [{"score": np.array([0.5])}])
    parts.write(2, [{"score": as_objects([None])}])

    names, schema = stale_files(parts.schemas())
    assert schema
    for name in names:
        parts.cast(name, schema)

    assert names == ["part-000000.parquet", "part-000002.parquet"]
    assert pq.read_table(tmp_path / "out.parquet")["score"].to_pylist() == [1.0, 2.0, 0.5, None]
    assert stale_files(parts.schemas())[0] == []
