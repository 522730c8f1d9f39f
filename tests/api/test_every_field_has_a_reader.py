"""A field that nobody reads is a promise nobody keeps: the app must mention each by name."""

import ast
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from trainshed_api.checkpoint import BestSpec, CheckpointSpec
from trainshed_api.code import CodeSpec
from trainshed_api.data import DatasetSpec, DataSpec, FeedSpec, ShuffleSpec
from trainshed_api.rows import AugmentSpec, ReadSpec, TransformSpec
from trainshed_api.v1alpha1 import Metadata, TrainingRunSpec
from trainshed_api.workers import ResourcesSpec, WorkersSpec

APP = Path(__file__).parents[2] / "app" / "trainshed"
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
    ShuffleSpec,
    FeedSpec,
    CheckpointSpec,
    BestSpec,
    CodeSpec,
)


def app_fields() -> list[str]:
    """Return Model.field for every field whose reader is the app."""
    return [
        f"{model.__name__}.{name}"
        for model in MODELS
        for name, field in model.model_fields.items()
        if isinstance(field.json_schema_extra, dict)
        and field.json_schema_extra.get("readBy") != "controller"
    ]


@cache
def attributes_read() -> frozenset[str]:
    """Return the name of every attribute that the app reads."""
    return frozenset(
        node.attr
        for file in APP.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


@pytest.mark.parametrize("field", app_fields())
def test_field_is_read_by_the_app(field: str) -> None:
    assert field.rpartition(".")[2] in attributes_read()
