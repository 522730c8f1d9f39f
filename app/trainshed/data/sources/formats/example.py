"""TensorFlow's `tf.train.Example`, read without TensorFlow. Pure."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
    from numpy.typing import NDArray

Kind = Literal["bytes", "float", "int64"]

_DTYPES: dict[Kind, type[np.generic]] = {
    "bytes": np.object_,
    "float": np.float32,
    "int64": np.int64,
}


class Feature(NamedTuple):
    """The values of a feature: float32 or int64, shape (values,), or a list of bytes."""

    kind: Kind
    values: NDArray[np.generic]


class _List(Protocol):
    value: Sequence[object]


class _Feature(Protocol):
    def WhichOneof(self, name: str) -> str | None:  # noqa: N802 - protobuf's own name
        """Return the name of the list that is set."""


class _Entry(Protocol):
    key: str
    value: _Feature


class _Features(Protocol):
    feature: Sequence[_Entry]


class _Example(Protocol):
    features: _Features


class _Protobuf(NamedTuple):
    """The functions of protobuf for Examples; importing it per record is slower than a check.

    Args:
        parse: returns an Example; raises `error` for invalid bytes.
        unknown: returns the fields of a message that its type lacks.
    """

    parse: Callable[[bytes], _Example]
    error: type[Exception]
    unknown: Callable[[object], Sequence[_Unknown]]


class _Unknown(Protocol):
    field_number: int
    data: object


def read_example(data: bytes, names: Collection[str] = ()) -> dict[str, Feature]:
    """Return the features of an Example by name, without features that have no list.

    Args:
        data: the message.
        names: of the wanted features; empty for all.

    Raises:
        ValueError: if it is no such message, or has a field that an Example lacks.
    """
    protobuf = _protobuf()
    try:
        example = protobuf.parse(data)
    except protobuf.error as error:
        raise ValueError(str(error)) from error
    unknown = protobuf.unknown
    if odd := [each for each in unknown(example) if not _is_no_list(each)]:
        if {each.field_number for each in odd} == {_FEATURE_LISTS}:
            raise ValueError(
                "it has feature lists, so it is a tf.train.SequenceExample, which is not read: "
                "write its lists as features of an Example, or as parquet"
            )
        raise _unread(odd, "the Example")
    if fields := unknown(example.features):
        raise _unread(fields, "its features")
    found: dict[str, Feature] = {}
    for entry in example.features.feature:
        name, feature = entry.key, entry.value
        field = feature.WhichOneof("kind")
        values: _List = getattr(feature, field or "bytes_list")  # empty if none is set
        if fields := unknown(entry) or unknown(feature) or unknown(values):
            raise _unread(fields, f"feature {name}")
        if field and (not names or name in names):
            kind = _KINDS[field]
            # Via a list, as NumPy reads protobuf's sequences three to seven times slower.
            found[name] = Feature(kind, np.array(values.value[:], dtype=_DTYPES[kind]))
    return found


def _is_no_list(field: _Unknown) -> bool:
    """Return whether a field is the empty feature lists of a SequenceExample."""
    return field.field_number == _FEATURE_LISTS and field.data == b""


def _unread(fields: Sequence[_Unknown], of: str) -> ValueError:
    numbers = ", ".join(str(each.field_number) for each in fields)
    return ValueError(f"{of}: values in protobuf field {numbers}, which an Example does not have")


# https://github.com/tensorflow/tensorflow/blob/v2.20.0/tensorflow/core/example/feature.proto
_KINDS: dict[str, Kind] = {"bytes_list": "bytes", "float_list": "float", "int64_list": "int64"}
# https://github.com/tensorflow/tensorflow/blob/v2.20.0/tensorflow/core/example/example.proto
_FEATURE_LISTS = 2


def _add(message: DescriptorProto, name: str, number: int, of: str) -> FieldDescriptorProto:
    """Add a field whose type is another message."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    kind, label = Field.TYPE_MESSAGE, Field.LABEL_OPTIONAL
    field: FieldDescriptorProto = message.field.add(
        name=name, number=number, type=kind, type_name=f".trainshed.{of}", label=label
    )
    return field


@cache
def _protobuf() -> _Protobuf:
    """Return the functions for Examples.

    Uses a separate descriptor pool and package: TensorFlow registers its own in protobuf's.
    """
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass
    from google.protobuf.unknown_fields import UnknownFieldSet

    file = FileDescriptorProto(name="trainshed/example.proto", package="trainshed", syntax="proto3")
    types = {"bytes": Field.TYPE_BYTES, "float": Field.TYPE_FLOAT, "int64": Field.TYPE_INT64}
    for field, kind in _KINDS.items():
        values = file.message_type.add(name=field)
        values.field.add(name="value", number=1, type=types[kind], label=Field.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, field in enumerate(_KINDS, start=1):
        _add(feature, field, number, field).oneof_index = 0
    features = file.message_type.add(name="Features")
    _add(features, "feature", 1, "Features.FeatureEntry").label = Field.LABEL_REPEATED
    # On the wire a map is a list of entries. A map field would drop unknown fields of an entry.
    entry = features.nested_type.add(name="FeatureEntry")
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    _add(entry, "value", 2, "Feature")
    _add(file.message_type.add(name="Example"), "features", 1, "Features")
    pool = DescriptorPool()
    pool.Add(file)
    found = GetMessageClass(pool.FindMessageTypeByName("trainshed.Example"))
    return _Protobuf(found.FromString, DecodeError, UnknownFieldSet)
