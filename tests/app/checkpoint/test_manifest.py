"""What a manifest says, and that those of earlier releases still load."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.app.alone import train_alone
from tests.app.builders_checkpoint import make_manifest, write_checkpoint
from tests.app.builders_rows import write_rows
from tests.builders import make_data, make_dataset
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.manifest import DatasetPosition, Manifest, TrackedObject
from trainshed.checkpoint.store import BadCheckpointError
from trainshed.storage.disk import Disk

if TYPE_CHECKING:
    from trainshed_api.loading import Document

# As the release before format 2 wrote it.
FORMAT_1 = """{
 "format": 1, "order": 2,
 "position": {"epoch": 1, "stepInEpoch": 0, "step": 10},
 "workers": 2, "specHash": "abc", "attempt": 1,
 "metrics": {"valid.loss": 0.5}, "scored": ["valid.loss"], "data": null,
 "files": {"model.pt": {"bytes": 5, "crc32": 7}}
}"""


def test_a_manifest_of_format_1_loads_and_names_no_objects() -> None:
    manifest = Manifest.model_validate_json(FORMAT_1)

    assert (manifest.format, manifest.position.step, manifest.objects) == (1, 10, None)
    assert (manifest.positions, manifest.columns, manifest.shuffle) == ({}, {}, {})
    assert manifest.own_metrics() == {"valid.loss": 0.5}


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = make_manifest().model_copy(
        update={
            "objects": {"model": TrackedObject(kind="model", files=("model-0.pt", "model-1.pt"))},
            "positions": {"other": DatasetPosition(epoch=2, step_in_epoch=3, spans_epochs=True)},
            "columns": {"train": {"x": "float32"}},
        }
    )

    assert Manifest.model_validate_json(manifest.model_dump_json(by_alias=True)) == manifest


def test_a_format_that_a_later_release_wrote_is_refused(tmp_path: Path) -> None:
    folder = write_checkpoint(Disk(tmp_path))
    later = json.loads(folder.read(checkpoint.MANIFEST)) | {"format": 3}
    folder.write(checkpoint.MANIFEST, json.dumps(later).encode())

    with pytest.raises(BadCheckpointError, match="format 3, which a later release wrote"):
        checkpoint.verify(folder)


def test_a_program_of_the_library_records_what_prediction_needs(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 24)
    config: Document = {"features": ["x"], "inputs": 4, "label": "y", "task": "regression"}
    left = train_alone(
        tmp_path,
        {
            "train": "trainshed.programs.tabular:train",
            "config": config,
            "epochs": 1,
            "batchSize": 8,
            "data": make_data(make_dataset(shuffle={"mode": "global"})),
        },
    )

    assert left.finished.outcome == "Succeeded", left.finished.message
    (written,) = checkpoint.candidates([left.folder.checkpoints(1)])
    manifest = checkpoint.verify(written)
    objects = manifest.objects or {}
    assert {name: found.kind for name, found in objects.items()} == {
        "model": "model",
        "optimizer": "optimizer",
        "scaler": "scaler",
        "scheduler": "scheduler",
    }
    assert {file for found in objects.values() for file in found.files} == set(manifest.files)
    assert manifest.shuffle == {"train": "global"}
    assert manifest.columns["train"]["y"] == "float32"
    assert manifest.prediction.features == ("x",)
    assert manifest.prediction.builder == "trainshed.programs.tabular:build_model"
    assert manifest.prediction.input_transform == "trainshed.programs.tabular:join_features"
    assert manifest.prediction.config == config
