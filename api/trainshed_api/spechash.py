"""The identity of a run: what decides whether a stored run and a file are the same training."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from trainshed_api.schema import normalise_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from trainshed_api.v1alpha1 import TrainingRunSpec

_HASHED = ("train", "entrypoint", "config", "framework", "batchSize", "precision", "seed", "data")
# Where and how fast rows are prepared does not change which rows come.
_DATA_NOT_HASHED = ("placement", "cpus")
_DATASET_NOT_HASHED = ("cache",)

_ABSENT = "(not set)"


def hashed_part(spec: TrainingRunSpec) -> dict[str, JsonValue]:
    """Return the part of the spec, defaults filled, that makes another training when it changes."""
    whole = spec.to_dict()
    part = {name: whole[name] for name in _HASHED if name in whole}
    data = part.get("data")
    if isinstance(data, dict):
        part["data"] = _drop_placement(data)
    return part


def spec_hash(spec: TrainingRunSpec) -> str:
    """Return the SHA-256 of the hashed part as hex; order of keys and 5.0 for 5 do not matter."""
    return hashlib.sha256(canonical_json(hashed_part(spec)).encode()).hexdigest()


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
    old, new = dict(_flatten(old_part, "spec")), dict(_flatten(new_part, "spec"))
    paths = list(old) + [path for path in new if path not in old]
    return [
        f"{path}: {old.get(path, _ABSENT)} -> {new.get(path, _ABSENT)}"
        for path in paths
        if old.get(path) != new.get(path)
    ]


def _drop_placement(data: dict[str, JsonValue]) -> dict[str, JsonValue]:
    kept = {name: value for name, value in data.items() if name not in _DATA_NOT_HASHED}
    datasets = kept.get("datasets")
    if isinstance(datasets, dict):
        kept["datasets"] = {
            name: {k: v for k, v in dataset.items() if k not in _DATASET_NOT_HASHED}
            for name, dataset in datasets.items()
            if isinstance(dataset, dict)
        }
    return kept


def _flatten(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and canonical JSON of every leaf; an empty map or list is a leaf."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _flatten(item, f"{path}[{index}]")
    else:
        yield path, canonical_json(value)
