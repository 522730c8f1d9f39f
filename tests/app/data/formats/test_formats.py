"""Every format gives back what was written, cut as names and sizes say."""

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import (
    NAMES,
    as_if_listed_so,
    dtypes_of,
    open_files,
    read_all,
    read_good,
    rows_of,
    write_csv,
    write_json,
    write_npy,
    write_pictures,
    write_text,
)
from tests.app.data.builders_media import write_sound
from tests.app.data.formats.reader_comparison import plain
from trainshed.data.sources.dataset_files import read_sample
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import shared_types
from trainshed_api.errors import SpecError

ROWS = 40


@dataclass(frozen=True)
class Kind:
    """A way to write ROWS rows into two files, and to read them."""

    write: Callable[[Path, int, int], None]
    suffix: str
    format: str
    options: dict[str, JsonValue]


def write_headless(path: Path, first: int, count: int) -> None:
    write_csv(path, first, count, header=False)


TABLES: dict[str, Kind] = {
    "csv": Kind(write_csv, ".csv", "csv", {}),
    "csv, packed": Kind(write_csv, ".csv.gz", "csv", {}),
    "csv without a header": Kind(
        write_headless, ".csv", "csv", {"header": False, "names": ["id", "x", "name"]}
    ),
    "csv whose values may have line ends": Kind(write_csv, ".csv", "csv", {"multiline": True}),
    "json, an object a line": Kind(write_json, ".jsonl", "json", {}),
    "json, packed": Kind(write_json, ".jsonl.gz", "json", {}),
    "json, a list a file": Kind(write_json, ".json", "json", {"lines": False}),
}


@pytest.mark.parametrize("kind", TABLES.values(), ids=TABLES)
def test_rows_come_back_as_they_were_written(tmp_path: Path, kind: Kind) -> None:
    kind.write(tmp_path / f"a{kind.suffix}", 0, 25)
    kind.write(tmp_path / f"b{kind.suffix}", 25, ROWS - 25)
    source = open_files(tmp_path, kind.format, kind.options)

    found = read_all(source)

    want = rows_of(0, ROWS)
    assert found["id"].dtype == np.int64
    assert found["id"].tolist() == [row["id"] for row in want]
    assert found["x"].tolist() == [row["x"] for row in want]
    assert found["name"].tolist() == [row["name"] for row in want]
    assert source.rows is None
    assert source.likely_rows == pytest.approx(ROWS, rel=0.2)


def test_a_near_name_is_offered_for_a_path(tmp_path: Path) -> None:
    (tmp_path / "training_rows").mkdir()

    with pytest.raises(SpecError, match=rf"that exists. Did you mean {tmp_path}/training_rows\?"):
        open_files(tmp_path / "training-row", "csv")


def test_a_near_name_is_offered_for_a_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Pixel_1,label\n1,2\n")

    with pytest.raises(SpecError, match=r"one of Pixel_1, label. Did you mean Pixel_1\?"):
        open_files(tmp_path, "csv", columns=["pixel1"])


def test_a_delimiter_that_is_named_decides(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;y\n1;2\n")

    assert list(read_all(open_files(tmp_path, "csv", {"delimiter": ","}))) == ["x;y"]


@pytest.mark.parametrize("kind", TABLES.values(), ids=TABLES)
def test_a_column_that_is_not_there_is_named(tmp_path: Path, kind: Kind) -> None:
    kind.write(tmp_path / f"a{kind.suffix}", 0, ROWS)

    with pytest.raises(SpecError, match=r"read.columns: got y; expected one of id, x, name"):
        open_files(tmp_path, kind.format, kind.options, ["y"])


def test_lines_are_texts(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", 0, 3)
    (tmp_path / "b.txt").write_text("windows\r\n\nlast")

    assert read_all(open_files(tmp_path, "text"))["text"].tolist() == [
        "line 0 \u00e4",
        "line 1 \u00e4",
        "line 2 \u00e4",
        "windows",
        "last",
    ]


def test_empty_lines_are_rows_where_somebody_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")

    found = read_all(open_files(tmp_path, "text", {"emptyLines": True}))

    assert found["text"].tolist() == ["one", "", "two"]


def test_arrays_know_their_rows(tmp_path: Path) -> None:
    write_npy(tmp_path / "a.npy", 0, 5)
    write_npy(tmp_path / "b.npy", 5, 3)
    source = open_files(tmp_path, "numpy")

    found = read_all(source, chunk_rows=2)["data"]

    assert source.rows == 8
    assert found.tolist() == np.arange(24, dtype=np.float32).reshape(8, 3).tolist()


def test_a_large_array_is_cut_at_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.npy.FRAGMENT_BYTES", 30)
    write_npy(tmp_path / "a.npy", 0, 8)
    source = open_files(tmp_path, "numpy")

    assert [fragment.rows for fragment in source.fragments] == [2, 2, 2, 2]
    assert len(read_all(source)["data"]) == 8


def test_pictures_are_labelled_by_their_folder(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"cat": 2, "ant": 3})
    source = open_files(tmp_path, "images")

    found = read_all(source)

    assert source.rows == 5
    assert source.scan.classes == ("ant", "cat")
    assert found["label"].tolist() == [0, 0, 0, 1, 1]
    assert found["image"][0][:8] == b"\x89PNG\r\n\x1a\n"
    assert list(found) == ["image", "label"]


def test_the_path_of_a_picture_is_there_for_who_asks(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"cat": 1})
    source = open_files(tmp_path, "images", {"labels": "none"}, ["path"])

    assert read_all(source, ["path"])["path"].tolist() == ["cat/0000.png"]


NAMED = {"images": ".png", "binary": ".bin", "audio": ".wav"}


@pytest.mark.parametrize("form", NAMED)
def test_no_file_is_read_for_what_its_name_tells(tmp_path: Path, form: str) -> None:
    """Labels of a million pictures cost no picture: they are counted, and held out by."""
    for name in ("ant/0", "cat/0", "cat/1"):
        write_sound(tmp_path / f"{name}.wav", 10)
    for path in list(tmp_path.glob("*/*.wav")):
        path.rename(path.with_suffix(NAMED[form]))
    columns = ["path"] if form == "binary" else ["label", "path"]
    options: dict[str, JsonValue] = {} if form == "binary" else {"labels": "folder"}
    source = open_files(tmp_path, form, options, columns)
    shutil.rmtree(tmp_path)

    found = read_all(source, columns, chunk_rows=2)

    assert [name.partition(".")[0] for name in found["path"]] == ["ant/0", "cat/0", "cat/1"]
    assert found.get("label", np.asarray([0, 1, 1])).tolist() == [0, 1, 1]


def test_files_are_rows_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    (tmp_path / "two.bin").write_bytes(b"22")

    found = read_all(open_files(tmp_path, "binary"))

    assert found["bytes"].tolist() == [b"1", b"22"]
    assert found["path"].tolist() == ["one", "two.bin"]


def test_small_files_are_read_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.whole_files.TASK_FILES", 4)
    write_pictures(tmp_path, {"a": 10})

    fragments = open_files(tmp_path, "images").fragments

    assert [fragment.rows for fragment in fragments] == [4, 4, 2]


@dataclass(frozen=True)
class Mistake:
    """Files that are not what the spec says, and what is said of them."""

    form: str
    files: dict[str, str]
    want: str
    options: dict[str, JsonValue]
    skips_bad: bool = False


MISTAKES: dict[str, Mistake] = {
    "no file of the format": Mistake(
        "csv", {"a.txt": "x"}, r"read.path: got .*; expected a folder with \*\.csv or ", {}
    ),
    "rows with other types, of which bad ones are skipped": Mistake(
        "json",
        {"a.jsonl": '{"x": 1}\n{"x": "z"}\n{"x"\n'},
        r"^spec.data.datasets.train.read.options.types: got column x of string in .*a.jsonl;",
        {},
        skips_bad=True,
    ),
    "a type of no column": Mistake(
        "csv",
        {"a.csv": "x\n1\n"},
        r"options.types: got y; expected one of x",
        {"types": {"y": "int64"}},
    ),
    "lines that are no objects": Mistake(
        "json",
        {"a.jsonl": "[1]\n"},
        r"expected an object on each line, but the file is a list\. Set options\.lines: false$",
        {},
    ),
    "an object with a key twice": Mistake(
        "json",
        {"a.jsonl": '{"x": 1, "x": 2}\n'},
        r"different keys in each object, but one has x twice\. Rename one of them$",
        {},
    ),
    "lines where a list is expected": Mistake(
        "json",
        {"a.json": '{"x": 1}\n{"x": 2}\n'},
        r"expected a list of objects\. Set options\.lines: true for lines",
        {"lines": False},
    ),
    "csv without a row": Mistake("csv", {"a.csv": "x,y\n"}, r"expected a row that can be read", {}),
    "a key with values of several types": Mistake(
        "json",
        {"a.jsonl": '{"m": [{"c": "x"}, {"c": [1]}]}\n'},
        r"expected values of one type for each key, but /m/\[\]/c has string beside array",
        {},
    ),
    "a list of objects with values of several types": Mistake(
        "json",
        {"a.json": '[{"x": true}, {"x": 1.5}]'},
        r"expected values of one type for each key\. Write one type\. Reported: ",
        {"lines": False},
    ),
    "a list that is none": Mistake(
        "json", {"a.json": '{"x": 1}'}, "expected a list of objects", {"lines": False}
    ),
    "pictures in no folder": Mistake(
        "images",
        {"a.png": ""},
        r"folders named as their labels are, or options: {labels: none}",
        {},
    ),
    "an array that is none": Mistake(
        "numpy", {"a.npy": "x"}, "expected an array of numbers with rows", {}
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_files_that_are_something_else_are_refused(tmp_path: Path, mistake: Mistake) -> None:
    for name, text in mistake.files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(SpecError, match=mistake.want):
        open_files(tmp_path, mistake.form, mistake.options, skips_bad=mistake.skips_bad)


def test_a_value_of_another_type_says_where_and_what_to_do(tmp_path: Path) -> None:
    first = "".join(f"{number}\n" for number in range(300_000))
    (tmp_path / "a.csv").write_text(f"x\n{first}0.5\n")
    source = open_files(tmp_path, "csv")

    with pytest.raises(DataError, match=r"a\.csv: byte 1988892: .*'0.5'; options.types may"):
        read_all(source, chunk_rows=10**6)

    declared = open_files(tmp_path, "csv", {"types": {"x": "float32"}})
    assert read_all(declared, chunk_rows=10**6)["x"][-1] == 0.5


def test_a_sample_has_no_more_rows_than_asked_for(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, ROWS)
    source = open_files(tmp_path, "csv")

    sample = read_sample(source.scan, source.fragments[0], (), 3)

    assert sample["name"].tolist() == list(NAMES[:3])


def test_numbers_in_another_order_of_bytes_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(4, dtype=">f4"))

    found = read_all(open_files(tmp_path, "numpy"))["data"]

    assert (found.tolist(), found.dtype) == ([0, 1, 2, 3], np.dtype("float32"))


def test_an_array_in_fortran_order_is_read_by_one_task(tmp_path: Path) -> None:
    values = np.arange(60, dtype=">f8").reshape(10, 3, 2)
    np.save(tmp_path / "a.npy", np.asfortranarray(values))
    np.save(tmp_path / "b.npy", values)

    source = open_files(tmp_path, "numpy")
    read = read_all(source, chunk_rows=4)["data"]

    assert [each.rows for each in source.fragments] == [10, 10]
    assert read.dtype == np.float64
    assert read.tolist() == [*values.tolist(), *values.tolist()]

    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content[:-8])
    with pytest.raises(DataError, match=r"a\.npy: the file: it ends early"):
        read_all(as_if_listed_so(source))


@pytest.mark.parametrize("kind", ["complex128", "M8[s]", "i4,f8"])
def test_values_that_are_no_numbers_are_refused(tmp_path: Path, kind: str) -> None:
    np.save(tmp_path / "a.npy", np.zeros(4, dtype=kind))

    with pytest.raises(
        SpecError, match=r"a.npy; expected an array of numbers with rows.*values of"
    ):
        open_files(tmp_path, "numpy")


def test_an_array_that_is_cut_off_says_how_many_rows_are_missing(tmp_path: Path) -> None:
    """In the middle of a value."""
    write_npy(tmp_path / "a.npy", 0, 4)
    source = as_if_listed_so(open_files(tmp_path, "numpy"))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-3])

    with pytest.raises(DataError, match=r"a.npy: row 3 from byte 128 on: .* ends 1 rows early"):
        read_all(source)


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8", newline="")
    return folder


SAME: dict[str, tuple[str, dict[str, str], dict[str, JsonValue]]] = {
    "columns in another order": ("csv", {"a.csv": "a,b\n1,2\n", "b.csv": "b,a\n4,3\n"}, {}),
    "a file without a byte": (
        "csv",
        {"0.csv": "", "1.csv": "\n\n", "a.csv": "a,b\n1,2\n3,4\n"},
        {},
    ),
    "a header without an end": ("csv", {"0.csv": "a,b", "a.csv": "a,b\n1,2\n3,4"}, {}),
    "lines with nothing on them before the header": ("csv", {"a.csv": "\n\r\na,b\n1,2\n3,4\n"}, {}),
    "a mark of the order of bytes": ("csv", {"a.csv": "\ufeffa,b\n1,2\n3,4\n"}, {}),
    "such a header of rows of many lines": (
        "csv",
        {"0.csv": "", "a.csv": "\na,b\n1,2\n", "b.csv": "b,a\n4,3\n"},
        {"multiline": True},
    ),
    "an empty file of objects": (
        "json",
        {"0.jsonl": "", "1.jsonl": "\n", "a.jsonl": '{"a": 1, "b": 2}\n{"b": 4, "a": 3}\n'},
        {},
    ),
    "an empty list": (
        "json",
        {"0.json": "[]", "a.json": '[{"a": 1, "b": 2}, {"b": 4, "a": 3}]'},
        {"lines": False},
    ),
}


@pytest.mark.parametrize(("form", "files", "options"), SAME.values(), ids=SAME)
def test_what_is_beside_the_rows_changes_none(
    tmp_path: Path, form: str, files: dict[str, str], options: dict[str, JsonValue]
) -> None:
    found = read_all(open_files(written(tmp_path, files), form, options))

    assert {name: array.tolist() for name, array in found.items()} == {"a": [1, 3], "b": [2, 4]}


def test_columns_in_another_order_are_found_in_the_middle_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.line_files.SPAN_BYTES", 6)
    other = "b,a\n" + "4,3\n" * 20
    source = open_files(written(tmp_path, {"a.csv": "a,b\n3,4\n", "b.csv": other}), "csv")

    found = read_all(source)

    assert len(source.fragments) > 10
    assert set(found["a"].tolist()) == {3}


def test_a_file_with_other_columns_that_nobody_looked_at_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_types, "MOST_LOOKED_AT", 0)
    files = {f"{number:02}.csv": "a,b\n1,2\n" for number in range(20)} | {"01.csv": "a,c\n1,2\n"}

    with pytest.raises(
        DataError, match=r"01.csv: its header names a, c; expected those of .*: a, b"
    ):
        read_all(open_files(written(tmp_path, files), "csv"))


@pytest.mark.parametrize("text", ["a,b\r1,2\r", 'a,b\r"1\n",2\r', "a,b\r1,2\r3,4\n"])
def test_lines_that_end_as_on_a_macintosh_are_refused(tmp_path: Path, text: str) -> None:
    """All of them were taken for the header, so that there was no row."""
    (tmp_path / "a.csv").write_bytes(text.encode())

    with pytest.raises(SpecError, match="lines end by a carriage return alone"):
        open_files(tmp_path, "csv", {"multiline": True})


@pytest.mark.parametrize(
    ("text", "options", "want"),
    [
        ('"first\r\nname",b\r\n1,2\r\n', {}, {"first\r\nname": [1], "b": [2]}),
        ('"x\r\ny",1\r\n', {"header": False}, {"f0": ["x\r\ny"], "f1": [1]}),
        ('"x\ry",b\n1,2\n', {}, {"x\ry": [1], "b": [2]}),
    ],
)
def test_a_first_record_may_have_carriage_returns_inside_of_quotes(
    text: str, options: dict[str, JsonValue], want: dict[str, list[object]], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())

    found = read_all(open_files(tmp_path, "csv", {"multiline": True, **options}))

    assert {name: array.tolist() for name, array in found.items()} == want


JSON_TEXTS = ["2024-01-31", "2024-01-31 12:00:00", "2024-02-01"]


@pytest.mark.parametrize("options", [{}, {"lines": False}])
def test_texts_of_json_stay_texts_though_they_look_like_times(
    tmp_path: Path, options: dict[str, JsonValue]
) -> None:
    rows = [{"t": text, "in": {"t": text}, "all": [text]} for text in JSON_TEXTS]
    lines = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "a.json").write_text(json.dumps(rows) if options else lines)

    read = read_all(open_files(tmp_path, "json", options))

    assert read["t"].tolist() == JSON_TEXTS
    assert [each["t"] for each in read["in"]] == JSON_TEXTS
    assert [list(each) for each in read["all"]] == [[text] for text in JSON_TEXTS]


@pytest.mark.parametrize(
    "lists",
    [
        [[None, None], [], None],
        [[[None], [None, None]], None],
        [[None, None, 1], [2]],
        [[None, None, "x"]],
        [[{"b": [None, None, 0.5]}, None]],
    ],
)
def test_lists_of_json_that_begin_with_null_are_read(tmp_path: Path, lists: list[object]) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"v": each}) + "\n" for each in lists))

    read = read_all(open_files(tmp_path, "json"))["v"]

    assert plain(read, "json") == lists


Text = tuple[str, str, dict[str, JsonValue]]
TEXTS: dict[str, Text] = {
    "integers, csv": ("csv", "a,b\n1,2\n,4\n", {}),
    "integers, json": ("json", '{"a": 1, "b": 2}\n{"a": null, "b": 4}\n', {}),
    "integers, a list": ("json", '[{"a": 1, "b": 2}, {"b": 4}]', {"lines": False}),
    "booleans, csv": ("csv", "a,b\ntrue,2\n,4\n", {}),
    "booleans, json": ("json", '{"a": true, "b": 2}\n{"a": null, "b": 4}\n', {}),
    "booleans, a list": ("json", '[{"a": true, "b": 2}, {"b": 4}]', {"lines": False}),
}


@pytest.mark.parametrize(("form", "text", "options"), TEXTS.values(), ids=TEXTS)
def test_numbers_that_may_be_missing_are_floats_in_every_table(
    tmp_path: Path, form: str, text: str, options: dict[str, JsonValue]
) -> None:
    source = open_files(written(tmp_path, {f"a.{form}": text}), form, options)

    assert dtypes_of(source) == {"a": "float64", "b": "int64"}
    found = read_all(source)["a"]
    assert found[0] == 1
    assert np.isnan(found[1])


@pytest.mark.parametrize("skips_bad", [False, True])
def test_booleans_of_which_none_is_missing_stay_booleans(
    tmp_path: Path, *, skips_bad: bool
) -> None:
    """Beside a file without a row, and rows of another file in which some others are missing."""
    files = {"0.csv": "a,b", "1.csv": "a,b\ntrue,true\n", "2.csv": "b,a\n,false\ntrue,true\n"}
    source = open_files(written(tmp_path, files), "csv", skips_bad=skips_bad)

    assert dtypes_of(source) == {"a": "bool", "b": "float64"}


@pytest.mark.parametrize("kind", ["int64", "bool"])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_number_that_is_missing_further_on_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, kind: str
) -> None:
    """It made floats of the integers in its table, and a batch's type hung on its rows."""
    monkeypatch.setattr("trainshed.data.sources.formats.line_files.HEAD_BYTES", 40)
    one = "1" if kind == "int64" else "true"
    text = {"csv": "a,b\n" + f"{one},2\n" * 20 + ",4\n"}.get(form)
    text = text or f'{{"a": {one}, "b": 2}}\n' * 20 + '{"b": 4}\n'
    written(tmp_path, {f"a.{form}": text})

    said = rf"no value in column a of type {kind}; options.types: {{a: float64}}"
    with pytest.raises(DataError, match=said):
        read_all(open_files(tmp_path, form))

    source = open_files(tmp_path, form, {"types": {"a": "float64"}})
    assert dtypes_of(source) == {"a": "float64", "b": "int64"}
    assert read_all(source)["a"][:20].tolist() == [1.0] * 20
    assert np.isnan(read_all(source)["a"][20])


def test_a_boolean_among_the_first_floats_is_the_one_that_is_bad(tmp_path: Path) -> None:
    text = '{"a": true}\n{"a": 0.5}\n{"a": null}\n'
    options: dict[str, JsonValue] = {"types": {"a": "float64"}}
    source = open_files(written(tmp_path, {"a.jsonl": text}), "json", options, skips_bad=True)

    good, bad = read_good(source)

    assert good["a"][0] == 0.5
    assert np.isnan(good["a"][1])
    assert [each.place for each in bad] == ["byte 0"]


def test_a_mark_of_the_order_of_bytes_is_no_text(tmp_path: Path) -> None:
    found = read_all(open_files(written(tmp_path, {"a.txt": "\ufeffone\ntwo\n"}), "text"))

    assert found["text"].tolist() == ["one", "two"]


def test_a_first_line_may_be_longer_than_what_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.line_files.HEAD_BYTES", 8)

    found = read_all(open_files(written(tmp_path, {"a.jsonl": '{"a": 123456789}\n'}), "json"))

    assert found["a"].tolist() == [123456789]


def test_a_list_of_objects_may_be_packed(tmp_path: Path) -> None:
    content = json.dumps([{"id": number} for number in range(5)]).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(content))

    found = read_all(open_files(tmp_path, "json", {"lines": False}))

    assert found["id"].tolist() == list(range(5))


def test_an_element_with_a_column_that_no_other_has_is_refused_as_a_line_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_types, "SHALLOW_BYTES", 4)
    for number in range(16):
        (tmp_path / f"{number:02}.json").write_text('[{"a": 1}]')
    (tmp_path / "01.json").write_text('[{"a": 2}, {"a": 3, "b": 4}]')
    source = open_files(tmp_path, "json", {"lines": False})

    with pytest.raises(DataError, match=r"01\.json: row 1: the first rows have no column b"):
        read_all(source)

    assert sum(read_all(source, ["a"])["a"].tolist()) == 15 + 5


@pytest.mark.parametrize(
    ("plain", "other"),
    [
        ('{"m": {"a": 1}}', '{"m": {"a": 1, "b": 2}}'),
        ('{"m": {"n": [{"a": 1}]}}', '{"m": {"n": [{"a": 1}, {"b": 2}]}}'),
    ],
)
@pytest.mark.parametrize("lines", [True, False], ids=["lines", "a list"])
def test_a_field_of_an_object_that_no_other_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: str, other: str, *, lines: bool
) -> None:
    """In a list it vanished."""
    monkeypatch.setattr(shared_types, "MOST_LOOKED_AT", 0)
    for number in range(16):
        text = other if number == 1 else plain
        (tmp_path / f"{number:02}.json").write_text(text if lines else f"[{plain}, {text}]")
    source = open_files(tmp_path, "json", {"lines": lines})

    said = "unexpected field" if lines else r"row 1: the first rows have no column m\.(n\.)?b"
    with pytest.raises(DataError, match=rf"01\.json: .*{said}"):
        read_all(source)

    # Who says which columns are wanted gets what the first rows have of them.
    assert len(read_all(source, ["m"])["m"]) == (16 if lines else 32)
