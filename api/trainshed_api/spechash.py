"""The identity of a run: what decides whether a stored run and a file are the same training.

A run outlives the release that began it, so there are two hashes. `spec_hash` has the form that the
first release wrote, and every release writes and accepts it: up or down, a spec that uses no later
field has the same. `training_hash` leaves out what has become known to set only speed.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from trainshed_api.schema import SpecModel, earlier_default, normalise_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue
    from pydantic.fields import FieldInfo

    from trainshed_api.v1alpha1 import TrainingRunSpec

# What the first release hashed, whole where nothing below it is named. Closed: what is not here is
# hashed only where it makes another training and somebody set it, so a field that is added with
# a default changes no hash that is written down.
_FIRST_FORM = frozenset(
    f"{place}{name}"
    for place, names in (
        ("", "train entrypoint config framework batchSize precision seed data"),
        ("data.", "loader datasets"),
        ("data.datasets.*.", "read transforms shuffle augment split feed"),
        ("data.datasets.*.read.", "format path columns use options"),
        ("data.datasets.*.transforms[].", "use kind options batchSize"),
        ("data.datasets.*.shuffle.", "mode bufferSize"),
        ("data.datasets.*.augment[].", "use options"),
        ("data.datasets.*.feed.", "prefetchBatches dtypes lastBatch"),
    )
    for name in names.split()
)
# It never changes, but where a run leaves its files makes no other training.
_NO_TRAINING = frozenset({"storage"})

_ABSENT = "(not set)"


def hashed_part(spec: TrainingRunSpec) -> dict[str, JsonValue]:
    """Return the part of the spec, defaults filled, that makes another training when it changes."""
    return _fields(spec, spec.to_dict(), "", speed=False)


def spec_hash(spec: TrainingRunSpec) -> str:
    """Return the SHA-256 of a spec as hex: every release has the same while no later field is set.

    Order of keys and 5.0 for 5 do not matter.
    """
    return _sha256(_fields(spec, spec.to_dict(), "", speed=True))


def training_hash(spec: TrainingRunSpec) -> str:
    """Return the SHA-256 of the hashed part as hex."""
    return _sha256(hashed_part(spec))


def same_training(spec: TrainingRunSpec, recorded: str, recorded_training: str) -> bool:
    """Say whether a spec is the training that was written down.

    recorded: its spec_hash, by any release. recorded_training: its training_hash; empty where an
    earlier release wrote.
    """
    return recorded == spec_hash(spec) or recorded_training == training_hash(spec)


def canonical_json(value: JsonValue) -> str:
    """Return the one spelling of a JSON value."""
    return json.dumps(
        normalise_json(value),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )


def diff(old_part: dict[str, JsonValue], new_part: dict[str, JsonValue]) -> list[str]:
    """Return a line for each value that differs: `spec.config.learningRate: 0.001 -> 0.01`."""
    old, new = dict(flatten(old_part, "spec")), dict(flatten(new_part, "spec"))
    paths = list(old) + [path for path in new if path not in old]
    return [
        f"{path}: {old.get(path, _ABSENT)} -> {new.get(path, _ABSENT)}"
        for path in paths
        if old.get(path) != new.get(path)
    ]


def _sha256(part: dict[str, JsonValue]) -> str:
    return hashlib.sha256(canonical_json(part).encode()).hexdigest()


def _fields(
    model: SpecModel, written: dict[str, JsonValue], place: str, speed: bool
) -> dict[str, JsonValue]:
    """Return what is hashed; speed: with what the first release took for more than speed."""
    part: dict[str, JsonValue] = {}
    for attribute, field in type(model).model_fields.items():
        name, value = field.alias or attribute, getattr(model, attribute)
        if name in written and _is_hashed(field, value, f"{place}{name}", speed):
            part[name] = _below(value, written[name], f"{place}{name}", speed)
            if value == _default(field) and (was := earlier_default(field)):
                part[name] = was
            # A later field that only holds others; one that may be left out says something itself.
            is_later = f"{place}{name}" not in _FIRST_FORM
            if part[name] == {} and is_later and isinstance(_default(field), SpecModel):
                del part[name]
    return part


def _below(value: object, written: JsonValue, place: str, speed: bool) -> JsonValue:
    """Return of a value what is hashed; what is no model and holds none is hashed as written."""
    if isinstance(value, SpecModel) and isinstance(written, dict):
        return _fields(value, written, f"{place}.", speed)
    if isinstance(value, dict) and isinstance(written, dict):
        return {key: _below(value[key], item, f"{place}.*", speed) for key, item in written.items()}
    if isinstance(value, tuple) and isinstance(written, list):
        pairs = zip(value, written, strict=True)
        return [_below(item, text, f"{place}[]", speed) for item, text in pairs]
    return written


def _is_hashed(field: FieldInfo, value: object, place: str, speed: bool) -> bool:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), f"{place}: every field says when it may change"
    lasting = extra["mutable"] == "never" and place not in _NO_TRAINING
    if place in _FIRST_FORM:
        return lasting or speed
    return lasting and value != _default(field)


def _default(field: FieldInfo) -> object:
    return field.get_default(call_default_factory=True, validated_data={})


def flatten(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and canonical JSON of every leaf; an empty map or list is a leaf."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from flatten(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from flatten(item, f"{path}[{index}]")
    else:
        yield path, canonical_json(value)
