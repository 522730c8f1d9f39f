"""Which fields of a spec do not fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, show_value
from trainshed_api.frameworks import RULES
from trainshed_api.profile import PROFILED_STEPS
from trainshed_api.schema import earlier_default
from trainshed_api.tracking import SECRET_REMEDY, SECRET_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from trainshed_api.v1alpha1 import TrainingRunSpec

DEDICATED_REMEDY = (
    "no value without cluster.dedicated: Pods of a shared cluster exist before the run"
)
TRAIN_ONLY = (
    "config",
    "epochs",
    "batch_size",
    "accumulate",
    "precision",
    "sync_batch_norm",
    "data",
    "checkpoint",
    "profile",
)


def cross_field_errors(spec: TrainingRunSpec) -> Iterator[Problem]:
    """Yield what is wrong with fields that are right by themselves."""
    if (spec.train is None) == (spec.entrypoint is None):
        got = "both train and entrypoint" if spec.train else "neither train nor entrypoint"
        yield Problem("", got, "exactly one: train (a function) or entrypoint (a command)")
    elif spec.train is None:
        fields = type(spec).model_fields
        for name in TRAIN_ONLY:
            if name in spec.model_fields_set:
                written = show_value(spec.model_dump(mode="json", include={name})[name])
                expected = "no value without train: an entrypoint has its own arguments"
                yield Problem(fields[name].alias or name, written, expected)
    yield from _check_framework(spec)
    yield from _check_sections(spec)


def _check_framework(spec: TrainingRunSpec) -> Iterator[Problem]:
    rules = RULES[spec.framework]
    for path, why in rules.refused.items():
        yield from _check_default(spec, path, path, spec.framework, why)
    for path, why in rules.refused_of_datasets.items():
        for name, dataset in spec.data.datasets.items():
            place = f"data.datasets.{name}.{path}"
            yield from _check_default(dataset, path, place, spec.framework, why)
    gpus = spec.workers.resources.gpu
    if rules.most_gpus is not None and gpus > rules.most_gpus:
        expected = f"at most {rules.most_gpus} with framework {spec.framework}, and more workers"
        yield Problem("workers.resources.gpu", str(gpus), expected)
    for name, dataset in spec.data.datasets.items():
        for column, dtype in dataset.feed.dtypes.items():
            if dtype in rules.dtypes_refused:
                expected = f"another one with framework {spec.framework}"
                yield Problem(f"data.datasets.{name}.feed.dtypes.{column}", f'"{dtype}"', expected)


def _check_default(
    model: BaseModel, path: str, place: str, framework: str, why: str
) -> Iterator[Problem]:
    """Yield a problem where the field at the end of a path is not what it is by default."""
    above, _, last = path.rpartition(".")
    for name in above.split(".") if above else ():
        model = getattr(model, _attribute(model, name))
    attribute = _attribute(model, last)
    field = type(model).model_fields[attribute]
    default = field.get_default(call_default_factory=True, validated_data={})
    if getattr(model, attribute) not in (default, earlier_default(field) or default):
        written = model.model_dump(mode="json", by_alias=True, include={attribute})[last]
        expected = f"no value with framework {framework}: {why}"
        yield Problem(place, show_value(written), expected)


def _attribute(model: BaseModel, alias: str) -> str:
    fields = type(model).model_fields.items()
    return next(name for name, field in fields if (field.alias or name) == alias)


def _check_sections(spec: TrainingRunSpec) -> Iterator[Problem]:
    has_batches = spec.train is not None and RULES[spec.framework].has_batches
    if has_batches and spec.workers.count > spec.batch_size:
        count = spec.workers.count
        expected = f"at least workers.count ({count}): each worker needs a row of every batch"
        yield Problem("batchSize", str(spec.batch_size), expected)
    if spec.profile and spec.profile.steps[0] > spec.profile.steps[1]:
        yield Problem("profile.steps", show_value(list(spec.profile.steps)), PROFILED_STEPS)
    if spec.tracking:  # without one, earlier releases accepted the key of a tracker
        for name in spec.env:
            if name in SECRET_VARIABLES:
                yield Problem(f"env.{name}", "a secret", SECRET_REMEDY)
    if spec.cluster is None or not spec.cluster.dedicated:
        if spec.image:
            yield Problem("image", show_value(spec.image), DEDICATED_REMEDY)
        if spec.env_from:
            yield Problem("envFrom", f"{len(spec.env_from)} of them", DEDICATED_REMEDY)
