"""Records of TensorFlow come back as they were written, or say where they are broken."""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import as_if_listed_so, open_files, read_all, read_good
from tests.app.data.builders_records import (
    Value,
    encode_example,
    frame_records,
    write_records,
)
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources.errors import DataError
from trainshed_api.errors import SpecError

ROWS: list[dict[str, Value]] = [
    {
        "id": number - 5,
        "x": number / 8,
        "name": f"n\u00e4{number}",
        "shape": [number, 2**62 + number, -(2**62)],
        "vector": [number / 2, -1.5],
        "words": ["a"] * (number % 3 + 1),
        "tokens": list(range(number % 4)),
    }
    for number in range(40)
]


@pytest.mark.parametrize(
    "name",
    [
        "a.tfrecord",
        "a.tfrecord.gz",
        "a.tfrecord-00000-of-00001",
        "a.tfrecord.GZ-00000-of-00001",
    ],
)
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "a field each"])
def test_features_come_back_as_columns(tmp_path: Path, name: str, *, packed: bool) -> None:
    write_records(tmp_path / name, ROWS, packed=packed)
    source = open_files(tmp_path, "tfrecords")

    found = read_all(source)

    assert found["id"].dtype == np.int64
    assert found["id"].tolist() == [row["id"] for row in ROWS]
    assert found["x"].dtype == np.float32
    assert found["x"].tolist() == [row["x"] for row in ROWS]
    assert [name.decode() for name in found["name"]] == [row["name"] for row in ROWS]
    assert found["shape"].tolist() == [row["shape"] for row in ROWS]
    assert found["vector"].shape == (40, 2)
    assert found["vector"].tolist() == [row["vector"] for row in ROWS]
    assert [values.tolist() for values in found["tokens"]] == [row["tokens"] for row in ROWS]
    assert [len(values) for values in found["words"]] == [1, 2, 3] * 13 + [1]
    assert found["words"][1].tolist() == [b"a", b"a"]
    assert source.rows is None
    assert source.likely_rows == pytest.approx(40, rel=0.1)


def test_a_column_of_lists_that_happen_to_be_alike_may_be_named_one_of_any_length(
    tmp_path: Path,
) -> None:
    first: list[dict[str, Value]] = [{"tokens": [1, 2]}] * 40
    last: list[dict[str, Value]] = [{"tokens": [3]}]
    write_records(tmp_path / "a.tfrecord", [*first, *last])

    with pytest.raises(
        DataError,
        match=r"a.tfrecord: record at byte \d+: column tokens: it has 1 int64 values where "
        r"others have 2 int64 values; options.lengths may say",
    ):
        read_all(open_files(tmp_path, "tfrecords"))

    found = read_all(open_files(tmp_path, "tfrecords", {"lengths": {"tokens": 0}}))
    assert found["tokens"][0].tolist() == [1, 2]
    assert found["tokens"][-1].tolist() == [3]


def test_missing_values_are_as_numpy_has_them(tmp_path: Path) -> None:
    rows: list[dict[str, Value]] = [{"x": 0.5, "name": "one", "tokens": [1, 2, 3]}] * 40
    write_records(tmp_path / "a.tfrecord", [*rows, {}])

    found = read_all(open_files(tmp_path, "tfrecords", {"lengths": {"tokens": 0}}))

    assert np.isnan(found["x"][-1])
    assert found["name"][-1] is None
    assert found["tokens"][-1].tolist() == []


def test_a_whole_number_that_is_missing_is_said(tmp_path: Path) -> None:
    write_records(tmp_path / "a.tfrecord", [*([{"id": 1}] * 40), {}])

    with pytest.raises(DataError, match="column id: it has no values where others have 1 int64"):
        read_all(open_files(tmp_path, "tfrecords"))


@dataclass(frozen=True)
class Damage:
    """What became of the bytes of a file, and what is said of it."""

    place: int
    put: bytes | None
    want: str


DAMAGES: dict[str, Damage] = {
    "a length": Damage(1, b"\xff", r"record at byte \d+: its length does not fit its checksum"),
    "a value": Damage(20, b"\xff", r"record at byte \d+: its 17 bytes do not fit their checksum"),
    "an end in a record": Damage(20, None, r"record at byte \d+: the file ends in its 17 bytes"),
    "an end in a length": Damage(3, None, r"record at byte \d+: the file ends in its length"),
}


def write_damaged(folder: Path, damage: Damage, *, skips_bad: bool = False) -> tuple[Source, int]:
    """Return 100 records of which the one at 90 is damaged, and the byte at which it begins."""
    path = folder / "a.tfrecord"
    write_records(path, [{"x": float(number)} for number in range(100)])
    begin = 90 * (path.stat().st_size // 100)
    source = as_if_listed_so(open_files(folder, "tfrecords", skips_bad=skips_bad))
    with path.open("r+b") as file:
        file.seek(begin + damage.place)
        if damage.put is None:
            file.truncate()
        else:
            file.write(damage.put)
    return source, begin


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_says_where(tmp_path: Path, damage: Damage) -> None:
    source, begin = write_damaged(tmp_path, damage)

    with pytest.raises(DataError, match=rf"a\.tfrecord: {damage.want}") as caught:
        read_all(source)

    assert f"byte {begin}:" in str(caught.value)


def test_a_record_that_is_no_example_says_where(tmp_path: Path) -> None:
    good = encode_example({"x": 0.5})
    frame_records(tmp_path / "a.tfrecord", [*[good] * 40, b"\x0a\xff"])

    with pytest.raises(DataError, match=r"byte \d+: no tf\.train\.Example"):
        read_all(open_files(tmp_path, "tfrecords"))


def message(field: int, body: bytes) -> bytes:
    """Return a field of protobuf that holds bytes or a message."""
    assert len(body) < 128
    return bytes([field << 3 | 2, len(body)]) + body


UNKNOWN: dict[str, tuple[bytes, str]] = {
    "feature lists": (
        message(1, message(1, message(1, b"id") + message(2, message(3, message(1, b"\x05")))))
        + message(2, message(1, message(1, b"tokens"))),
        "it has feature lists, so it is a tf.train.SequenceExample, which is not read",
    ),
    "another field of an Example": (message(3, b"a"), "the Example: values in protobuf field 3"),
    "another field of its features": (
        message(1, message(2, b"a")),
        "its features: values in protobuf field 2",
    ),
    "another field of an entry": (
        message(1, message(1, message(1, b"id") + message(3, b"a"))),
        "feature id: values in protobuf field 3",
    ),
    "another kind of feature": (
        message(1, message(1, message(1, b"id") + message(2, message(4, message(1, b"a"))))),
        "feature id: values in protobuf field 4",
    ),
    "another kind of value": (
        message(1, message(1, message(1, b"id") + message(2, message(3, b"\x0d\x01\0\0\0")))),
        "feature id: values in protobuf field 1",
    ),
}


@pytest.mark.parametrize(("record", "want"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_an_example_has_no_field_for_is_refused(
    tmp_path: Path, record: bytes, want: str
) -> None:
    frame_records(tmp_path / "a.tfrecord", [record])

    with pytest.raises(SpecError, match=rf"record at byte 0: no tf\.train\.Example: {want}"):
        open_files(tmp_path, "tfrecords")


def test_an_example_may_have_a_field_of_feature_lists_that_is_empty(tmp_path: Path) -> None:
    record = encode_example({"id": 5}) + message(2, b"")
    frame_records(tmp_path / "a.tfrecord", [record] * 3)

    assert read_all(open_files(tmp_path, "tfrecords"), ["id"])["id"].tolist() == [5] * 3


def test_a_sequence_example_among_examples_is_a_bad_record(tmp_path: Path) -> None:
    good, (other, want) = encode_example({"id": 5}), UNKNOWN["feature lists"]
    frame_records(tmp_path / "a.tfrecord", [*[good] * 40, other, good])

    with pytest.raises(DataError, match=want):
        read_all(open_files(tmp_path, "tfrecords"), ["id"])

    rows, bad = read_good(open_files(tmp_path, "tfrecords", skips_bad=True), ["id"])
    assert rows["id"].tolist() == [5] * 41
    assert [want in each.reason for each in bad] == [True]


@dataclass(frozen=True)
class Mistake:
    """Rows of two files, and what is said of them."""

    first: dict[str, Value]
    second: dict[str, Value]
    options: dict[str, JsonValue]
    want: str


MISTAKES: dict[str, Mistake] = {
    "types that differ": Mistake(
        {"x": 1}, {"x": 0.5}, {}, "got float beside int64; expected values of one type in column x"
    ),
    "a length of no column": Mistake(
        {"x": 1}, {"x": 1}, {"lengths": {"y": 0}}, "options.lengths: got y; expected one of x"
    ),
    "no features": Mistake({}, {}, {}, "Examples with at least one feature"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_what_is_wrong_is_said_before_the_run(tmp_path: Path, mistake: Mistake) -> None:
    write_records(tmp_path / "a.tfrecord", [mistake.first])
    write_records(tmp_path / "b.tfrecord", [mistake.second])

    with pytest.raises(SpecError, match=mistake.want):
        open_files(tmp_path, "tfrecords", mistake.options)


def test_records_that_are_compressed_need_a_name_that_says_so(tmp_path: Path) -> None:
    """TFRecordWriter(options="GZIP") gives the file no ending."""
    (tmp_path / "a.tfrecord").write_bytes(gzip.compress(bytes(99)))

    with pytest.raises(SpecError, match=r"a.tfrecord: record at byte 0: it is compressed by gzip"):
        open_files(tmp_path, "tfrecords")


def test_other_bytes_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_text("id,x\n1,2\n")

    with pytest.raises(
        SpecError, match=r"TFRecords cannot be read: .*a.tfrecord: record at byte 0: the file ends"
    ):
        open_files(tmp_path, "tfrecords")


@pytest.mark.tensorflow
def test_what_tensorflow_writes_is_read(tmp_path: Path) -> None:
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tensorflow as tf

    train = tf.train
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord.gz"), "GZIP") as writer:
        for number in range(50):
            features = {
                "id": train.Feature(int64_list=train.Int64List(value=[-number])),
                "x": train.Feature(float_list=train.FloatList(value=[number / 8, 0.25])),
                "name": train.Feature(bytes_list=train.BytesList(value=[b"%d" % number])),
            }
            example = train.Example(features=train.Features(feature=features))
            writer.write(example.SerializeToString())

    found = read_all(open_files(tmp_path, "tfrecords"))

    assert found["id"].tolist() == [-number for number in range(50)]
    assert found["x"].tolist() == [[number / 8, 0.25] for number in range(50)]
    assert found["name"].tolist() == [b"%d" % number for number in range(50)]


# Whether records after the damaged one are found.
LEFT: dict[str, int] = {"a length": 90, "a value": 99, "an end in a record": 90}


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.parametrize("chunk_rows", [1, 7, 200])
def test_damaged_records_may_be_left_out(tmp_path: Path, name: str, chunk_rows: int) -> None:
    source, begin = write_damaged(tmp_path, DAMAGES[name], skips_bad=True)

    good, bad = read_good(source, chunk_rows=chunk_rows)

    want = [number for number in range(LEFT[name] + 1) if number != 90]
    assert good["x"].tolist() == want
    assert [each.place for each in bad] == [f"record at byte {begin}"]
