"""Which fields of a spec do not fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, show_value

if TYPE_CHECKING:
    from trainshed_api.v1alpha1 import TrainingRunSpec

TRAIN_ONLY = ("config", "epochs", "batch_size", "precision", "data", "checkpoint")


def misfits(spec: TrainingRunSpec) -> list[Problem]:
    """Return what is wrong with fields that are right by themselves."""
    return _check_program(spec) + _check_entrypoint(spec) + _check_batch(spec)


def _check_program(spec: TrainingRunSpec) -> list[Problem]:
    if (spec.train is None) != (spec.entrypoint is None):
        return []
    got = "both train and entrypoint" if spec.train else "neither train nor entrypoint"
    return [Problem("", got, "exactly one: train (a function) or entrypoint (a command)")]


def _check_entrypoint(spec: TrainingRunSpec) -> list[Problem]:
    if spec.entrypoint is None or spec.train is not None:
        return []
    fields = type(spec).model_fields
    return [
        Problem(
            fields[name].alias or name,
            show_value(spec.model_dump(mode="json", include={name})[name]),
            "it only with train: an entrypoint has arguments of its own",
        )
        for name in TRAIN_ONLY
        if name in spec.model_fields_set
    ]


def _check_batch(spec: TrainingRunSpec) -> list[Problem]:
    if spec.train is None or spec.workers.count <= spec.batch_size:
        return []
    want = f"at least workers.count ({spec.workers.count}): each worker needs a row of every batch"
    return [Problem("batchSize", str(spec.batch_size), want)]
