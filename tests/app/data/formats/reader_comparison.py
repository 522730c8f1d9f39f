"""Compares what is read of drawn files with what pyarrow, pandas and NumPy read of them.

    python -m tests.app.data.formats.reader_comparison --examples 40 --seed 1

prints a line for each kind of file: how many the other reader reads, how many are read with equal
values, and why the others are refused.
"""

import argparse
import bz2
import csv
import datetime as dt
import gzip
import io
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
import soundfile
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import JsonValue

from tests.app.data.builders_formats import open_files
from tests.app.data.builders_records import write_records
from tests.app.data.builders_tar import npy_of, write_tar
from trainshed.data.sources.dataset_files import read_fragment
from trainshed.data.sources.errors import DataError
from trainshed_api.errors import RuleError, SpecError

Row = dict[str, object]


class Drawn(NamedTuple):
    """Files of one format, and another reader of them.

    Args:
        form: the format.
        files: content by name.
        rows: returns the rows that the other reader finds; raises if it refuses them.
        options: of the format.
    """

    form: str
    files: Mapping[str, bytes]
    rows: Callable[[], Sequence[Row]]
    options: dict[str, JsonValue] = {}  # noqa: RUF012


class Tally(NamedTuple):
    """What became of the files of one kind.

    Args:
        read: how many the other reader reads.
        equal: how many of these are read with equal values.
        refused: messages of those that are refused.
        different: files, values and options of those that are read with other values.
    """

    read: int
    equal: int
    refused: list[str]
    different: list[str]


# Values of columns, as texts.
WORDS = st.text("abz \u00e4\u4e16\U0001f600'-_./", min_size=1, max_size=6).filter(str.strip)
SMALL = st.integers(-(10**6), 10**6)
INTEGERS = SMALL | st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e300, 5e-324, -0.0])
TIMES = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
MISSING = ("", "NA", "N/A", "null", "NULL", "NaN", "nan", "#N/A")
COLUMNS: Mapping[str, st.SearchStrategy[str]] = {
    "integers": INTEGERS.map(str),
    "floats": FLOATS.map(repr),
    "numbers": SMALL.map(str) | st.floats(-1e6, 1e6).map(repr),
    "all numbers": INTEGERS.map(str) | FLOATS.map(repr),
    "words": WORDS,
    "words with signs": st.text('ab,;|"\t #', max_size=5).map(lambda text: f"x{text}"),
    "booleans": st.sampled_from(["true", "false", "True", "FALSE"]),
    "digits": st.sampled_from(["0", "1", "007", "+5", " 5", "-0"]),
    "odd numbers": st.sampled_from(["inf", "-inf", "1e5", "1E-3", ".5", "5.", "Infinity"]),
    "dates": TIMES.map(lambda time: time.date().isoformat()),
    "times": TIMES.map(lambda time: time.isoformat(" ", "seconds")),
    "exact times": TIMES.map(lambda time: time.isoformat("T", "milliseconds")),
    "times with a zone": TIMES.map(lambda time: time.isoformat("T", "seconds") + "Z"),
    "mixed": st.sampled_from(["1", "2.5", "x", "true", "2024-01-31", "0x1F", "1_000"]),
}


def tables(
    columns: Sequence[str], missing: Sequence[str] = ()
) -> st.SearchStrategy[list[list[str]]]:
    """Draw the rows of a table as texts, below a header; the first row lacks no value."""

    def rows_of(kinds: list[str]) -> st.SearchStrategy[list[list[str]]]:
        row = [
            COLUMNS[kind] | st.sampled_from(missing) if missing else COLUMNS[kind] for kind in kinds
        ]
        header = [f"c{number}" for number in range(len(kinds))]
        first = st.tuples(*(COLUMNS[kind] for kind in kinds)).map(list)
        rows = st.lists(st.tuples(*row).map(list), max_size=8)
        return st.tuples(first, rows).map(lambda drawn: [header, drawn[0], *drawn[1]])

    return st.lists(st.sampled_from(columns), min_size=1, max_size=4).flatmap(rows_of)


def written(table: Sequence[Sequence[str]], **dialect: object) -> str:
    """Return the text of a csv file."""
    text = io.StringIO(newline="")
    csv.writer(text, **{"lineterminator": "\n", **dialect}).writerows(table)  # type: ignore[arg-type]
    return text.getvalue()


def by_arrow(*contents: bytes, parsing: pacsv.ParseOptions | None = None) -> list[Row]:
    """Return the rows of csv files."""
    found = [pacsv.read_csv(pa.BufferReader(each), None, parsing) for each in contents]
    return as_one(found)


def as_one(found: Sequence[pa.Table]) -> list[Row]:
    """Return the rows of tables, with the types that Arrow widens them to."""
    filled = [each for each in found if each.num_rows] or found
    rows: list[Row] = pa.concat_tables(filled, promote_options="permissive").to_pylist()
    return rows


def by_pandas(content: bytes, **options: object) -> list[Row]:
    """Return the rows of a csv file."""
    frame = pd.read_csv(io.BytesIO(content), **options)
    return [
        dict(zip(map(str, frame.columns), values, strict=True))
        for values in zip(*(frame[name].tolist() for name in frame), strict=True)
    ]


@st.composite
def csv_values(draw: st.DrawFn) -> Drawn:
    """Draw a csv file with columns of any kind."""
    content = written(draw(tables(list(COLUMNS)))).encode()
    return Drawn("csv", {"a.csv": content}, lambda: by_arrow(content))


@st.composite
def csv_missing(draw: st.DrawFn) -> Drawn:
    """Draw a csv file with missing values, some in words of its own."""
    own = draw(st.sampled_from([[], ["n/k"], ["-", "?"]]))
    kinds = ["integers", "floats", "numbers", "booleans", "dates", "times"]
    content = written(draw(tables(kinds, (*MISSING, *own)))).encode()
    converting = pacsv.ConvertOptions(null_values=[*pacsv.ConvertOptions().null_values, *own])
    return Drawn(
        "csv",
        {"a.csv": content},
        lambda: pacsv.read_csv(pa.BufferReader(content), convert_options=converting).to_pylist(),
        {"nullValues": list[JsonValue](own)} if own else {},
    )


@st.composite
def csv_dialects(draw: st.DrawFn) -> Drawn:
    """Draw a csv file of another program: signs, line ends, header, comments, a byte order mark."""
    delimiter, quote = draw(st.sampled_from(",;|\t ")), draw(st.sampled_from("\"'"))
    escape = draw(st.sampled_from([None, "\\"]))
    end, decimal = draw(st.sampled_from(["\n", "\r\n"])), draw(st.sampled_from(".,"))
    comment, header = draw(st.sampled_from([None, "%"])), draw(st.booleans())
    quoting = csv.QUOTE_ALL if draw(st.booleans()) else csv.QUOTE_MINIMAL
    table = draw(tables(["integers", "numbers", "words", "words with signs"]))
    if decimal == ",":
        table = [[text.replace(".", ",") for text in row] for row in table]
    text = written(
        table[0 if header else 1 :],
        delimiter=delimiter,
        quotechar=quote,
        escapechar=escape,
        doublequote=escape is None,
        lineterminator=end,
        quoting=quoting,
    )
    if comment:
        text = f"%made by hand{end}{text}%the end{end}"
    if draw(st.booleans()):
        text = text.replace(end, end + end, 1)
    if draw(st.booleans()):
        text = text.removesuffix(end)
    content = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()
    options: dict[str, JsonValue] = {
        "delimiter": delimiter,
        "quote": quote,
        "escape": escape,
        "comment": comment,
        "decimal": decimal,
        "header": header,
    }
    given: dict[str, JsonValue] = {
        key: value for key, value in options.items() if value is not None
    }
    names = table[0]
    if not header:
        given["names"] = list(names)
    return Drawn(
        "csv",
        {"a.csv": content},
        lambda: by_pandas(
            content,
            sep=delimiter,
            quotechar=quote,
            escapechar=escape,
            comment=comment,
            decimal=decimal,
            header=0 if header else None,
            names=None if header else names,
            index_col=False,
        ),
        given,
    )


@st.composite
def csv_encodings(draw: st.DrawFn) -> Drawn:
    """Draw a csv file in another encoding."""
    encoding = draw(
        st.sampled_from(["utf-8", "latin-1", "windows-1252", "iso-8859-15", "utf-16", "utf-8-sig"])
    )
    words = st.text("abc \u00e4\u00df\u00e9", min_size=1, max_size=6).map(lambda text: f"x{text}")
    rows = draw(st.lists(st.tuples(words, SMALL.map(str)), min_size=1, max_size=8))
    content = written([("gr\u00f6\u00dfe", "n"), *rows]).encode(encoding)
    return Drawn(
        "csv",
        {"a.csv": content},
        lambda: by_pandas(content, encoding=encoding),
        {} if encoding.startswith("utf") else {"encoding": encoding},
    )


@st.composite
def csv_line_ends(draw: st.DrawFn) -> Drawn:
    """Draw a csv file whose values have line ends, or whose lines end otherwise."""
    texts = st.text('ab\n\r," ', max_size=6).map(lambda text: f"x{text}")
    rows = draw(st.lists(st.tuples(texts, SMALL.map(str)), min_size=1, max_size=8))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    content = written([("t", "n"), *rows], lineterminator=end).encode()
    parsing = pacsv.ParseOptions(newlines_in_values=True)
    return Drawn(
        "csv",
        {"a.csv": content},
        lambda: by_arrow(content, parsing=parsing),
        {"multiline": True},
    )


@st.composite
def csv_files(draw: st.DrawFn) -> Drawn:
    """Draw csv files whose columns and types differ."""
    kinds = ["integers", "numbers", "booleans", "dates", "times", "words"]
    found = draw(st.lists(tables(kinds, ("",)), min_size=2, max_size=3))
    contents = [written(each).encode() for each in found]
    return Drawn(
        "csv",
        {f"{number}.csv": each for number, each in enumerate(contents)},
        lambda: by_arrow(*contents),
    )


@st.composite
def csv_packed(draw: st.DrawFn) -> Drawn:
    """Draw a compressed csv file."""
    content = written(draw(tables(["integers", "words"]))).encode()
    packed = {"a.csv.gz": gzip.compress(content), "a.csv.bz2": bz2.compress(content)}
    name = draw(st.sampled_from(sorted(packed)))
    return Drawn("csv", {name: packed[name]}, lambda: by_arrow(content))


JSON_VALUES: Mapping[str, st.SearchStrategy[object]] = {
    "integers": INTEGERS,
    "numbers": SMALL | st.floats(-1e6, 1e6),
    "all numbers": INTEGERS | FLOATS,
    "large": st.integers(-(2**70), 2**70),
    "texts": st.text(max_size=6),
    "booleans": st.booleans(),
    "times": TIMES.map(lambda time: time.isoformat(" ", "seconds")),
    "dates": TIMES.map(lambda time: time.date().isoformat()),
    "digits": st.sampled_from(["0", "1", "2.5", "true", "", "null"]),
    "nothing": st.none(),
    "lists": st.lists(SMALL, max_size=3),
    "lists of floats": st.lists(SMALL | st.floats(-10, 10) | st.none(), max_size=3),
    "lists of texts": st.lists(st.text(max_size=3) | st.none(), max_size=3),
    "pairs": st.lists(SMALL, min_size=2, max_size=2),
    "lists of lists": st.lists(st.lists(SMALL, max_size=2), max_size=2),
    "objects": st.fixed_dictionaries({"a": SMALL}, optional={"b": st.text(max_size=3), "c": SMALL}),
    "lists of objects": st.lists(st.fixed_dictionaries({}, optional={"a": SMALL}), max_size=2),
}
JSON_SCALARS = ("integers", "numbers", "texts", "booleans", "times", "dates", "digits")
JSON_NUMBERS = ("integers", "numbers", "all numbers", "large")
JSON_NESTED = tuple(kind for kind in JSON_VALUES if "list" in kind or kind in {"pairs", "objects"})


def objects(kinds: Sequence[str], files: int = 1) -> st.SearchStrategy[list[list[Row]]]:
    """Draw the rows of json files, some without a value or without the key."""

    def rows_of(drawn: list[str]) -> st.SearchStrategy[list[list[Row]]]:
        values = {f"c{number}": st.none() | JSON_VALUES[kind] for number, kind in enumerate(drawn)}
        must = {"c0": values.pop("c0")}
        rows = st.lists(st.fixed_dictionaries(must, optional=values), min_size=1, max_size=8)
        return st.lists(rows, min_size=files, max_size=files)

    return st.lists(st.sampled_from(kinds), min_size=1, max_size=3).flatmap(rows_of)


def of_json(*files: Sequence[Row]) -> list[Row]:
    """Return the rows of json files, if Arrow or pandas reads them."""
    content = "\n".join(json.dumps(row) for rows in files for row in rows).encode()
    try:
        pajson.read_json(pa.BufferReader(content))
    except pa.ArrowException:
        pd.read_json(io.BytesIO(content), lines=True)
    return [row for rows in files for row in rows]


def lines_of(rows: Sequence[Row], *, ascii_only: bool) -> bytes:
    """Return json with an object on each line."""
    return "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode(
        "utf-8", "surrogatepass"
    )


def json_lines(kinds: Sequence[str]) -> st.SearchStrategy[Drawn]:
    """Draw a file of json lines."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Drawn:
        (rows,) = draw(objects(kinds))
        content = lines_of(rows, ascii_only=draw(st.booleans()))
        return Drawn("json", {"a.jsonl": content}, lambda: of_json(rows))

    return drawn()


@st.composite
def json_files(draw: st.DrawFn) -> Drawn:
    """Draw files of json lines, of which some lack keys, fields or values."""
    files = draw(objects((*JSON_SCALARS, "objects", "lists of floats"), draw(st.integers(2, 3))))
    contents = {f"{n}.jsonl": lines_of(rows, ascii_only=True) for n, rows in enumerate(files)}
    return Drawn("json", contents, lambda: of_json(*files))


def json_list(kinds: Sequence[str]) -> st.SearchStrategy[Drawn]:
    """Draw a list of json objects."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Drawn:
        (rows,) = draw(objects(kinds))
        content = json.dumps(rows, indent=draw(st.sampled_from([None, 2]))).encode()
        return Drawn("json", {"a.json": content}, lambda: of_json(rows), {"lines": False})

    return drawn()


ARROW: Mapping[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    **{
        str(kind): (kind, st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1))
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    **{
        str(kind): (kind, st.integers(0, 2**kind.bit_width - 1))
        for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    },
    "small int64": (pa.int64(), SMALL),
    "float16": (pa.float16(), st.floats(width=16).map(np.float16)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=4)),
    "large_string": (pa.large_string(), st.text(max_size=4)),
    "binary": (pa.binary(), st.binary(max_size=4)),
    "fixed binary": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from("abc")),
    "dictionary of numbers": (pa.dictionary(pa.int8(), pa.int64()), st.integers(0, 3)),
    "decimal": (pa.decimal128(10, 2), st.decimals(-1000, 1000, places=2)),
    "wide decimal": (pa.decimal256(50, 3), st.decimals(-(10**30), 10**30, places=3)),
    "date": (pa.date32(), st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1))),
    "time": (pa.time64("us"), st.times()),
    "time of milliseconds": (
        pa.time32("ms"),
        st.times().map(lambda time: time.replace(microsecond=0)),
    ),
    "seconds": (pa.timestamp("s"), TIMES.map(lambda time: time.replace(microsecond=0))),
    "microseconds": (pa.timestamp("us"), TIMES),
    "nanoseconds": (pa.timestamp("ns"), TIMES),
    "zoned": (
        pa.timestamp("us", "Europe/Berlin"),
        TIMES.map(lambda time: time.replace(tzinfo=dt.UTC)),
    ),
    "durations": (
        pa.duration("us"),
        st.timedeltas(dt.timedelta(days=-999), dt.timedelta(days=999)),
    ),
    "lists": (pa.list_(pa.int64()), st.lists(SMALL, max_size=3)),
    "lists with gaps": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "large lists": (pa.large_list(pa.float32()), st.lists(st.floats(width=32), max_size=3)),
    "fixed lists": (pa.list_(pa.int16(), 2), st.lists(st.integers(0, 9), min_size=2, max_size=2)),
    "lists of texts": (pa.list_(pa.string()), st.lists(st.text(max_size=3), max_size=3)),
    "lists of lists": (
        pa.list_(pa.list_(pa.int64())),
        st.lists(st.lists(SMALL, max_size=2), max_size=2),
    ),
    "structs": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.none() | INTEGERS, "b": st.text(max_size=3)}),
    ),
    "lists of structs": (
        pa.list_(pa.struct([("a", pa.int64())])),
        st.lists(st.fixed_dictionaries({"a": SMALL}), max_size=2),
    ),
    "maps": (
        pa.map_(pa.string(), pa.int64()),
        st.lists(st.tuples(st.text(max_size=3), SMALL), max_size=2),
    ),
    "null": (pa.null(), st.none()),
}
NUMBERS = (*(kind for kind in ARROW if "int" in kind), "float16", "float32", "float64", "bool")
BYTES = ("string", "large_string", "binary", "fixed binary", "dictionary", "dictionary of numbers")
DECIMALS = ("decimal", "wide decimal")
MOMENTS = (
    "date",
    "time",
    "time of milliseconds",
    "seconds",
    "microseconds",
    "nanoseconds",
    "zoned",
    "durations",
)
NESTED = tuple(kind for kind in ARROW if "list" in kind or kind in {"structs", "maps"})


def arrow_tables(
    kinds: Sequence[str], least: int = 1, names: str = "abc"
) -> st.SearchStrategy[pa.Table]:
    """Draw a table; some columns lack values."""

    @st.composite
    def drawn(draw: st.DrawFn) -> pa.Table:
        rows, columns = draw(st.integers(least, 6)), {}
        for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)):
            kind, values = ARROW[draw(st.sampled_from(kinds))]
            wanted = st.none() | values if draw(st.booleans()) else values
            columns[name] = pa.array(
                draw(st.lists(wanted, min_size=rows, max_size=rows)), kind, from_pandas=False
            )
        return pa.table(columns)

    return drawn()


def parquet_of(table: pa.Table, **options: object) -> bytes:
    """Return the bytes of a parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def read_parquet(*contents: bytes) -> list[Row]:
    """Return the rows of parquet files."""
    return as_one([pq.read_table(pa.BufferReader(each)) for each in contents])


def parquet(kinds: Sequence[str], names: str = "abc") -> st.SearchStrategy[Drawn]:
    """Draw a parquet file."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Drawn:
        options = {
            "compression": draw(st.sampled_from(["none", "snappy", "zstd"])),
            "row_group_size": draw(st.sampled_from([2, 100])),
            "use_dictionary": draw(st.booleans()),
            "write_statistics": draw(st.booleans()),
            "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
            "store_schema": draw(st.booleans()),
        }
        content = parquet_of(draw(arrow_tables(kinds, names=names)), **options)
        return Drawn("parquet", {"a.parquet": content}, lambda: read_parquet(content))

    return drawn()


def parquet_files(kinds: Sequence[str]) -> st.SearchStrategy[Drawn]:
    """Draw parquet files whose columns and types differ; some are empty."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Drawn:
        first = draw(arrow_tables(kinds, names="a"))
        others = draw(st.lists(arrow_tables(kinds, least=0, names="ab"), min_size=1, max_size=2))
        contents = [parquet_of(each) for each in (first, *others)]
        files = {f"{number}.parquet": each for number, each in enumerate(contents)}
        return Drawn("parquet", files, lambda: read_parquet(*contents))

    return drawn()


@st.composite
def text(draw: st.DrawFn) -> Drawn:
    """Draw a file of lines."""
    lines = draw(st.lists(st.text("ab \u00e4\u4e16\t,", max_size=6), min_size=1, max_size=8))
    content = (draw(st.sampled_from(["\n", "\r\n"]))).join(lines).encode()
    content += draw(st.sampled_from([b"", b"\n"]))

    def rows() -> list[Row]:
        found: list[Row] = [{"text": line} for line in content.decode().splitlines()]
        if not found:
            raise ValueError("no rows")
        return found

    return Drawn("text", {"a.txt": content}, rows, {"emptyLines": True})


@st.composite
def binary(draw: st.DrawFn) -> Drawn:
    """Draw files of bytes."""
    files = draw(
        st.dictionaries(
            st.text("abc", min_size=1, max_size=3), st.binary(max_size=9), min_size=1, max_size=4
        )
    )
    return Drawn("binary", files, lambda: [{"bytes": files[name]} for name in sorted(files)])


@st.composite
def images(draw: st.DrawFn) -> Drawn:
    """Draw pictures in folders of their classes."""
    files, wanted = dict[str, bytes](), list[Row]()
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
    modes, endings = (
        st.sampled_from(["RGB", "L", "RGBA", "P", "1"]),
        st.sampled_from(["png", "gif"]),
    )
    for number, name in enumerate(sorted(names)):
        picture = Image.new("RGB", (draw(st.integers(1, 5)), 3), draw(st.integers(0, 255)))
        sink, ending = io.BytesIO(), draw(endings)
        picture.convert(draw(modes)).save(sink, ending)
        files[f"{name}/{number}.{ending}"] = sink.getvalue()
        wanted.append({"image": sink.getvalue(), "label": sorted({*names}).index(name)})
    return Drawn("images", files, lambda: wanted)


DTYPES = (
    *("<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "?", ">i4"),
    *(">f8", "<c8", "<U3", "<M8[ns]", "S2"),
)


@st.composite
def numpy(draw: st.DrawFn) -> Drawn:
    """Draw files of arrays."""
    shape = (draw(st.integers(0, 4)), *draw(st.lists(st.integers(1, 3), max_size=2)))
    dtype, order = draw(st.sampled_from(DTYPES)), draw(st.sampled_from("CF"))
    files = {}
    for number in range(draw(st.integers(1, 2))):
        values = np.arange(math.prod(shape)) % 2 if dtype == "?" else np.arange(math.prod(shape))
        files[f"{number}.npy"] = npy_of(
            np.asarray(values.reshape(shape).astype(dtype), order=order)  # type: ignore[call-overload]
        )

    def rows() -> list[Row]:
        found: list[Row] = [
            {"data": row} for each in files.values() for row in np.load(io.BytesIO(each))
        ]
        if not found:
            raise ValueError("no rows")
        return found

    return Drawn("numpy", files, rows)


@st.composite
def tfrecords(draw: st.DrawFn) -> Drawn:
    """Draw a file of Examples with the same features."""
    features: Mapping[str, st.SearchStrategy[object]] = {
        "i": INTEGERS,
        "f": st.floats(width=32, allow_nan=False),
        "t": st.text(max_size=4).map(str.encode),
        "v": st.lists(SMALL, min_size=2, max_size=2),
        "r": st.lists(SMALL, max_size=3),
    }
    names = draw(st.lists(st.sampled_from(sorted(features)), min_size=1, max_size=3, unique=True))
    row = st.fixed_dictionaries({name: features[name] for name in names})
    rows = draw(st.lists(row, min_size=1, max_size=5))
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder, "a.tfrecord")
        write_records(at, rows, packed=draw(st.booleans()))  # type: ignore[arg-type]
        content = at.read_bytes()
    return Drawn(
        "tfrecords",
        {"a.tfrecord": content},
        lambda: rows,
        {"lengths": {"r": 0}} if "r" in names else {},
    )


@st.composite
def webdataset(draw: st.DrawFn) -> Drawn:
    """Draw a tar file of samples."""
    endings: Mapping[str, Callable[[int], tuple[bytes, object]]] = {
        "cls": lambda number: (b"%d" % number, number),
        "txt": lambda number: (f"\u00e4{number}".encode(), f"\u00e4{number}"),
        "json": lambda number: (b'{"a": [%d]}' % number, {"a": [number]}),
        "npy": lambda number: (npy_of(np.full(2, number)), [number, number]),
        "bin": lambda number: (b"%d" % number, b"%d" % number),
        "seg.png": lambda number: (b"%d" % number, b"%d" % number),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(endings)), min_size=1, max_size=4, unique=True))
    members, rows = dict[str, bytes](), list[Row]()
    folder = draw(st.sampled_from(["", "train/", "./"]))
    for number in range(draw(st.integers(1, 5))):
        row: Row = {"__key__": f"{folder}{number:03}"}
        for ending in chosen:
            members[f"{folder}{number:03}.{ending}"], row[ending] = endings[ending](number)
        rows.append(row)
    with tempfile.TemporaryDirectory() as made:
        at = Path(made, "a.tar.gz" if draw(st.booleans()) else "a.tar")
        write_tar(at, members, draw(st.sampled_from([0, 1, 2])))
        return Drawn("webdataset", {at.name: at.read_bytes()}, lambda: rows)


@st.composite
def audio(draw: st.DrawFn) -> Drawn:
    """Draw recordings."""
    files, channels = dict[str, bytes](), draw(st.integers(1, 2))
    form, kind = draw(st.sampled_from([("WAV", "PCM_16"), ("WAV", "FLOAT"), ("FLAC", "PCM_24")]))
    for number in range(draw(st.integers(1, 3))):
        sink = io.BytesIO()
        frames = draw(st.integers(1, 20))
        values = np.linspace(-1, 1, frames * channels, dtype=np.float32).reshape(frames, channels)
        soundfile.write(sink, values, draw(st.sampled_from([8000, 16000])), kind, format=form)
        files[f"{number}.{form.lower()}"] = sink.getvalue()

    def rows() -> list[Row]:
        found = (soundfile.read(io.BytesIO(each), dtype="float32") for each in files.values())
        return [{"audio": values, "rate": rate} for values, rate in found]

    return Drawn("audio", files, rows)


KINDS: Mapping[str, st.SearchStrategy[Drawn]] = {
    "csv: values": csv_values(),
    "csv: missing values": csv_missing(),
    "csv: dialects": csv_dialects(),
    "csv: encodings": csv_encodings(),
    "csv: line ends": csv_line_ends(),
    "csv: files that differ": csv_files(),
    "csv: compressed": csv_packed(),
    "json lines: values": json_lines(JSON_SCALARS),
    "json lines: numbers": json_lines(JSON_NUMBERS),
    "json lines: nested": json_lines(JSON_NESTED),
    "json lines: files that differ": json_files(),
    "json list: values": json_list(JSON_SCALARS),
    "json list: numbers": json_list(JSON_NUMBERS),
    "json list: nested": json_list(JSON_NESTED),
    "parquet: numbers": parquet(NUMBERS),
    "parquet: texts and bytes": parquet(BYTES),
    "parquet: decimals": parquet(DECIMALS),
    "parquet: times": parquet(MOMENTS),
    "parquet: nested": parquet(NESTED),
    "parquet: files with other numbers": parquet_files((*NUMBERS, "null")),
    "parquet: files with other texts": parquet_files((*BYTES, "null")),
    "parquet: files with other decimals": parquet_files((*DECIMALS, "small int64", "null")),
    "parquet: files with other times": parquet_files((*MOMENTS, "null")),
    "parquet: files with other lists": parquet_files((*NESTED, "null")),
    "text": text(),
    "binary": binary(),
    "images": images(),
    "numpy": numpy(),
    "tfrecords": tfrecords(),
    "webdataset": webdataset(),
    "audio": audio(),
}


def compare(kind: str, examples: int, number: int = 0) -> Tally:
    """Return what becomes of drawn files of a kind; number: the seed."""
    read, equal, refused, different = 0, 0, list[str](), list[str]()

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.generate],
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS[kind])
    def take(drawn: Drawn) -> None:
        nonlocal read, equal
        try:
            wanted = plain(drawn.rows(), drawn.form)
        except Exception:  # whatever the other reader raises, it does not read them
            return
        read += 1
        with tempfile.TemporaryDirectory() as folder:
            for name, content in drawn.files.items():
                at = Path(folder, name)
                at.parent.mkdir(exist_ok=True)
                at.write_bytes(content)
            try:
                found = plain(_rows_in(Path(folder), drawn), drawn.form)
            except (SpecError, RuleError, DataError) as error:
                refused.append(str(error).replace(folder, ""))
                return
        if found == wanted:
            equal += 1
        else:
            different.append(f"{drawn.files} {drawn.options}\n  {wanted}\n  {found}")

    take()
    return Tally(read, equal, refused, different)


def _rows_in(folder: Path, drawn: Drawn) -> list[Row]:
    source = open_files(folder, drawn.form, drawn.options)
    columns = [
        {name: each for name, each in table.items() if (drawn.form, name) != ("binary", "path")}
        for fragment in source.fragments
        for table in read_fragment(source.scan, fragment, (), chunk_rows=7)
    ]
    return [
        dict(zip(table, row, strict=True))
        for table in columns
        for row in zip(*table.values(), strict=True)
    ]


def plain(value: object, form: str) -> object:
    """Return a value as Python objects, alike for all types that hold it.

    Missing values and fields are left out of rows and objects; times are nanoseconds.
    """
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        value = value.item()
    if isinstance(value, dict):
        inside = {str(name): plain(each, form) for name, each in value.items()}
        return {name: each for name, each in inside.items() if each is not None}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each, form) for each in value]
    is_nan = isinstance(value, float) and math.isnan(value)
    if is_nan or value is pd.NaT or (isinstance(value, str) and not value and form == "csv"):
        return None
    if isinstance(value, (np.datetime64, np.timedelta64, dt.date, dt.timedelta)):
        return _nanoseconds(_in_utc(value))
    return value


def _in_utc(value: object) -> np.datetime64 | np.timedelta64:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    is_length = isinstance(value, (dt.timedelta, np.timedelta64))
    if isinstance(value, (pd.Timestamp, pd.Timedelta)):
        value = value.to_numpy()
    found: np.datetime64 | np.timedelta64 = (
        np.timedelta64(value) if is_length else np.datetime64(value)  # type: ignore[call-overload]
    )
    return found


def _nanoseconds(value: np.datetime64 | np.timedelta64) -> Decimal | None:
    if np.isnat(value):
        return None
    unit, step = np.datetime_data(value.dtype)
    sizes = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
    return Decimal(int(value.astype(np.int64)) * step * sizes[unit])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what becomes of the files of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="part of the names of kinds")
    parser.add_argument("--show", type=int, default=0, help="number of different files to print")
    asked = parser.parse_args(arguments)
    read, equal = 0, 0
    for kind in (kind for kind in KINDS if asked.kind in kind):
        tally = compare(kind, asked.examples, asked.seed)
        print(
            f"{kind:36} read {tally.read:4}  equal {tally.equal:4}  refused "
            f"{len(tally.refused):4}  different {len(tally.different):4}",
            flush=True,
        )
        read, equal = read + tally.read, equal + tally.equal
        for message, times in Counter(tally.refused).most_common(asked.show):
            print(f"    {times} refused: {message[:300]}")
        for each in tally.different[: asked.show]:
            print(f"    different: {each}")
    print(f"equal: {equal} of {read} that another reader reads, {equal / max(1, read):.1%}")


if __name__ == "__main__":
    main()
