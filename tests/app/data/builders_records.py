"""The only place where TensorFlow's records are born in these tests, as protobuf writes them."""

import gzip
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import google_crc32c
import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

Value = int | float | str | bytes | Sequence[int] | Sequence[float] | Sequence[str]

_LISTS = {
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int64": FieldDescriptorProto.TYPE_INT64,
}


def encode_example(row: Mapping[str, Value], *, packed: bool = True) -> bytes:
    """Return the bytes of a `tf.train.Example`, its numbers packed or each a field of its own."""
    example = _example_class(packed=packed)()
    for name, value in row.items():
        values = [value] if isinstance(value, (int, float, str, bytes)) else list(value)
        feature = example.features.feature[name]
        if all(isinstance(each, int) for each in values):
            feature.int64_list.SetInParent()
            feature.int64_list.value.extend(values)
        elif all(isinstance(each, (str, bytes)) for each in values):
            texts = (each.encode() if isinstance(each, str) else each for each in values)
            feature.bytes_list.value.extend(texts)
        else:
            feature.float_list.value.extend(values)
    encoded: bytes = example.SerializeToString()
    return encoded


def write_records(path: Path, rows: Sequence[Mapping[str, Value]], *, packed: bool = True) -> None:
    """Write rows as records; packed where the file's name ends so."""
    frame_records(path, [encode_example(row, packed=packed) for row in rows])


def frame_records(path: Path, records: Sequence[bytes]) -> None:
    """Write each of them behind its length, with the checksums of both."""
    framed = b"".join(
        struct.pack("<Q", len(record))
        + _check(struct.pack("<Q", len(record)))
        + record
        + _check(record)
        for record in records
    )
    is_packed = ".gz" in path.name.lower()
    path.write_bytes(gzip.compress(framed) if is_packed else framed)


def _check(data: bytes) -> bytes:
    # https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
    crc = np.uint32(google_crc32c.value(data))
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return struct.pack("<I", (int(rotated) + 0xA282EAD8) % 2**32)


@cache
def _example_class(*, packed: bool) -> Callable[[], Message]:
    """Return the class of Examples, described as TensorFlow's own files do."""
    file = FileDescriptorProto(name="example.proto", package="tests", syntax="proto3")
    for kind, number in _LISTS.items():
        values = file.message_type.add(name=f"{kind.title()}List").field.add(
            name="value", number=1, type=number, label=FieldDescriptorProto.LABEL_REPEATED
        )
        if kind != "bytes":
            values.options.packed = packed
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, kind in enumerate(_LISTS, start=1):
        feature.field.add(
            name=f"{kind}_list",
            number=number,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            type_name=f".tests.{kind.title()}List",
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            oneof_index=0,
        )
    features = file.message_type.add(name="Features")
    features.field.add(
        name="feature",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".tests.Features.FeatureEntry",
        label=FieldDescriptorProto.LABEL_REPEATED,
    )
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(
        name="key",
        number=1,
        type=FieldDescriptorProto.TYPE_STRING,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    entry.field.add(
        name="value",
        number=2,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".tests.Feature",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    file.message_type.add(name="Example").field.add(
        name="features",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".tests.Features",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    pool = DescriptorPool()
    pool.Add(file)
    found: Callable[[], Message] = GetMessageClass(pool.FindMessageTypeByName("tests.Example"))
    return found
