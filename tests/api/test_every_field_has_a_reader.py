"""A field that nobody reads is a promise nobody keeps: its room must mention each by name."""

import ast
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from trainshed_api.checkpoint import BestSpec, CheckpointSpec
from trainshed_api.code import CodeSpec
from trainshed_api.data import DatasetSpec, DataSpec, FeedSpec, ShuffleSpec
from trainshed_api.failure import FailurePolicySpec, FailureRule
from trainshed_api.placement import ClusterSpec, DedicatedSpec, EnvFromSpec
from trainshed_api.rows import ReadSpec
from trainshed_api.syntax import parse_python
from trainshed_api.tracking import MLflowSpec, TrackingSpec, WandbSpec
from trainshed_api.transforms import AugmentSpec, CollateSpec, TaskSpec, TransformSpec
from trainshed_api.v1alpha1 import Metadata, TrainingRunSpec
from trainshed_api.workers import ResourcesSpec, WorkersSpec

ROOT = Path(__file__).parents[2]
APP = (ROOT / "app" / "trainshed",)
# What the controller creates is rendered in the contract's room, for the CLI shows it, too.
CONTROLLER = (
    ROOT / "controller" / "trainshed_controller",
    ROOT / "api" / "trainshed_api" / "rayjob.py",
    ROOT / "api" / "trainshed_api" / "job.py",
)
MODELS: tuple[type[BaseModel], ...] = (
    Metadata,
    TrainingRunSpec,
    WorkersSpec,
    ResourcesSpec,
    DataSpec,
    DatasetSpec,
    ReadSpec,
    TransformSpec,
    AugmentSpec,
    CollateSpec,
    TaskSpec,
    ShuffleSpec,
    FeedSpec,
    CheckpointSpec,
    BestSpec,
    CodeSpec,
    ClusterSpec,
    DedicatedSpec,
    EnvFromSpec,
    FailurePolicySpec,
    FailureRule,
    TrackingSpec,
    MLflowSpec,
    WandbSpec,
)


def fields_of(reader: str) -> list[str]:
    """Return Model.field for every field that the room reads; metadata is Kubernetes' own."""
    also = {"app": "both"}.get(reader)
    return [
        f"{model.__name__}.{name}"
        for model in MODELS
        for name, field in model.model_fields.items()
        if isinstance(field.json_schema_extra, dict)
        and field.json_schema_extra.get("readBy") in (reader, also)
        and not (reader == "controller" and model is Metadata)
    ]


@cache
def attributes_read(places: tuple[Path, ...]) -> frozenset[str]:
    """Return the name of every attribute that is read there."""
    files = [
        file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])
    ]
    return frozenset(
        node.attr
        for file in files
        for node in ast.walk(parse_python(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


@pytest.mark.parametrize("field", fields_of("app"))
def test_field_is_read_by_the_app(field: str) -> None:
    assert field.rpartition(".")[2] in attributes_read(APP)


@pytest.mark.parametrize("field", fields_of("controller"))
def test_field_is_read_by_the_controller(field: str) -> None:
    assert field.rpartition(".")[2] in attributes_read(CONTROLLER)
