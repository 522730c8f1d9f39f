"""Below a dataset's folder on a disk nothing that may have rows is passed over silently."""

import os
from pathlib import Path

import pytest

from tests.app.builders_rows import write_rows
from tests.app.data.builders_formats import open_files, read_all, write_csv, write_pictures
from trainshed.inspect.inputs import open_files as open_named
from trainshed_api.errors import SpecError


def files_of(folder: Path, form: str = "csv") -> list[str]:
    """Return the names of a dataset's files."""
    return [file.path for file in open_files(folder, form).files]


def forbid(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let no folder of a name be listed: root, who runs tests, may list all."""
    real = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)


def test_linked_folders_are_read_and_have_a_label(tmp_path: Path) -> None:
    write_pictures(tmp_path / "animals", {"cat": 2, "dog": 3})
    write_pictures(tmp_path / "elsewhere", {"birds": 4})
    (tmp_path / "animals" / "bird").symlink_to(tmp_path / "elsewhere" / "birds")

    source = open_files(tmp_path / "animals", "images")

    assert source.scan.classes == ("bird", "cat", "dog")
    assert read_all(source, ["label"])["label"].tolist() == [0] * 4 + [1] * 2 + [2] * 3
    assert read_all(source, ["path"])["path"].tolist()[:2] == ["bird/0000.png", "bird/0001.png"]


def test_parquet_is_read_in_linked_folders_at_any_depth(tmp_path: Path) -> None:
    write_rows(tmp_path / "elsewhere" / "deep", 20, files=1)
    write_rows(tmp_path / "rows", 10, files=1)
    (tmp_path / "rows" / "more").symlink_to(tmp_path / "elsewhere")

    source = open_files(tmp_path / "rows", "parquet")

    assert [file.path for file in source.files] == ["more/deep/part-0.parquet", "part-0.parquet"]
    assert source.rows == 30


def test_what_several_names_lead_to_is_read_once(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows" / "2026-01" / "1.csv", 0, 3)
    write_csv(tmp_path / "elsewhere" / "2.csv", 0, 3)
    (tmp_path / "rows" / "0-latest").symlink_to("2026-01")
    for name in ("more", "also"):
        (tmp_path / "rows" / name).symlink_to(tmp_path / "elsewhere")

    assert files_of(tmp_path / "rows") == ["2026-01/1.csv", "also/2.csv"]


@pytest.mark.parametrize("leads_to", [".", "..", "../.."])
def test_a_link_back_ends_where_its_rows_are_read_already(tmp_path: Path, leads_to: str) -> None:
    write_csv(tmp_path / "top.csv", 0, 2)
    write_csv(tmp_path / "rows" / "deep" / "1.csv", 0, 3)
    (tmp_path / "rows" / "deep" / "back").symlink_to(leads_to)

    found = files_of(tmp_path / "rows")

    around = ["deep/back/top.csv"] if leads_to == "../.." else []
    assert found == ["deep/1.csv", *around]


def test_a_folder_that_may_not_be_listed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write_csv(tmp_path / f"part-{number}" / "1.csv", 0, 3)
    forbid(monkeypatch, "part-3")

    want = r"read\.path: got \S+/part-3; expected a folder that may be listed \(Permission denied\)"
    with pytest.raises(SpecError, match=want):
        files_of(tmp_path)


@pytest.mark.parametrize("name", ["lost+found", ".snapshot", "_temporary"])
def test_folders_without_data_may_be_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_csv(tmp_path / "1.csv", 0, 3)
    write_csv(tmp_path / name / "2.csv", 0, 3)
    forbid(monkeypatch, name)

    assert files_of(tmp_path) == ["1.csv"]


@pytest.mark.parametrize("name", ["2.csv", "2.csv.gz", "part-2"])
@pytest.mark.parametrize("leads_to", ["not/there", "itself", "1.csv/below"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, name: str, leads_to: str) -> None:
    write_csv(tmp_path / "1.csv", 0, 3)
    (tmp_path / name).symlink_to(name if leads_to == "itself" else leads_to)

    with pytest.raises(
        SpecError, match=rf"read\.path: got \S+/{name}; expected a link that leads some"
    ):
        files_of(tmp_path)


def test_links_of_other_endings_and_linked_files_are_as_any_file(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows" / "1.csv", 0, 3)
    write_csv(tmp_path / "elsewhere.csv", 0, 4)
    (tmp_path / "rows" / "2.csv").symlink_to(tmp_path / "elsewhere.csv")
    (tmp_path / "rows" / "LICENSE").symlink_to(tmp_path / "elsewhere.csv")
    for name in ("notes.md", ".#3.csv", "_4.csv"):
        (tmp_path / "rows" / name).symlink_to("not/there")

    assert files_of(tmp_path / "rows") == ["1.csv", "2.csv"]


def test_a_name_that_is_no_utf8_is_refused_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "1.csv", 0, 3)
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    forbid(monkeypatch, os.fsdecode(b"caf\xe9"))

    with pytest.raises(SpecError, match=r"/caf\\xe9; expected a folder that may be listed"):
        files_of(tmp_path)


def test_a_format_is_told_by_files_of_linked_folders(tmp_path: Path) -> None:
    write_csv(tmp_path / "elsewhere" / "1.csv", 0, 3)
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "more").symlink_to(tmp_path / "elsewhere")

    found = open_named(str(tmp_path / "rows"), None, (), ())

    assert [file.path for file in found.source.files] == ["more/1.csv"]
